"""Which CPUs engine and load get, from the topology and the spec."""

from __future__ import annotations

import pytest

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.placement import Cpu, CpuSets, choose, pinned
from perfrunner.spec.units import cpu_numbers


def cores(count: int, threads: int = 1, packages: int = 1) -> list[Cpu]:
    """As Linux numbers them: first one thread of every core, then the second."""
    return [
        Cpu(package=core * packages // count, l3=core * packages // count, core=core, os_index=core + thread * count)
        for thread in range(threads)
        for core in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("topology", "engine", "client"),
    [
        (cores(1), "", ""),
        (cores(2), "0", "1"),
        (cores(3), "0", "1-2"),
        (cores(4), "0-1", "2-3"),
        (cores(1, threads=2), "0", "1"),
        (cores(4, threads=2), "0-1,4-5", "2-3,6-7"),
        (cores(4, packages=2), "0-1", "2-3"),
    ],
)
def test_auto_splits_whole_cores(topology: list[Cpu], engine: str, client: str) -> None:
    assert choose("auto", "auto", topology, together=True) == CpuSets(engine, client)


def test_no_core_has_threads_in_both() -> None:
    topology = cores(6, threads=2)
    sets = choose("auto", "auto", topology, together=True)
    core_of = {cpu.os_index: cpu.core for cpu in topology}
    engine, client = ({core_of[n] for n in cpu_numbers(s)} for s in (sets.engine, sets.client))
    assert not engine & client
    assert engine | client == set(range(6))


def test_what_the_spec_says_wins_and_the_other_gets_the_rest() -> None:
    assert choose("0-2", "auto", cores(4), together=True) == CpuSets("0-2", "3")
    assert choose("auto", "0", cores(4), together=True) == CpuSets("1-3", "0")
    assert choose("any", "any", cores(4), together=True) == CpuSets()
    assert choose("0-3", "auto", cores(4), together=True) == CpuSets("0-3", "")


def test_hosts_apart_are_left_alone_unless_the_spec_says_otherwise() -> None:
    assert choose("auto", "auto", cores(4), together=False) == CpuSets()
    assert choose("1", "7", cores(4), together=False) == CpuSets("1", "7")


def test_a_cpu_that_we_may_not_use_is_refused() -> None:
    with pytest.raises(TrialError, match=r"engine\.cpus is 9, but only CPUs 0-3 are available"):
        choose("9", "auto", cores(4), together=True)


def test_the_command_is_wrapped_only_when_there_is_something_to_pin() -> None:
    assert pinned(["x"], "") == ["x"]
    assert pinned(["x"], "0-1") == ["taskset", "-c", "0-1", "x"]
