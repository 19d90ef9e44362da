"""Servers in containers that podman really runs, from an image with Debian's memcached and nothing else."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # importlib mode: sshd.py is in no package

from sshd import Sshd, raised_sshd

from tests.integration.servers.conftest import ServerLab, memcached, program, settings_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.long]

IMAGE = "localhost/perfrunner-test-memcached"
PRINTS = "print-and-exit"  # a program of the image
C_SOURCE = '#include <stdio.h>\nint main(void) { fputs("no such option\\n", stderr); return 9; }\n'
# A test may itself run in a container, where these are not to be had.
SETTINGS = """\
[containers]
pids_limit = 0
default_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{0}/root"\nrunroot = "{0}/run"\n'


class Podman:
    """An image store of a test; nothing of the machine's is read or written."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}  # on top of that of the tests

    def ran(self, *argv: str) -> str:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **self.environment}
        )  # fmt: skip
        assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()

    def make(self, directory: Path, *labels: str) -> None:
        """Make the image of a directory's files. Another label makes another image of that name."""
        working = self.ran("buildah", "from", "scratch")
        self.ran("buildah", "copy", working, str(directory), "/")
        for label in labels:
            self.ran("buildah", "config", "--label", label, working)
        self.ran("buildah", "commit", "--rm", working, IMAGE)

    def containers(self) -> list[str]:
        return self.ran("podman", "ps", "--all", "--quiet").split()


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Podman]:
    if os.geteuid() != 0:
        pytest.skip("needs root, to run containers")
    if missing := [tool for tool in ("buildah", "podman", "runc") if not shutil.which(tool)]:
        pytest.fail(f"needs {', '.join(missing)}: run scripts/test --slow")
    store = tmp_path / "containers"
    store.mkdir()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    (store / "containers.conf").write_text(SETTINGS.format(files=files))
    (store / "storage.conf").write_text(STORAGE.format(store))
    monkeypatch.setenv("CONTAINERS_CONF", str(store / "containers.conf"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(store / "storage.conf"))
    made = Podman()
    root = files_of(tmp_path / "image")
    made.make(root)
    yield made
    made.ran("podman", "rm", "--all", "--force", "--time", "0")


def files_of(root: Path) -> Path:
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/none\n")
    (root / "usr/bin").mkdir(parents=True)
    subprocess.run(
        ["gcc", "-static", "-o", str(root / "usr/bin" / PRINTS), "-x", "c", "-"],
        input=C_SOURCE, text=True, check=True,
    )  # fmt: skip
    real = program("memcached")
    linked = subprocess.run(["ldd", real], capture_output=True, text=True, check=True).stdout
    for file in (real, *(word for word in linked.split() if word.startswith("/"))):
        target = root / file[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return root


def contained(*words: str, image: str = IMAGE, name: str = "memcached") -> dict[str, Any]:
    return {"server": {"image": image, "command": [name, "-p", "{port}", *words]}}


def test_the_process_in_the_container_is_measured(
    servers: ServerLab, podman: Podman, tmp_path: Path
):
    """Next to the same program of this machine: memory and CPU time are those of memcached, not podman's."""
    contained_env = {**contained("-t", "1"), "env": {"A": "b c"}}
    servers.write(
        {"native": memcached("-t", "1"), "contained": contained_env}, {"duration": 1.5}, blocks=2
    )
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    data = servers.data()
    assert {trial.status for trial in data.trials} == {"ok"}, [t.reason for t in data.trials]
    native, inside = (
        [trial.metrics for trial in data.trials if trial.variant == name]
        for name in ("native", "contained")
    )
    for a, b in zip(native, inside, strict=True):
        assert b["rss_bytes"] == pytest.approx(a["rss_bytes"], rel=0.25)
        assert b["server_cpu_us_per_op"] == pytest.approx(a["server_cpu_us_per_op"], rel=0.8)
        assert b["mem_used_bytes"] == pytest.approx(a["mem_used_bytes"], rel=0.1)
    builds = {build.variant: build for build in data.builds}
    made = podman.ran("podman", "image", "inspect", "--format", "{{.Id}} {{.Digest}}", IMAGE)
    described = builds["contained"].provenance["server"]
    assert f"{described['sha256']} {described['digest']}" == made
    assert settings_of(driver, "contained")["server.image"] == f"{IMAGE} {described['digest']}"
    assert podman.containers() == []
    servers.assert_nothing_left()
    (raw,) = [t.raw_dir for t in data.trials if t.variant == "contained" and t.block == 1]
    done = subprocess.run(
        ["bash", str(servers.out / raw / "reproduce.sh")],
        capture_output=True, text=True, check=False, timeout=600,
        env={"OUT": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    until(lambda: podman.containers() == [], "the script leaves a container")


def test_its_threads_run_on_the_servers_cpus(servers: ServerLab, podman: Podman):
    servers.write(
        {"one": contained(), "two": contained("-t", "1")},
        {"duration": 20},
        engine={"cpus": "0"},
        client={"cpus": "any"},
    )
    driver = servers.start(fakes={"artifact": servers.artifact})
    driver.wait_for("TrialPhase", phase="access")
    pids = podman.ran("podman", "ps", "--format", "{{.Pid}}").split()
    assert len(pids) == 2
    for pid in pids:
        assert Path(f"/proc/{pid}/comm").read_text() == "memcached\n"
        for thread in Path(f"/proc/{pid}/task").iterdir():
            assert os.sched_getaffinity(int(thread.name)) == {0}
    os.kill(driver.process.pid, signal.SIGINT)
    assert driver.finish() == 130
    assert podman.containers() == []
    servers.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_container_is_left_by_a_run_that_was_killed(
    servers: ServerLab, podman: Podman, number: signal.Signals
):
    """After SIGKILL as for all servers: the next run on that work directory ends them."""
    servers.write({"one": contained(), "two": contained("-t", "1")}, {"duration": 20})
    driver = servers.start(fakes={"artifact": servers.artifact})
    driver.wait_for("TrialPhase", phase="access")
    assert len(podman.containers()) == 2
    os.kill(driver.process.pid, number)
    driver.finish()
    if number == signal.SIGKILL:
        # podman killed as well, so that nothing passes a signal on to the containers.
        for pid in podman.ran("pgrep", "--full", "podman run .*--name=perfrunner-").split():
            if str(servers.directory) in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(int(pid), signal.SIGKILL)
        assert len(podman.containers()) == 2
        servers.write({"one": memcached(), "two": memcached("-t", "1")})
        assert servers.measure()[0] == 0
    assert podman.containers() == []
    servers.assert_nothing_left()


def test_a_moved_name_is_another_build(servers: ServerLab, podman: Podman, tmp_path: Path):
    servers.write({"one": contained(), "two": memcached()})
    assert servers.measure()[0] == 0
    first = {build.variant: build.build_id for build in servers.data().builds}
    podman.make(tmp_path / "image", "version=2")
    assert servers.measure()[0] == 0
    second = {build.variant: build.build_id for build in servers.data().builds}
    assert first["one"] != second["one"]
    assert first["two"] == second["two"]


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        (PRINTS, ["ended while it started (exit 9): no such option"]),
        ("no-such-program", ["ended while it started (exit 127)", "no-such-program"]),
    ],
)
def test_a_container_that_ends_at_once(
    servers: ServerLab, podman: Podman, name: str, messages: Sequence[str]
):
    servers.write({"one": memcached(), "two": contained(name=name)})
    code, driver = servers.measure()
    message = driver.stderr()
    assert (code, driver.of("TrialStarted")) == (3, [])
    assert [text in message for text in messages] == [True] * len(messages), message
    assert podman.containers() == []
    servers.assert_nothing_left()


@pytest.mark.usefixtures("podman")
def test_an_unknown_image_ends_the_command_before_anything_starts(servers: ServerLab):
    servers.write({"one": memcached(), "two": contained(image="localhost/no-such-image")})
    done = subprocess.run(
        [sys.executable, "-m", "perfrunner", "run", str(servers.spec_path), "--out", str(servers.out)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert (
        "variants.two.server.image: podman on this machine has no image localhost/no-such-image"
        in done.stderr
    )
    assert "podman pull localhost/no-such-image" in done.stderr
    assert not servers.work.exists()


@pytest.fixture
def host(tmp_path: Path, podman: Podman, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A host over SSH that alone has the images: its own files of /etc say where they are, and no variable."""
    etc = tmp_path / "etc-of-the-host"
    shutil.copytree("/etc/containers", etc)
    for name in ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"):
        podman.environment[name] = os.environ[name]
        shutil.copy(os.environ[name], etc)
        monkeypatch.delenv(name)
    mounted = f"mount --bind '{etc}' /etc/containers && exec \"$@\""
    with raised_sshd(
        tmp_path / "sshd", within=["unshare", "--mount", "sh", "-c", mounted, "sh"]
    ) as sshd:
        yield sshd


def over_ssh(sshd: Sshd, servers: ServerLab) -> dict[str, Any]:
    spec = sshd.host_spec(servers.work / "kv")
    return {
        "name": "lab", "transport": "ssh", "engine_nodes": ["kv"], "load_clients": ["kv"],
        "hosts": {"kv": spec.model_dump(mode="json", exclude_defaults=True)},
    }  # fmt: skip


def test_a_container_on_a_host_over_ssh(servers: ServerLab, podman: Podman, host: Sshd):
    native = {"server": {"command": ["memcached", "-p", "{port}"]}}
    servers.write({"native": native, "contained": contained()}, cluster=over_ssh(host, servers))
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    data = servers.data()
    for trial in data.trials:
        assert trial.status == "ok", trial.reason
        assert trial.metrics["mem_used_bytes"] > 2000 * 100
    described = {build.variant: build for build in data.builds}["contained"].provenance["server"]
    assert described["placed"] == f"image {IMAGE} of kv"
    made = podman.ran("podman", "image", "inspect", "--format", "{{.Id}} {{.Digest}}", IMAGE)
    assert f"{described['sha256']} {described['digest']}" == made
    assert podman.containers() == []
    servers.assert_nothing_left()


def test_an_image_that_a_host_over_ssh_lacks(servers: ServerLab, host: Sshd):
    servers.write(
        {"one": contained(image="localhost/no-such-image")}, cluster=over_ssh(host, servers)
    )
    code, driver = servers.measure()
    assert (code, driver.of("TrialStarted")) == (3, [])
    message = driver.stderr()
    assert "variant one: podman on kv has no image localhost/no-such-image" in message
    assert "on kv: podman pull localhost/no-such-image" in message


@pytest.mark.parametrize("harm", ["kill", "cut"])
def test_no_container_is_left_on_a_host_over_ssh(
    servers: ServerLab, podman: Podman, host: Sshd, harm: str
):
    """A run that is killed is cleaned up by the next one; a run that loses its link does so itself."""
    two = {"one": contained(), "two": contained("-t", "1")}
    servers.write(
        two, {"duration": 20}, cluster=over_ssh(host, servers), limits={"max_discarded": 0}
    )
    driver = servers.start(fakes={"artifact": servers.artifact})
    driver.wait_for("TrialPhase", phase="access")
    assert len(podman.containers()) == 2
    if harm == "cut":
        host.cut()
        assert driver.finish() == 3
    else:
        os.kill(driver.process.pid, signal.SIGKILL)
        driver.finish()
        assert len(podman.containers()) == 2
        servers.write(
            {"one": contained(), "two": contained("-t", "1")}, cluster=over_ssh(host, servers)
        )
        code, driver = servers.measure()
        assert code == 0, driver.stderr()
    assert podman.containers() == []
    servers.assert_nothing_left()
