"""Builds on a named host, over SSH to an sshd of our own: the same artifact, and nothing left when it is cut off."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner, Result

# importlib mode: sshd.py is in no package
sys.path.insert(0, str(Path(__file__).parents[1]))

from sshd import Sshd, raised_sshd

from perfrunner.build import remote
from perfrunner.build.artifact import Artifact, sums_of
from perfrunner.build.builder import build_variant
from perfrunner.build.builders import Builder, Platform, open_builder
from perfrunner.build.layout import relink
from perfrunner.cli import main
from perfrunner.errors import BuildError, HostError, PerfrunnerError
from perfrunner.experiment.preflight.doctor import examine
from perfrunner.experiment.preflight.hosts import open_hosts
from perfrunner.hosts import LinkLost, open_host
from perfrunner.hosts.process import BASE_ENVIRONMENT
from perfrunner.spec.cluster import ClusterSpec
from tests.support.tiny_engine import variant
from tests.support.waiting import until

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with raised_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def cluster_of(
    sshd: Sshd, tmp_path: Path, transport: Literal["local", "ssh"] = "ssh", **changes: Any
) -> ClusterSpec:
    """kv1 measures and `maker` builds; on the local transport one host does both."""
    hosts: dict[str, Any] = {"maker": sshd.host_spec(tmp_path / "maker")}
    if transport == "ssh":
        hosts["kv1"] = sshd.host_spec(tmp_path / "kv1")
    node = next(reversed(hosts))
    return ClusterSpec.model_validate(
        {
            "name": "lab",
            "transport": transport,
            "hosts": hosts,
            "engine_nodes": [node],
            "load_clients": [node],
            "build_host": "maker",
            **changes,
        }
    )


@pytest.fixture
def maker(sshd: Sshd, tmp_path: Path) -> Iterator[Builder]:
    with open_builder(cluster_of(sshd, tmp_path), tmp_path / "cache", "r") as builder:
        yield builder


def contents(artifact: Artifact) -> dict[str, str]:
    """By file its sum; the provenance says when and where it was built."""
    return {k: v for k, v in sums_of(artifact.path).items() if k != "provenance.json"}


def test_what_is_built_there_is_what_is_built_here(
    engine: Path, maker: Builder, tmp_path: Path
) -> None:
    here = build_variant(variant(), engine, tmp_path / "here")
    lines: list[str] = []
    there = maker.build(variant(), engine, lines.append)
    assert (there.build_id, there.cached) == (here.build_id, False)
    assert contents(there) == contents(here)
    assert there.path == tmp_path / "cache" / "artifacts" / there.build_id
    assert [p.stat().st_mode & 0o777 for p in sorted((there.path / "bin").iterdir())] == [0o755] * 2
    assert "sending the source to maker" in lines
    assert [line for line in lines if line.startswith("[")], "ninja's [n/m] reaches the watcher"
    facts = there.provenance
    assert facts["build_host"] == "maker"
    assert facts["built_on"] == here.provenance["built_on"], "both are this machine"
    assert facts["source"] == here.provenance["source"]

    lines.clear()
    assert maker.build(variant(), engine, lines.append).cached is True
    assert lines == []
    shutil.rmtree(tmp_path / "cache" / "artifacts")
    fetched = maker.build(variant(), engine, lines.append)
    assert (fetched.cached, contents(fetched)) == (True, contents(here))
    assert lines == [f"fetching build {here.build_id} from maker"]

    (source,) = (tmp_path / "maker" / "build" / "sources").iterdir()
    sent = (source / ".sha256sums").stat().st_ino
    lines.clear()
    maker.build(variant(options={"ht_stats": "llc"}), engine, lines.append)
    compiled = [line for line in lines if "Building CXX object" in line]
    assert [line.rpartition("/")[2] for line in compiled] == ["store.cc.o"]
    assert (source / ".sha256sums").stat().st_ino == sent, "one content is sent once"

    linked = maker.relink(there, 7, ("kv_engine",))
    assert contents(linked) == contents(relink(here, 7))
    assert linked.provenance["build_host"] == "maker"
    assert not (tmp_path / "maker/build/artifacts" / linked.build_id).exists(), "no pile of links"


def test_a_build_fits_into_the_memory_of_the_host(
    engine: Path, maker: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"cpus": 64, "memory_available_bytes": 10**9}
    monkeypatch.setattr("perfrunner.build.remote.read_facts", lambda _: facts)
    maker.build(variant(), engine)
    (log,) = (tmp_path / "maker" / "build" / "logs").glob("*.log")
    (command,) = [line for line in log.read_text().splitlines() if " -j" in line]
    assert command.endswith(" -j1")


def test_a_build_that_fails_shows_its_errors_and_its_log_is_here(
    engine: Path, maker: Builder, tmp_path: Path
) -> None:
    (engine / "room.cc").write_text("no C++ at all\n")
    with pytest.raises(
        BuildError, match=r"^maker: the engine's build step failed \(status 1\)"
    ) as caught:
        maker.build(variant(), engine)
    assert "room.cc:1:1: error: " in caught.value.message
    (log,) = (tmp_path / "cache" / "logs").iterdir()
    assert caught.value.message.endswith(f"log: {log}")
    assert "$ " in log.read_text()


@pytest.mark.parametrize(
    ("present", "message", "hint"),
    [
        ((), "maker: python3 is not installed", "apt-get install python3 (on maker)"),
        (("python3",), "maker: no C++ compiler found", "apt-get install g++ (on maker)"),
        (
            ("python3", "g++", "gcc"),
            "maker: cmake is not installed",
            "apt-get install cmake (on maker)",
        ),
    ],
)
def test_a_tool_that_the_host_lacks(
    engine: Path,
    maker: Builder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    present: tuple[str, ...],
    message: str,
    hint: str,
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    absent = re.compile(
        r"python|cmake|ninja|(x86_64|aarch64)-|(c|g|clang|gcc|cpp|cc|c89|c99)(\+\+)?(-|$|[0-9])"
    )
    for program in Path("/usr/bin").iterdir():
        if program.name in present or not absent.match(program.name):
            (tools / program.name).symlink_to(program)
    monkeypatch.setitem(BASE_ENVIRONMENT, "PATH", str(tools))  # type: ignore[arg-type]
    with pytest.raises(BuildError) as caught:
        maker.build(variant(), engine)
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message
    assert caught.value.hint == hint


def test_the_chosen_compiler_goes_along(
    engine: Path, maker: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match=r"maker: \$CXX: no-such-compiler is not a program"):
        maker.build(variant(), engine)


@pytest.mark.long
@pytest.mark.parametrize("size", ["40k", "120k", "400k"])
def test_a_full_disk_there(engine: Path, sshd: Sshd, tmp_path: Path, size: str) -> None:
    """Full when the builder is sent, when the source is, and when CMake writes."""
    work = tmp_path / "maker"
    work.mkdir(mode=0o700)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(work)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system of its own needs root")
    try:
        with (
            open_builder(cluster_of(sshd, tmp_path), tmp_path / "cache", "r") as maker,
            pytest.raises(PerfrunnerError) as caught,
        ):
            maker.build(variant(), engine)
    finally:
        subprocess.run(["umount", "-l", str(work)], check=True)
    assert caught.value.message.startswith("maker: ")
    assert "No space left on device" in caught.value.message
    assert "free some" in (caught.value.hint or "")


def running(word: str) -> list[str]:
    """Command lines that hold this word; our own test process aside."""
    results = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in text and path.parent.name != str(os.getpid()):
            results.append(text)
    return results


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("ctrl-c", marks=pytest.mark.long),
        pytest.param("ctrl-c local", marks=pytest.mark.long),
        "lost link",
    ],
)
def test_a_build_that_is_cut_off_leaves_no_process(
    engine: Path, sshd: Sshd, tmp_path: Path, how: str
) -> None:
    sleep = f"sleep 9{os.getpid()}.{len(how)}"
    lists = engine / "CMakeLists.txt"
    text = lists.read_text()
    lists.write_text(f"{text}add_custom_target(slow ALL COMMAND {sleep})\n")
    lines: list[str] = []

    def cut(line: str) -> None:
        lines.append(line)
        if not line.startswith("[") or len([s for s in lines if s.startswith("[")]) > 1:
            return
        until(lambda: sleep in "".join(running(sleep)), "the build does not begin")
        if how != "lost link":
            raise KeyboardInterrupt
        sshd.cut()

    cluster = cluster_of(sshd, tmp_path, "local" if how.endswith("local") else "ssh")
    with open_builder(cluster, tmp_path / "cache", "r") as maker:
        with pytest.raises((KeyboardInterrupt, LinkLost)):
            maker.build(variant(), engine, cut)
        until(lambda: not running(sleep), f"it still runs: {running(sleep)}")
        builder = str(tmp_path / "maker" / "builder")
        until(lambda: not running(builder), f"it still runs: {running(builder)}")
        lists.write_text(text)
        assert maker.build(variant(), engine).cached is False


CONTROLLER = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.support.tiny_engine import variant
from perfrunner.build.builders import open_builder
from perfrunner.spec.cluster import ClusterSpec
with open_builder(ClusterSpec.model_validate(json.loads(sys.argv[2])), Path(sys.argv[3]), "r") as maker:
    maker.build(variant(), Path(sys.argv[4]))
"""


