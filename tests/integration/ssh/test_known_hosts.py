"""Host keys are believed and refused as by ssh itself: each known_hosts file is shown to both."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sshd import ADDRESS, Sshd, known_hosts_line, make_key, raised_sshd

from perfrunner.errors import HostError
from perfrunner.hosts import Host, destination_of, open_host
from perfrunner.hosts.hostkeys import KnownHosts, hashed
from perfrunner.hosts.openssh import resolve

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Keys:
    """Public keys as known_hosts lines hold them, and the names that a line may give the server."""

    server: str
    other: str
    rsa: str
    name: str  # [address]:port
    blob: bytes


@pytest.fixture(scope="module")
def keys(sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    import base64

    directory = tmp_path_factory.mktemp("keys")
    make_key(directory / "other")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", directory / "rsa"],
        check=True,
        timeout=300,
    )

    def read(path: Path) -> str:
        return " ".join(path.read_text().split()[:2])

    server = read(sshd.directory / "host_key.pub")
    return Keys(
        server=server,
        other=read(directory / "other.pub"),
        rsa=read(directory / "rsa.pub"),
        name=f"[{ADDRESS}]:{sshd.port}",
        blob=base64.b64decode(server.split()[1]),
    )


Files = Callable[[Keys], str]
CUT = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHBm"
CASES: dict[str, tuple[Files, bool]] = {
    "an old and a new key": (lambda k: f"{k.name} {k.other}\n{k.name} {k.server}\n", True),
    "only the old key": (lambda k: f"{k.name} {k.other}\n", False),
    "a key of another type": (lambda k: f"{k.name} {k.rsa}\n", False),
    "nothing": (lambda k: "", False),
    "a wildcard": (lambda k: f"[127.0.0.?]:* {k.server}\n", True),
    "a wildcard for all": (lambda k: f"* {k.server}\n", True),
    "a negation": (lambda k: f"[127.*]:*,!{k.name} {k.server}\n", False),
    "a negation of another": (lambda k: f"[127.*]:*,![127.0.0.9]:* {k.server}\n", True),
    "a list of names": (lambda k: f"node,{k.name},10.0.0.1 {k.server}\n", True),
    "two blanks and a tab": (lambda k: f"  {k.name}  \t{k.server}  \n", True),
    "a comment behind": (lambda k: f"{k.name} {k.server} root@node # rack 3\n", True),
    "comments and empty lines": (lambda k: f"# x\n\n   \n{k.name} {k.server}\n", True),
    "no newline at the end": (lambda k: f"{k.name} {k.server}", True),
    "windows line ends": (lambda k: f"{k.name} {k.server} c\r\n", True),
    "windows line ends alone": (lambda k: f"# x\r\n\r\n{k.name} {k.server}\r\n", True),
    "a byte order mark": (lambda k: f"\ufeff{k.name} {k.server}\n", False),
    "a byte order mark of a comment": (lambda k: f"\ufeff# x\n{k.name} {k.server}\n", True),
    "the name without its port": (lambda k: f"{ADDRESS} {k.server}\n", True),
    "another key without the port": (lambda k: f"{ADDRESS} {k.other}\n", False),
    "another port": (lambda k: f"[{ADDRESS}]:1 {k.server}\n", False),
    "a hashed name": (lambda k: f"{hashed(k.name)} {k.server}\n", True),
    "another hashed name": (lambda k: f"{hashed('node')} {k.server}\n", False),
    "a cut line of another host": (lambda k: f"node {CUT}\n{k.name} {k.server}\n", True),
    "a cut line of the host": (lambda k: f"{k.name} {CUT}\n{k.name} {k.server}\n", True),
    "only a cut line": (lambda k: f"{k.name} {CUT}\n", False),
    "half a line": (lambda k: f"{k.name}\n{k.name} ssh-ed25519\n{k.name} {k.server}\n", True),
    "an unknown type": (lambda k: f"{k.name} ssh-new AAAA\n{k.name} {k.server}\n", True),
    "revoked": (lambda k: f"{k.name} {k.server}\n@revoked {k.name} {k.server}\n", False),
    "revoked for all": (lambda k: f"@revoked * {k.server}\n{k.name} {k.server}\n", False),
    "revoked without the port": (lambda k: f"@revoked {ADDRESS} {k.server}\n", False),
    "another key revoked": (lambda k: f"@revoked * {k.other}\n{k.name} {k.server}\n", True),
    "revoked for another host": (lambda k: f"@revoked node {k.server}\n{k.name} {k.server}\n", True),
    "an authority beside it": (lambda k: f"@cert-authority * {k.other}\n{k.name} {k.server}\n", True),
    "an authority alone": (lambda k: f"@cert-authority * {k.other}\n", False),
    "not UTF-8": (lambda k: f"n\udcfcde {k.other} \udcff\n{k.name} {k.server} \udcff\n", True),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_key_is_judged_as_by_ssh(sshd: Sshd, keys: Keys, tmp_path: Path, case: str) -> None:
    text, expected = CASES[case]
    known = tmp_path / "known_hosts"
    known.write_bytes(text(keys).encode("utf-8", "surrogateescape"))
    spec = sshd.host_spec(tmp_path / "work", known_hosts=str(known), host_keys="strict")
    spec = spec.model_copy(update={"ssh_config": "/dev/null"})
    before = known.read_bytes()
    command = destination_of(spec).command()
    command[1:1] = [
        "-o",
        "BatchMode=yes",
        "-o",
        "UpdateHostKeys=no",
        "-o",
        "GlobalKnownHostsFile=none",
    ]
    ssh = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=300)
    assert (ssh.returncode == 0) == expected, ssh.stderr
    judge = KnownHosts(resolve(destination_of(spec)).host_keys).judge
    if expected:
        judge(keys.blob)
    else:
        with pytest.raises(HostError):
            judge(keys.blob)
    assert known.read_bytes() == before


def test_a_cut_line_is_named(
    sshd: Sshd, keys: Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"{keys.name} {CUT}\n{keys.name} {keys.server}\n")
    with (
        caplog.at_level(logging.WARNING, "perfrunner.hosts"),
        open_host(sshd.host_spec(tmp_path / "work", known_hosts=str(known)), "ssh"),
    ):
        pass
    assert [r.getMessage() for r in caplog.records] == [
        f"{known}: skipped the line of {keys.name}: its key is damaged"
    ]


def test_an_authority_is_named(sshd: Sshd, keys: Keys, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"@cert-authority * {keys.other}\n")
    spec = sshd.host_spec(tmp_path / "work", known_hosts=str(known))
    with pytest.raises(HostError, match="@cert-authority line does not help: the host has no cert"):
        open_host(spec, "ssh")


KINDS = {"ed25519": "ssh-ed25519", "ecdsa": "ecdsa-sha2-nistp256", "rsa": "rsa-sha2-512"}


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server whose host keys of three types are certified by the key `authority` of its directory."""
    directory = tmp_path_factory.mktemp("certified")
    make_key(directory / "authority")
    lines = []
    for kind in KINDS:
        key = directory / kind
        keygen = ["ssh-keygen", "-q"]
        for words in (
            ["-t", kind, "-N", "", "-f", key],
            [
                "-s",
                directory / "authority",
                "-h",
                "-I",
                "id",
                "-n",
                f"node,{ADDRESS}",
                f"{key}.pub",
            ],
        ):
            subprocess.run([*keygen, *words], check=True, timeout=300)
        lines.append(f"HostKey {key}\nHostCertificate {key}-cert.pub\n")
    (directory / "more").write_text("".join(lines))
    make_key(directory / "other")
    for name, revoked in (("krl", "authority"), ("krl-key", "ed25519"), ("krl-other", "other")):
        words = ["ssh-keygen", "-q", "-k", "-f", directory / name, directory / f"{revoked}.pub"]
        subprocess.run(words, check=True, timeout=300)
    with raised_sshd(directory, Include=str(directory / "more")) as server:
        yield server


