"""Instructions of the real engine per operation: the count repeats; and what is reported when nothing can count."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from perfrunner.errors import TrialError
from perfrunner.hosts import Host, open_host
from perfrunner.hosts.process import BASE_ENVIRONMENT
from perfrunner.measure import instructions
from perfrunner.measure.instructions import (
    CountedEngine,
    CountedLoad,
    count_instructions,
    offered,
)
from perfrunner.spec.cluster import HostSpec
from tests.support.built import built

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
KEYS = [
    "--num-items=2000", "--num-threads=1", "--connections=1", "--batch-size=100", "--min-size=256",
    "--max-size=256", "--vbuckets=16", "--random-seed=7",
]  # fmt: skip
LOAD = CountedLoad(populate=KEYS, access=[*KEYS, "--set-pct=80", "--key-semantics=random"])


@pytest.fixture(scope="module")
def engine() -> CountedEngine:
    """A build of the defaults with the system's allocator (scripts/test makes it)."""
    artifact = str(built("kv_engine", "pillowfight"))
    arguments = ["--bucket-type=ephemeral", "--quota-mb=256", "--vbuckets=16", "--threads=1"]
    return CountedEngine(artifact, arguments, {}, artifact)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as opened:
        yield opened
        assert opened.processes() == []


@pytest.mark.long
@pytest.mark.slow
def test_callgrind_counts_the_same_twice(host: Host, engine: CountedEngine) -> None:
    counts = [
        count_instructions(
            host.transport, engine, LOAD, directory="counted", ops=50_000, method="callgrind"
        )
        for _ in range(2)
    ]
    single, two = (count.front_end_per_op for count in counts)
    assert single is not None
    assert two is not None
    assert 500 < single < 20_000
    # The margin of instructions_per_op (docs/reference/metrics.md).
    assert abs(single / two - 1) < 0.002
    for count in counts:
        assert count.per_op == pytest.approx(count.front_end_per_op, rel=0.05)
    assert not host.transport.exists("counted")


PERF = """#!/bin/sh
# perf stat -x, -e instructions:u (true | -p PID -o FILE -- COMMAND...)
shift 4
if [ "$1" = true ]; then echo "5,,instructions:u,1,100.00,," >&2; exit; fi
kill -0 "$2" || exit 9
file=$4
shift 5
"$@" && echo "100000,,instructions:u,1,100.00,," >"$file"
"""


def tool(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def first_on_path(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Commands on a host have an environment of their own, whatever the caller's is."""
    path = f"{directory}:{BASE_ENVIRONMENT['PATH']}"
    monkeypatch.setitem(cast("dict[str, str]", BASE_ENVIRONMENT), "PATH", path)


def test_the_processors_counters_come_first(
    host: Host, engine: CountedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """perf itself is played: many machines have no counters. The engine, the load and the order are real."""
    tool(tmp_path, "perf", PERF)
    first_on_path(monkeypatch, tmp_path)
    monkeypatch.setattr(instructions, "SETTLE_S", 0.0)
    count = count_instructions(host.transport, engine, LOAD, directory="counted", ops=2000)
    assert (count.method, count.per_op, count.front_end_per_op) == ("counters", 50.0, None)


def test_the_way_that_is_there(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "perf", "#!/bin/sh\necho '<not supported>,,instructions:u,0,100.00,,' >&2\n")
    tool(tmp_path, "valgrind", "#!/bin/sh\necho valgrind-3.19.0\n")
    first_on_path(monkeypatch, tmp_path)
    assert offered(host.transport) == "callgrind"
    tool(tmp_path, "valgrind", "#!/bin/sh\nexit 127\n")
    with pytest.raises(TrialError, match="neither hardware counters nor valgrind") as caught:
        offered(host.transport)
    assert caught.value.hint == "apt-get install valgrind"


def test_an_engine_that_does_not_start(host: Host, engine: CountedEngine, tmp_path: Path) -> None:
    broken = CountedEngine(engine.artifact, ["--no-such-option"], {}, engine.artifact)
    with pytest.raises(TrialError, match=r"did not start .*no-such-option"):
        count_instructions(
            host.transport, broken, LOAD, directory="counted", ops=1, method="counters"
        )
    assert not host.transport.exists("counted")
