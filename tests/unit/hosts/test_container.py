"""The command lines of containers, and what is known of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from perfrunner.errors import UsageError
from perfrunner.hosts import container

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
    monkeypatch.setattr(container, "BASE_ENVIRONMENT", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    return program


@pytest.mark.usefixtures("podman")
def test_an_image_is_known_by_its_content():
    assert container.find_image("known") == container.Image("sha256:aa", "sha256:bb")


@pytest.mark.usefixtures("podman")
@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("missing", "podman has no image missing", "podman pull missing"),
        ("broken", "podman cannot read the image broken: Error: no storage", None),
    ],
)
def test_an_image_that_cannot_be_used(name: str, message: str, hint: str | None):
    with pytest.raises(UsageError) as caught:
        container.find_image(name)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_podman_is_installed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(container, "BASE_ENVIRONMENT", {"PATH": str(tmp_path)})
    with pytest.raises(UsageError) as caught:
        container.find_image("known")
    assert caught.value.hint == "apt-get install podman"


class Recorded:
    """A transport that records what it is to run."""

    def __init__(self) -> None:
        self.argv: list[list[str]] = []

    def run(self, argv: Sequence[str], **_: object) -> None:
        self.argv.append(list(argv))


def run_words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name in container._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", "/etc/mine.conf")
    name = container.container_name("/runs/trial")
    command = ["memcached", "-p", "7", "run", "--name=x"]
    return container.run_words(name, "sha256:aa", "/runs/trial/pid", {"A": "b c"}, command)


def test_the_command_of_a_container(monkeypatch: pytest.MonkeyPatch):
    words = run_words(monkeypatch)
    name = words[words.index("run") + 3]
    assert words[3:] == [
        "perfrunner-container", "env", "CONTAINERS_STORAGE_CONF=/etc/mine.conf", "podman", "run", "--rm", "--replace",
        name,
        "--pidfile=/runs/trial/pid", "--pull=never", "--network=host", "--log-driver=none", "--env=A=b c",
        '--entrypoint=["memcached"]', "sha256:aa", "-p", "7", "run", "--name=x",
    ]  # fmt: skip
    assert name == f"--name={container.container_name('/runs/trial')}"
    assert container.container_name("/runs/trial") != container.container_name("/runs/other")


def test_only_the_container_of_a_command_is_removed(monkeypatch: pytest.MonkeyPatch):
    words, host = run_words(monkeypatch), Recorded()
    container.remove(host, ["taskset", "-c", "1", *words])  # type: ignore[arg-type]
    name = container.container_name("/runs/trial")
    assert host.argv == [
        ["env", "CONTAINERS_STORAGE_CONF=/etc/mine.conf", "podman", "rm", "--force", "--ignore", "--time=0", name]
    ]  # fmt: skip
    container.remove(host, ["memcached", "run", "--name=x"])  # type: ignore[arg-type]
    assert len(host.argv) == 1