def public(server: Sshd, name: str) -> str:
    return " ".join((server.directory / f"{name}.pub").read_text().split()[:2])


CERTIFIED: dict[str, tuple[Callable[[Sshd, str], str], str, bool]] = {
    "an authority": (lambda s, n: f"@cert-authority {n} {public(s, 'authority')}\n", "", True),
    "of all": (lambda s, n: f"@cert-authority * {public(s, 'authority')}\n", "", True),
    "without the port": (lambda s, n: f"@cert-authority {ADDRESS} {public(s, 'authority')}\n", "", True),
    "of another host": (lambda s, n: f"@cert-authority x {public(s, 'authority')}\n", "", False),
    "another authority": (lambda s, n: f"@cert-authority * {public(s, 'user_key')}\n", "", False),
    "an authority as a key": (lambda s, n: f"{n} {public(s, 'authority')}\n", "", False),
    "revoked authority": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n@revoked * {public(s, 'authority')}\n", "", False),
    "revoked key": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n@revoked * {public(s, 'ed25519')}\n", "", False),
    "an old key": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n{n} {public(s, 'user_key')}\n", "", True),
    "a key of another authority's host": (
        lambda s, n: f"@cert-authority * {public(s, 'user_key')}\n{n} {public(s, 'ed25519')}\n", "", True),
    "a name that is certified": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n", "HostKeyAlias node", True),
    "a name that is not": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n", "HostKeyAlias other", False),
    "a signature that is excluded": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n", "CASignatureAlgorithms rsa-sha2-512", False),
    "a revoked key": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "RevokedHostKeys {directory}/ed25519.pub", False),
    "another revoked key": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "RevokedHostKeys {directory}/user_key.pub", True),
    "revoked keys that are not there": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "RevokedHostKeys {directory}/nowhere", False),
    "a file of revoked keys that is none": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "RevokedHostKeys {directory}/more", False),
    "a key in a revocation list": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "RevokedHostKeys {directory}/krl-key", False),
    "an authority in a revocation list": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n", "RevokedHostKeys {directory}/krl", False),
    "an authority among revoked keys": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n", "RevokedHostKeys {directory}/authority.pub",
        False),
    "a key whose authority is revoked": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n@revoked * {public(s, 'authority')}\n", "", False),
    "a key of another type whose authority is revoked": (
        lambda s, n: f"{n} {public(s, 'rsa')}\n@revoked * {public(s, 'authority')}\n", "", False),
    "a key whose authority is among revoked keys": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "RevokedHostKeys {directory}/authority.pub", False),
    "a key whose authority is in a revocation list": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "RevokedHostKeys {directory}/krl", False),
    "a new key whose authority is revoked": (
        lambda s, n: f"@revoked * {public(s, 'authority')}\n", "StrictHostKeyChecking accept-new", False),
    "a key where only certificates are allowed": (
        lambda s, n: f"{n} {public(s, 'ed25519')}\n", "HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com", True),
    "another revocation list": (
        lambda s, n: f"@cert-authority * {public(s, 'authority')}\n", "RevokedHostKeys {directory}/krl-other", True),
    "a new key is accepted": (
        lambda s, n: f"@cert-authority * {public(s, 'user_key')}\n", "StrictHostKeyChecking accept-new", True),
    **{
        f"a certificate of {kind}": (
            lambda s, n: f"@cert-authority * {public(s, 'authority')}\n",
            f"HostKeyAlgorithms {name}-cert-v01@openssh.com", True)
        for kind, name in KINDS.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CERTIFIED)