@pytest.mark.slow
def test_a_controller_that_is_killed_leaves_no_process(
    engine: Path, sshd: Sshd, tmp_path: Path
) -> None:
    sleep = f"sleep 9{os.getpid()}.5"
    with (engine / "CMakeLists.txt").open("a") as lists:
        lists.write(f"add_custom_target(slow ALL COMMAND {sleep})\n")
    given = [
        ROOT,
        cluster_of(sshd, tmp_path).model_dump_json(),
        tmp_path / "cache",
        engine,
    ]
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, *given], cwd=ROOT) as controller:
        until(lambda: bool(running(sleep)), "the build does not begin")
        controller.kill()
    builder = str(tmp_path / "maker" / "builder")
    until(lambda: not running(sleep) and not running(builder), "it goes on")


def test_it_waits_for_a_measurement_on_the_build_host(
    engine: Path, sshd: Sshd, maker: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_AGAIN_EVERY_S", 0.05)
    lines: list[str] = []
    spec = sshd.host_spec(tmp_path / "maker")
    with open_host(spec, "ssh", name="maker", run_id="other") as other:
        other.lock()

        def release(line: str) -> None:
            lines.append(line)
            if line.startswith("waiting: "):
                other.unlock()

        assert maker.build(variant(), engine, release).cached is False
    assert "is in use by run other of" in lines[0]


def test_a_link_waits_for_a_build_host_that_is_away(
    engine: Path, maker: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = maker.build(variant(), engine)
    asked = maker.host.boot_id
    away: list[str] = []

    def boot_id() -> str:
        if away:
            raise HostError(f"maker: cannot connect, {away.pop()}")
        return asked()

    monkeypatch.setattr(maker.host, "boot_id", boot_id)
    monkeypatch.setattr(remote, "_AGAIN_EVERY_S", 0.01)
    lines: list[str] = []
    away[:] = ["third", "second", "first"]
    assert maker.relink(built, 3, ("kv_engine",), lines.append).build_id != built.build_id
    assert lines == ["waiting for the build host: maker: cannot connect, first"], "told once"
    monkeypatch.setattr(remote, "AWAY_PATIENCE_S", 0.0)
    away[:] = ["again"]
    with pytest.raises(HostError, match="cannot connect, again"):
        maker.relink(built, 4, ("kv_engine",), lines.append)


class _Silent:
    def on_event(self, event: object) -> None:
        """Nobody watches."""


@pytest.mark.long
@pytest.mark.parametrize("same", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_run_that_has_the_host_does_not_wait_for_itself(
    engine: Path, sshd: Sshd, tmp_path: Path, same: bool
) -> None:
    """One host that does both, or two hosts that are one machine."""
    cluster = cluster_of(sshd, tmp_path, build_host="kv1" if same else "maker")
    lines: list[str] = []
    with (
        open_builder(cluster, tmp_path / "cache", "r") as opened,
        open_hosts(cluster, "r", _Silent(), built_for=opened.platform) as hosts,
    ):
        maker = opened.with_hosts(hosts.hosts)
        assert (maker.held, maker.machine) == (same, False)
        maker.build(variant(), engine, lines.append)
    assert not [line for line in lines if line.startswith("waiting")]


def command(tmp_path: Path, cluster: ClusterSpec, *words: str) -> Result:
    spec = {
        "name": "x",
        "cluster": cluster.model_dump(mode="json", exclude_none=True),
        "baseline": "a",
        "variants": {"a": {"allocator": {"name": "system"}}},
        "workloads": {"pf": {"type": "pillowfight", "items": 100, "duration": 3}},
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    given = [words[0], str(tmp_path / "spec.yaml"), *words[1:], "--cache", str(tmp_path / "cache")]
    return CliRunner().invoke(main, given)


@pytest.mark.parametrize("words", [["build"], ["run", "--out", "OUT"]])
@pytest.mark.parametrize("fault", ["unreachable", "another machine"])
def test_refused_before_anything_is_started(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], fault: str
) -> None:
    cluster = cluster_of(sshd, tmp_path)
    if fault == "unreachable":
        hosts = {**cluster.hosts, "maker": sshd.host_spec(tmp_path / "maker", port=1)}
        cluster = cluster.model_copy(update={"hosts": hosts})
    else:
        variant = Platform("Linux", "aarch64", "glibc 2.36", "on maker")
        monkeypatch.setattr("perfrunner.build.builders.platform_of", lambda name, facts: variant)
    words = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    done = command(tmp_path, cluster, *words)
    assert done.exit_code == 3, done.stderr
    if fault == "unreachable":
        assert "maker (" in done.stderr
        assert "cannot connect" in done.stderr
        assert not (tmp_path / "kv1").exists(), "the measured host was not even looked at"
    else:
        assert "programs are built on maker for aarch64" in done.stderr
        assert "build_host" in done.stderr
        assert not (tmp_path / "kv1" / "runs").exists()
    assert not (tmp_path / "maker" / "build").exists(), "nothing was built"


def test_the_doctor_looks_at_the_build_host(sshd: Sshd, tmp_path: Path) -> None:
    results = {(f.place, f.subject): f for f in examine(cluster_of(sshd, tmp_path), None)}
    tools = results["maker", "build tools"]
    assert tools.grade == "ok"
    assert "cmake 3." in tools.text
    assert results["maker", "cargo"].grade in ("ok", "warning")
    assert results["kv1", "programs"].grade == "ok"
    assert not [place for place, _ in results if place == "this machine"]


def test_the_doctor_tells_what_the_build_host_lacks(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    tools = next(f for f in examine(cluster_of(sshd, tmp_path), None) if f.place == "maker")
    assert (tools.grade, tools.text) == (
        "problem",
        "maker: $CXX: no-such-compiler is not a program on this machine",
    )
