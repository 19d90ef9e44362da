"""The command lines of containers, and what is known of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfrunner.errors import UsageError
from perfrunner.hosts import Host, container, process
from perfrunner.hosts.local import LocalTransport
from perfrunner.hosts.process import (
    CommandFailed,
    CommandTimeout,
    Completed,
    ExitStatus,
    StopResult,
)

HERE = LocalTransport("here")
FAKE = """\
#!/bin/sh
case "$*" in
*known) echo sha256:aa sha256:bb ;;
*broken) echo "Error: no storage" >&2; exit 125 ;;
*) echo "Error: inspecting object: $5: image not known" >&2; exit 125 ;;
esac
"""


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "podman"
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.setattr(process, "BASE_ENVIRONMENT", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    with_variables(monkeypatch)
    return program


def with_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in container._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", "/etc/mine.conf")


PODMAN = ("env", "CONTAINERS_STORAGE_CONF=/etc/mine.conf", "podman")


@pytest.mark.usefixtures("podman")
def test_an_image_is_known_by_its_content():
    image = container.find_image("known", HERE)
    assert image == container.Image("sha256:aa", "sha256:bb", PODMAN)


@pytest.mark.usefixtures("podman")
@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("missing", "podman on here has no image missing", "on here: podman pull missing"),
        ("broken", "podman on here cannot read the image broken: Error: no storage", None),
    ],
)
def test_an_image_that_cannot_be_used(name: str, message: str, hint: str | None):
    with pytest.raises(UsageError) as caught:
        container.find_image(name, HERE)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_podman_is_installed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for program in ("env", "sh", "sleep"):
        (tmp_path / program).symlink_to(f"/bin/{program}")
    monkeypatch.setattr(process, "BASE_ENVIRONMENT", {"PATH": str(tmp_path)})
    with pytest.raises(UsageError) as caught:
        container.find_image("known", HERE)
    assert caught.value.message == "there is no podman on here"
    assert caught.value.hint == "on here: apt-get install podman"


class Recorded:
    """A transport that records what it is to run, and in which the first commands fail."""

    name = "here"

    def __init__(self, failures: int = 0) -> None:
        self.argv: list[list[str]] = []
        self._failures = failures

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        self.argv.append(list(argv))
        failed = len(self.argv) <= self._failures
        return Completed(tuple(argv), 2 if failed else 0, "", "container state improper")


def run_words() -> list[str]:
    name = container.container_name("/runs/trial")
    command = ["memcached", "-p", "7", "run", "--name=x"]
    image = container.Image("sha256:aa", "sha256:bb", PODMAN)
    return container.run_words(name, image, "/runs/trial/pid", {"A": "b c"}, command)


def test_the_command_of_a_container():
    words = run_words()
    name = words[words.index("run") + 3]
    assert words[3:] == [
        "perfrunner-container", *PODMAN, "run", "--rm", "--replace",
        name,
        "--pidfile=/runs/trial/pid", "--init=false",
        "--pull=never", "--network=host", "--log-driver=none", "--env=A=b c",
        '--entrypoint=["memcached"]', "sha256:aa", "-p", "7", "run", "--name=x",
    ]  # fmt: skip
    assert name == f"--name={container.container_name('/runs/trial')}"
    assert container.container_name("/runs/trial") != container.container_name("/runs/other")


def test_only_the_container_of_a_command_is_removed():
    words, host = run_words(), Recorded()
    container.remove(host, ["taskset", "-c", "1", *words])  # type: ignore[arg-type]
    name = container.container_name("/runs/trial")
    assert host.argv == [[*PODMAN, "rm", "--force", "--ignore", "--time=0", name]]
    container.remove(host, ["memcached", "run", "--name=x"])  # type: ignore[arg-type]
    assert len(host.argv) == 1


def test_a_container_that_podman_itself_removes_during_that(monkeypatch: pytest.MonkeyPatch):
    """Both removals may meet, and the second one then fails; the container is gone a moment later."""
    host = Recorded(failures=2)
    container.remove(host, run_words())  # type: ignore[arg-type]
    assert len(host.argv) == 3
    monkeypatch.setattr(container, "_REMOVE_S", 0.0)
    with pytest.raises(CommandFailed, match="container state improper"):
        container.remove(Recorded(failures=9), run_words())  # type: ignore[arg-type]


class Podman:
    """A process of the registry; `stop` also removes the entry."""

    pid = 7

    def __init__(self, host: Recorded, *, ends: bool = True) -> None:
        self.entry = SimpleNamespace(argv=run_words())
        self.run_id = "run"
        self._host, self._ends = host, ends

    def poll(self) -> None:
        return None

    def signal(self, signum: int) -> bool:
        self._host.argv.append(["signal", str(int(signum))])
        return True

    def wait(self, timeout: float) -> ExitStatus:
        if not self._ends:
            raise CommandTimeout(f"not within {timeout:g} s")
        return ExitStatus(code=0)

    def stop(self, grace_s: float = 10.0) -> StopResult:
        del grace_s
        self._host.argv.append(["stop"])
        return StopResult(ExitStatus(code=0), killed=False)


def stopped(host: Recorded, *, ends: bool) -> StopResult:
    podman = Podman(host, ends=ends)
    return container.Container(host, podman, run_words(), "/runs/trial/pid").stop()  # type: ignore[arg-type]


@pytest.mark.parametrize("ends", [True, False])
def test_a_container_ends_by_itself_and_is_removed_before_its_entry(ends: bool):
    host = Recorded()
    assert stopped(host, ends=ends).killed is not ends
    did = ["rm" if "rm" in argv else argv[0] for argv in host.argv]
    assert did == ["signal", "rm", "stop", *([] if ends else ["rm"])]


def test_a_container_that_cannot_be_removed_keeps_its_entry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(container, "_REMOVE_S", 0.0)
    host = Recorded(failures=9)
    with pytest.raises(CommandFailed):
        stopped(host, ends=True)
    host.processes = lambda: [Podman(host)]  # type: ignore[attr-defined]
    with pytest.raises(CommandFailed):
        Host(host).sweep()  # type: ignore[arg-type]
    assert ["stop"] not in host.argv