def test_a_certificate_is_judged_as_by_ssh(certified: Sshd, tmp_path: Path, case: str) -> None:
    text, options, expected = CERTIFIED[case]
    options = options.format(directory=certified.directory)
    known, config = tmp_path / "known_hosts", tmp_path / "config"
    config.write_text(f"GlobalKnownHostsFile none\nUpdateHostKeys no\nBatchMode yes\n{options}\n")
    changes = {"known_hosts": str(known), "ssh_config": str(config)}
    spec = certified.host_spec(tmp_path / "work", **changes)
    known.write_text(text(certified, f"[{ADDRESS}]:{certified.port}"))
    command = [*destination_of(spec).command(), "true"]
    ssh = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert (ssh.returncode == 0) == expected, ssh.stderr
    known.write_text(text(certified, f"[{ADDRESS}]:{certified.port}"))
    if expected:
        open_host(spec, "ssh").close()
    else:
        with pytest.raises(HostError):
            open_host(spec, "ssh")


def test_the_server_is_asked_for_the_key_that_is_known(tmp_path: Path) -> None:
    """It has two, and would show the other one first."""
    rsa = tmp_path / "rsa"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", rsa],
        check=True,
        timeout=300,
    )
    (tmp_path / "more").write_text(f"HostKey {rsa}\n")
    with raised_sshd(tmp_path / "sshd", Include=str(tmp_path / "more")) as sshd:
        known = tmp_path / "known_hosts"
        known.write_text(
            f"{sshd.known_hosts.read_text().split()[0]} {rsa.with_suffix('.pub').read_text()}"
        )
        with open_host(sshd.host_spec(tmp_path / "work", known_hosts=str(known)), "ssh") as host:
            assert host.transport.run(["true"]).exit == 0


