"""Tune and put back: on a /sys of our own, and in one test on this machine's."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfrunner.errors import HostError
from perfrunner.experiment.preflight import hosts
from perfrunner.hosts import Host, open_host
from perfrunner.hosts.tuning import BY_HAND, SETTINGS, STATE, SYS_CPU, restore, tune, tuned_by
from perfrunner.spec.cluster import ClusterSpec, HostSpec

pytestmark = pytest.mark.integration

FILES = {
    f"{SYS_CPU}/cpu0/cpufreq/scaling_governor": "powersave",
    f"{SYS_CPU}/cpu1/cpufreq/scaling_governor": "schedutil",
    f"{SYS_CPU}/intel_pstate/no_turbo": "0",
    "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
    "/proc/sys/vm/swappiness": "60",
    f"{SYS_CPU}/online": "0-3",
    "/proc/irq/24/smp_affinity_list": "0-3",
    "/proc/irq/25/smp_affinity_list": "0",
    "/proc/irq/26/smp_affinity_list": "3",
}
QUIET = {
    f"{SYS_CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{SYS_CPU}/cpu1/cpufreq/scaling_governor": "performance",
    f"{SYS_CPU}/intel_pstate/no_turbo": "1",
    "/sys/kernel/mm/transparent_hugepage/enabled": "madvise",
    "/proc/sys/vm/swappiness": "1",
    **{name: value for name, value in FILES.items() if "irq" in name or "online" in name},
}
BEFORE = {**FILES, "/sys/kernel/mm/transparent_hugepage/enabled": "always"}  # as it is written


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, value in FILES.items():
        file = tmp_path / "root" / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return tmp_path / "root"


def values(root: Path) -> dict[str, str]:
    return {name: (root / name.lstrip("/")).read_text().strip() for name in FILES}


def test_all_that_the_host_has_is_set_and_put_back(host: Host, root: Path) -> None:
    done = tune(host, "run-1", root=str(root))
    assert values(root) == QUIET
    assert len(done.changed) == 5
    assert done.refused == ()
    assert tuned_by(host) == "run-1"
    assert restore(host, "another", root=str(root)) == (), "another's is left"
    assert len(restore(host, root=str(root))) == 5
    assert values(root) == BEFORE
    assert tuned_by(host) is None
    assert restore(host, root=str(root)) == ()


def test_all_that_this_machine_has_is_set_or_refused_and_put_back(host: Host) -> None:
    """A container may forbid all of it, a virtual machine has no governor."""
    paths = [path for _, pattern, _ in SETTINGS for path in map(str, Path("/").glob(pattern[1:]))]
    assert "/proc/sys/vm/swappiness" in paths
    before = {path: chosen(path) for path in paths}
    after = {
        path: value for _, pattern, value in SETTINGS for path in paths if fnmatch(path, pattern)
    }
    other = [path for path in paths if before[path] != after[path]]
    try:
        done = tune(host, "run-1")
        assert sorted([*(change.path for change in done.changed), *done.refused]) == sorted(other)
        for path in paths:
            assert chosen(path) == (before if path in done.refused else after)[path]
    finally:
        restore(host)
    assert {path: chosen(path) for path in paths} == before
    assert tuned_by(host) is None


def chosen(path: str) -> str:
    text = Path(path).read_text().strip()
    return text.partition("[")[2].partition("]")[0] or text


@pytest.mark.parametrize(
    ("engine", "after"), [("0-1", ["2-3", "2-3", "3"]), ("3", ["0-2", "0", "0-2"]), ("0-3", [])]
)
def test_interrupts_are_kept_off_the_engines_cpus(
    host: Host, root: Path, engine: str, after: list[str]
) -> None:
    interrupts = [name for name in FILES if "irq" in name]
    tune(host, "run-1", engine, root=str(root))
    assert [values(root)[name] for name in interrupts] == (
        after or [FILES[name] for name in interrupts]
    ), "an engine that has every CPU leaves them none to go to"
    restore(host, root=str(root))
    assert values(root) == BEFORE


def test_twice_keeps_the_first_values(host: Host, root: Path) -> None:
    tune(host, "one", root=str(root))
    assert tune(host, "two", root=str(root)).changed == ()
    (root / "proc/sys/vm/swappiness").write_text("60\n")
    tune(host, "two", root=str(root))
    restore(host, root=str(root))
    assert values(root) == BEFORE


def test_a_reboot_ends_a_tuning(host: Host, root: Path) -> None:
    """Then the owner and the first values of before the reboot are of no use."""
    tune(host, BY_HAND, root=str(root))
    state = Path(host.work_dir, STATE)
    earlier = json.loads(state.read_text()) | {"boot_id": "00000000-0000-0000-0000-000000000000"}
    state.write_text(json.dumps(earlier))
    for name, value in {**FILES, "/proc/sys/vm/swappiness": "30"}.items():
        (root / name.lstrip("/")).write_text(f"{value}\n")
    assert tuned_by(host) is None
    tune(host, "run-1", root=str(root))
    assert tuned_by(host) == "run-1"
    restore(host, "run-1", root=str(root))
    assert values(root) == {**BEFORE, "/proc/sys/vm/swappiness": "30"}
    state.write_text(json.dumps(earlier))
    assert restore(host, root=str(root)) == ()
    assert not state.exists()


def test_what_somebody_else_has_set_during_that_stays(host: Host, root: Path) -> None:
    tune(host, "one", root=str(root))
    (root / "proc/sys/vm/swappiness").write_text("10\n")
    restore(host, root=str(root))
    assert values(root) == {**BEFORE, "/proc/sys/vm/swappiness": "10"}


def test_what_refuses_is_reported_and_not_kept(host: Host, root: Path) -> None:
    governor = root / SYS_CPU.lstrip("/") / "cpu0" / "cpufreq" / "scaling_governor"
    governor.unlink()
    governor.symlink_to("/proc/sys/kernel/osrelease")  # readable, and nobody may write it
    done = tune(host, "one", root=str(root))
    assert f"{SYS_CPU}/cpu0/cpufreq/scaling_governor" in done.refused
    assert len(done.changed) == 4
    restore(host, root=str(root))
    assert (root / "proc/sys/vm/swappiness").read_text() == "60\n"


def test_a_forged_state_writes_to_no_other_file(host: Host, root: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("now\n")
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    Path(host.work_dir, STATE).write_text(
        f'{{"owner": "x", "boot_id": "{boot_id}", "files": {{"{precious}": ["gone", "now"]}}}}'
    )
    with pytest.raises(HostError, match="is damaged"):
        restore(host)
    assert precious.read_text() == "now\n"


def test_what_a_killed_run_left_is_put_back_at_the_next_start(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(function):
        return lambda host, *words: function(host, *words, root=str(root))

    monkeypatch.setattr(hosts, "tune", at(tune))
    monkeypatch.setattr(hosts, "restore", at(restore))
    here = {"h": HostSpec(work_dir=str(tmp_path / "work"))}
    cluster = ClusterSpec(
        name="c", transport="local", hosts=here, engine_nodes=("h",), load_clients=("h",)
    )
    listener = SimpleNamespace(on_event=lambda event: None)
    with open_host(here["h"], "local", name="h") as host:
        tune(host, "a run that was killed", root=str(root))
    with hosts.open_hosts(cluster, "next", listener):
        assert values(root) == BEFORE
    with hosts.open_hosts(cluster, "quiet", listener, tune=True) as opened:
        assert values(root) == QUIET, "engine.cpus names none: interrupts stay"
        assert opened.changes(opened.facts) == [], "the facts are those of the tuned host"
    with hosts.open_hosts(cluster, "apart", listener, tune=True, engine_cpus="0-1"):
        assert values(root)["/proc/irq/25/smp_affinity_list"] == "2-3"
    assert values(root) == BEFORE
    with open_host(here["h"], "local", name="h") as host:
        tune(host, BY_HAND, root=str(root))
    with hosts.open_hosts(cluster, "other", listener):
        assert values(root) == QUIET, "by hand: until untune"
