"""KnownHostsCommand is asked as by ssh itself: each case is shown to both."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sshd import ADDRESS, Sshd, make_key

from perfrunner.errors import HostError
from perfrunner.hosts import destination_of, open_host

pytestmark = pytest.mark.integration

# {line}, {key} and {other}: the host's line and key, and the key of another.
CASES: dict[str, tuple[str, str, bool]] = {
    "the key": ("", "/bin/echo {line}", True),
    "the name that is asked for": ("", "/bin/echo %H {key}", True),
    "of a name of its own": ("HostKeyAlias node", "/bin/echo node {key}", True),
    "of another host": ("", "/bin/echo node {key}", False),
    "several words in quotes": ("", "/bin/sh -c \"echo '{line}'\"", True),
    "another key": ("", "/bin/echo %H {other}", False),
    "an old and a new key": ("", "/bin/sh -c \"echo '%H {other}'; echo '%H {key}'\"", True),
    "nothing": ("", "/bin/true", False),
    "none": ("", "none", False),
    "a token that there is not": ("", "/bin/echo %z", False),
    "in addition to a file": ("UserKnownHostsFile {known}", "/bin/true", True),
    "a key that it revokes": ("UserKnownHostsFile {known}", "/bin/echo @revoked %H {key}", False),
    "a failure": ("UserKnownHostsFile {known}", "/bin/false", False),
}


@pytest.fixture
def words(sshd: Sshd, tmp_path: Path) -> dict[str, str]:
    make_key(tmp_path / "other")
    key, other = (
        " ".join(path.read_text().split()[:2])
        for path in (sshd.directory / "host_key.pub", tmp_path / "other.pub")
    )
    line = f"[{ADDRESS}]:{sshd.port} {key}"
    return {"line": line, "key": key, "other": other, "known": str(sshd.known_hosts)}


def configured(tmp_path: Path, options: str, command: str) -> Path:
    path = tmp_path / "config"
    path.write_text(
        f"{options}\nUserKnownHostsFile none\nGlobalKnownHostsFile none\nBatchMode yes\nUpdateHostKeys no\n"
        f"KnownHostsCommand {command}\n"
    )
    return path


@pytest.mark.parametrize("case", CASES)
def test_it_is_asked_as_by_ssh(
    sshd: Sshd, tmp_path: Path, words: dict[str, str], case: str
) -> None:
    options, command, expected = CASES[case]
    config = configured(tmp_path, options.format(**words), command.format(**words))
    spec = sshd.host_spec(tmp_path / "work", known_hosts=None, ssh_config=str(config))
    ssh = subprocess.run(
        [*destination_of(spec).command(), "true"], capture_output=True, check=False, timeout=300
    )
    assert (ssh.returncode == 0) == expected, ssh.stderr
    if expected:
        open_host(spec, "ssh").close()
    else:
        with pytest.raises(HostError):
            open_host(spec, "ssh")


def test_it_gets_what_ssh_gives_it(sshd: Sshd, tmp_path: Path, words: dict[str, str]) -> None:
    asked = tmp_path / "asked"
    tokens = "%%,%%h,%C,%d,%f,%H,%h,%I,%i,%K,%k,%L,%l,%n,%p,%r,%t,%u"
    command = f"/bin/sh -c \"echo '{tokens}' >>{asked}; echo '{words['line']}'\""
    config = configured(tmp_path, "", command)
    spec = sshd.host_spec(tmp_path / "work", known_hosts=None, ssh_config=str(config))
    subprocess.run([*destination_of(spec).command(), "true"], check=True, timeout=300)
    by_ssh = asked.read_text()
    asked.unlink()
    open_host(spec, "ssh").close()
    # Under the name without the port as well, for which ssh asks only when the first one is unknown.
    assert asked.read_text().splitlines()[:2] == by_ssh.splitlines()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/nowhere/lookup %H", "/nowhere/lookup cannot be started"),
        ("lookup %H", "expected an absolute path"),
        ('/bin/echo "%H', "invalid quotes"),
        ("/bin/echo x\\", "No escaped character"),
    ],
)
def test_one_that_cannot_be_asked_is_refused(
    sshd: Sshd, tmp_path: Path, command: str, message: str
) -> None:
    """For most of these, ssh prints a message and goes on without the command."""
    options = f"UserKnownHostsFile {sshd.known_hosts}"
    config = configured(tmp_path, options, command)
    spec = sshd.host_spec(tmp_path / "work", known_hosts=None, ssh_config=str(config))
    with pytest.raises(HostError, match=message):
        open_host(spec, "ssh")