def test_a_new_key_is_added_as_the_user_wants_it(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "dir" / "known hosts"
    config = tmp_path / "config"
    config.write_text(
        f'StrictHostKeyChecking accept-new\nHashKnownHosts yes\nUserKnownHostsFile "{known}"\n'
    )
    changes = {"ssh_config": str(config), "known_hosts": None}
    open_host(sshd.host_spec(tmp_path / "work", **changes), "ssh").close()
    assert known.read_text().startswith("|1|")
    config.write_text(f'UserKnownHostsFile "{known}"\n')
    open_host(sshd.host_spec(tmp_path / "work", **changes), "ssh").close()


def test_a_key_is_added_under_any_name_and_to_no_file(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    known = tmp_path / "known_hosts"
    for name, file in (("b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher", known), ("x", "/dev/null")):
        config.write_text(f"StrictHostKeyChecking accept-new\nHostKeyAlias {name}\n")
        changes = {"ssh_config": str(config), "known_hosts": str(file)}
        open_host(sshd.host_spec(tmp_path / "work", **changes), "ssh").close()
    changes = {"ssh_config": str(config), "known_hosts": str(known), "host_keys": "strict"}
    config.write_text("HostKeyAlias b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher\n")
    open_host(sshd.host_spec(tmp_path / "work", **changes), "ssh").close()


def test_a_key_that_cannot_be_added_is_a_warning(
    sshd: Sshd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Log in from a read-only home, as ssh does."""
    (tmp_path / "file").touch()
    known = tmp_path / "file" / "known_hosts"
    spec = sshd.host_spec(tmp_path / "work", known_hosts=str(known), host_keys="accept-new")
    ssh = destination_of(spec).command()
    done = subprocess.run(
        [*ssh, "true"], capture_output=True, text=True, check=False, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (
        caplog.at_level(logging.WARNING, "perfrunner.hosts"),
        open_host(spec, "ssh") as host,
    ):
        assert host.transport.run(["true"]).exit == 0
    (record,) = caplog.records
    assert f"{known}: the key of [127.0.0.1]" in record.getMessage()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_cannot_be_read(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.touch(mode=0)
    with pytest.raises(HostError, match="cannot be read"):
        open_host(sshd.host_spec(tmp_path / "work", known_hosts=str(known)), "ssh")


@pytest.fixture
def other_key(tmp_path: Path) -> Path:
    make_key(tmp_path / "other_key")
    return tmp_path / "other_key"


class TestHostKeys:
    def connect(self, sshd: Sshd, tmp_path: Path, known_hosts: Path, **changes: object) -> Host:
        spec = sshd.host_spec(tmp_path / "work", known_hosts=str(known_hosts), **changes)
        return open_host(spec, "ssh", name="node")

    def test_an_unknown_host_is_refused(self, sshd: Sshd, tmp_path: Path) -> None:
        known = tmp_path / "known_hosts"
        known.write_text("# nothing\n")
        with pytest.raises(HostError, match=r"the host key is not in .*known_hosts") as caught:
            self.connect(sshd, tmp_path, known)
        assert f"ssh-keyscan -p {sshd.port} 127.0.0.1" in (caught.value.hint or "")
        assert known.read_text() == "# nothing\n"
        assert not (tmp_path / "work").exists()

    def test_no_file_at_all(self, sshd: Sshd, tmp_path: Path) -> None:
        with pytest.raises(HostError, match=r"the host key is not in .*absent") as caught:
            self.connect(sshd, tmp_path, tmp_path / "absent")
        assert "ssh-keyscan" in (caught.value.hint or "")

    @pytest.mark.parametrize("policy", ["strict", "accept-new"])
    def test_a_changed_key_is_refused(
        self, sshd: Sshd, tmp_path: Path, other_key: Path, policy: str
    ) -> None:
        known = tmp_path / "known_hosts"
        known.write_text(known_hosts_line(sshd.port, other_key))
        with pytest.raises(HostError, match="the host key differs from the one in") as caught:
            self.connect(sshd, tmp_path, known, host_keys=policy)
        assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'" in (caught.value.hint or "")
        assert not (tmp_path / "work").exists()

    def test_accept_new_remembers(self, sshd: Sshd, tmp_path: Path, other_key: Path) -> None:
        known = tmp_path / "dir" / "known_hosts"
        self.connect(sshd, tmp_path, known, host_keys="accept-new", ssh_config="/dev/null").close()
        assert known.read_text() == sshd.known_hosts.read_text()
        self.connect(sshd, tmp_path, known).close()
        known.write_text(known_hosts_line(sshd.port, other_key))
        with pytest.raises(HostError, match="the host key differs from"):
            self.connect(sshd, tmp_path, known, host_keys="accept-new")

    def test_hashed_names(self, sshd: Sshd, tmp_path: Path) -> None:
        known = tmp_path / "known_hosts"
        known.write_text(sshd.known_hosts.read_text())
        subprocess.run(["ssh-keygen", "-H", "-f", str(known)], check=True, capture_output=True)
        assert "127.0.0.1" not in known.read_text()
        self.connect(sshd, tmp_path, known).close()

    def test_a_revoked_key_is_refused(self, sshd: Sshd, tmp_path: Path) -> None:
        line = sshd.known_hosts.read_text()
        known = tmp_path / "known_hosts"
        known.write_text(f"{line}@revoked {line}")
        for host_keys in ("strict", "accept-new"):
            with pytest.raises(HostError, match="@revoked"):
                self.connect(sshd, tmp_path, known, host_keys=host_keys)
        assert known.read_text() == f"{line}@revoked {line}"

    def test_nobody_logs_in_where_the_key_is_revoked(self, tmp_path: Path) -> None:
        with raised_sshd(tmp_path / "sshd", LogLevel="VERBOSE") as sshd:
            known = tmp_path / "known_hosts"
            known.write_text(f"@revoked {sshd.known_hosts.read_text()}")
            with pytest.raises(HostError, match="@revoked"):
                self.connect(sshd, tmp_path, known, host_keys="accept-new")
            assert "Accepted publickey" not in sshd.log()

    def test_accept_new_adds_a_line_to_a_file_whose_last_one_is_open(
        self, sshd: Sshd, tmp_path: Path, other_key: Path
    ) -> None:
        known = tmp_path / "known_hosts"
        line = known_hosts_line(1, other_key)
        known.write_text(line.rstrip("\n"))
        self.connect(sshd, tmp_path, known, host_keys="accept-new", ssh_config="/dev/null").close()
        assert known.read_text() == line + sshd.known_hosts.read_text()
