"""The keys that are offered, and their order, are those of ssh: sshd's log of both is compared."""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sshd import Sshd, make_key, raised_sshd

from perfrunner.errors import HostError
from perfrunner.hosts import destination_of, open_host
from perfrunner.spec.cluster import HostSpec
from tests.support.waiting import until

pytestmark = pytest.mark.integration

OFFERED = re.compile(r"(?:Failed|Accepted|Postponed) publickey for \S+ from .* ssh2: (.*)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    directory = tmp_path_factory.mktemp("identities")
    make_key(directory / "ca")
    options = {
        "LogLevel": "VERBOSE",
        "TrustedUserCAKeys": str(directory / "ca.pub"),
        "MaxAuthTries": "20",
    }
    with raised_sshd(directory / "sshd", **options) as raised:
        yield raised


def certify(server: Sshd, public_key: Path) -> None:
    """Sign a public key of the user with the server's authority; the certificate lies next to the key."""
    authority = server.directory.parent / "ca"
    argv = ["ssh-keygen", "-q", "-s", authority, "-I", "me", "-n", getpass.getuser(), public_key]
    subprocess.run(argv, check=True, timeout=300)


@pytest.fixture(scope="module")
def keys(server: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of keys: file, agent and both are where the name says; certified has a certificate next to it."""
    directory = tmp_path_factory.mktemp("keys")
    for name in ("file", "file2", "agent", "agent2", "both", "certified"):
        make_key(directory / name)
    certify(server, directory / "certified.pub")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", directory / "locked"],
        check=True,
        timeout=300,
    )
    return directory


@pytest.fixture(scope="module")
def agent(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    socket = tmp_path_factory.mktemp("agent") / "socket"
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL) as process:
        until(socket.exists, "the agent listens")
        for name in ("agent", "agent2", "both"):
            subprocess.run(
                ["ssh-add", "-q", keys / name],
                check=True,
                timeout=300,
                env={"SSH_AUTH_SOCK": str(socket)},
            )
            if name.startswith("agent"):
                (keys / name).unlink()
        yield socket
        process.terminate()


def offered(server: Sshd, before: int) -> list[str]:
    return OFFERED.findall(server.log()[before:])


CASES = {
    "files": "IdentityFile {keys}/file\nIdentityFile {keys}/file2\nIdentityAgent none\n",
    "files and an agent": "IdentityFile {keys}/file\nIdentityFile {keys}/both\n",
    "only": "IdentityFile {keys}/file\nIdentityFile {keys}/both\nIdentitiesOnly yes\n",
    "a public file names the agent's": "IdentityFile {keys}/agent2.pub\nIdentitiesOnly yes\n",
    "a file that the agent has": "IdentityFile {keys}/agent2\nIdentitiesOnly yes\n",
    "no agent": "IdentityFile {keys}/both\nIdentityAgent none\n",
    "another agent": "IdentityFile none\nIdentityAgent {agent}\n",
    "nothing there": "IdentityFile {keys}/absent\nIdentityFile {keys}/file\nIdentityAgent none\n",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_offers(
    server: Sshd,
    keys: Path,
    agent: Path,
    tmp_path: Path,
    case: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of them is let in, so each is offered."""
    if case != "another agent":
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    config = tmp_path / "config"
    config.write_text(CASES[case].format(keys=keys, agent=agent))
    spec = server.host_spec(tmp_path / "work", key=None, ssh_config=str(config))
    begun = len(server.log())
    command = destination_of(spec).command()
    command[1:1] = ["-o", "BatchMode=yes"]
    subprocess.run([*command, "true"], capture_output=True, check=False, timeout=300)
    by_ssh = offered(server, begun)
    assert by_ssh
    begun = len(server.log())
    with pytest.raises(HostError, match="refused our key"):
        open_host(spec, "ssh")
    assert offered(server, begun) == by_ssh


def opens(server: Sshd, tmp_path: Path, config: str) -> str:
    """The key that let us in."""
    path = tmp_path / "config"
    path.write_text(config)
    begun = len(server.log())
    with open_host(
        server.host_spec(tmp_path / "work", key=None, ssh_config=str(path)), "ssh"
    ) as host:
        assert host.transport.run(["true"]).exit == 0
    accepted: str = re.findall(
        r"Accepted publickey for \S+ from .* ssh2: (.*)", server.log()[begun:]
    )[0]
    return accepted


def test_a_key_with_a_passphrase_is_passed_over(server: Sshd, keys: Path, tmp_path: Path) -> None:
    config = f"IdentityFile {keys}/locked\nIdentityFile {server.key}\nIdentityAgent none\n"
    assert "ED25519" in opens(server, tmp_path, config)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_ignored_as_by_ssh(
    server: Sshd, keys: Path, tmp_path: Path, mode: int
) -> None:
    key = tmp_path / "readable"
    key.write_bytes(server.key.read_bytes())
    key.chmod(mode)
    config = tmp_path / "config"
    config.write_text(f"IdentityFile {key}\nIdentityFile {keys}/file2\nIdentityAgent none\n")
    spec = server.host_spec(tmp_path / "work", key=None, ssh_config=str(config))
    command = destination_of(spec).command()
    command[1:1] = ["-o", "BatchMode=yes"]
    by_ssh = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=300)
    assert b"bad permissions" in by_ssh.stderr
    assert by_ssh.returncode == 255
    with pytest.raises(HostError, match=f"others can read it: {key}$") as raised:
        open_host(spec, "ssh")
    assert raised.value.hint == f"chmod 600 {key}"
    config.write_text(f"IdentityFile {key}\nIdentityFile {server.key}\nIdentityAgent none\n")
    with open_host(spec, "ssh") as host:
        assert host.transport.run(["true"]).exit == 0


def test_the_standard_name_of_a_key_exchange(server: Sshd, tmp_path: Path) -> None:
    """The SSH library knows curve25519-sha256 by its first name alone, in ssh_config and from the server."""
    config = f"KexAlgorithms curve25519-sha256\nIdentityFile {server.key}\nIdentityAgent none\n"
    assert opens(server, tmp_path, config)
    with (
        raised_sshd(tmp_path / "sshd", KexAlgorithms="curve25519-sha256") as strict,
        open_host(strict.host_spec(tmp_path / "work"), "ssh") as host,
    ):
        assert host.transport.run(["true"]).exit == 0


@pytest.mark.parametrize("public", [True, False], ids=["with .pub", "alone"])
@pytest.mark.parametrize(
    "words",
    [
        "rsa PEM",
        pytest.param("rsa PKCS8", marks=pytest.mark.long),
        pytest.param("ecdsa PEM", marks=pytest.mark.long),
        "ecdsa PKCS8",
    ],
)
def test_every_format_of_a_key_file(server: Sshd, tmp_path: Path, words: str, public: bool) -> None:
    key = tmp_path / "my key"
    kind, form = words.split()
    argv = ["ssh-keygen", "-q", "-t", kind, "-m", form, "-N", "", "-f", key]
    subprocess.run(argv, check=True, timeout=300)
    certify(server, key.with_suffix(".pub"))
    Path(f"{key}-cert.pub").rename(tmp_path / "certificate")
    if not public:
        key.with_suffix(".pub").unlink()
    config = f'IdentityFile "{key}"\nCertificateFile {tmp_path}/certificate\nIdentityAgent none\n'
    assert f"{kind.upper()}-CERT" in opens(server, tmp_path, config)


@pytest.mark.parametrize("form", ["RFC4716", pytest.param("PEM", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"\n", b"\r\n", id="CRLF"),
        pytest.param(rb"\A", b"\xef\xbb\xbf", id="BOM"),
        pytest.param(rb"\n\Z", b"", id="no last line end"),
        pytest.param(rb"\Z", b"\n# mine\n", id="text behind it", marks=pytest.mark.long),
    ],
)
def test_key_files_that_an_editor_changed(
    server: Sshd, tmp_path: Path, form: str, old: bytes, new: bytes
) -> None:
    """OpenSSH reads its own format strictly, and the others as libcrypto does."""
    key, config = tmp_path / "key", tmp_path / "config"
    argv = ["ssh-keygen", "-q", "-t", "rsa", "-m", form, "-N", "", "-f", key]
    subprocess.run(argv, check=True, timeout=300)
    certify(server, key.with_suffix(".pub"))
    Path(f"{key}-cert.pub").rename(tmp_path / "certificate")
    key.write_bytes(re.sub(old, new, key.read_bytes()))
    text = f"IdentityFile {key}\nCertificateFile {tmp_path}/certificate\nIdentityAgent none\n"
    config.write_bytes(text.replace("\n", "\r\n").encode())
    spec = server.host_spec(tmp_path / "work", key=None, ssh_config=str(config))
    command = destination_of(spec).command()
    command[1:1] = ["-o", "BatchMode=yes"]
    by_ssh = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=300)
    if by_ssh.returncode == 0:
        with open_host(spec, "ssh") as host:
            assert host.transport.run(["true"]).exit == 0
    else:
        assert b"error in libcrypto" in by_ssh.stderr
        with pytest.raises(HostError, match=f"the private key cannot be read: {key}$") as raised:
            open_host(spec, "ssh")
        mend = (raised.value.hint or "").partition("mark: ")[2]
        subprocess.run(mend, shell=True, check=True, timeout=60)
        assert "RSA" in opens(server, tmp_path, text)


def test_a_certificate_next_to_its_key(server: Sshd, keys: Path, tmp_path: Path) -> None:
    config = f"IdentityFile {keys}/certified\nIdentityAgent none\n"
    assert "ED25519-CERT" in opens(server, tmp_path, config)


def test_a_certificate_elsewhere(
    server: Sshd, keys: Path, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is a file, or the agent's alone."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    for name in ("file", "agent"):
        certificate = tmp_path / f"{name}-cert.pub"
        (tmp_path / f"{name}.pub").write_text((keys / f"{name}.pub").read_text())
        certify(server, tmp_path / f"{name}.pub")
        config = f"CertificateFile {certificate}\nIdentityFile {keys}/{name}\nIdentitiesOnly yes\n"
        assert "ED25519-CERT" in opens(server, tmp_path, config)


def test_the_cluster_files_key(server: Sshd, keys: Path, agent: Path, tmp_path: Path) -> None:
    spec = server.host_spec(tmp_path / "work")
    with open_host(spec, "ssh") as host:
        assert host.transport.run(["true"]).exit == 0
    with pytest.raises(HostError, match="no such key file"):
        open_host(spec.model_copy(update={"key": str(tmp_path / "absent")}), "ssh")


def test_a_server_that_wants_two_keys(keys: Path, tmp_path: Path) -> None:
    with raised_sshd(tmp_path / "sshd", AuthenticationMethods="publickey,publickey") as sshd:
        listed = "".join((keys / f"{name}.pub").read_text() for name in ("file", "file2"))
        (sshd.directory / "authorized_keys").write_text(listed)
        config = tmp_path / "config"
        config.write_text(f"IdentityAgent none\nIdentityFile {keys}/file\n")
        spec = sshd.host_spec(tmp_path / "work", key=None, ssh_config=str(config))
        with pytest.raises(HostError, match="also wants publickey, a further key"):
            open_host(spec, "ssh")
        config.write_text(f"{config.read_text()}IdentityFile {keys}/file2\n")
        with open_host(spec, "ssh") as host:
            assert host.transport.run(["true"]).exit == 0


def test_a_server_without_a_common_algorithm(keys: Path, tmp_path: Path) -> None:
    with raised_sshd(tmp_path / "sshd", Ciphers="chacha20-poly1305@openssh.com") as sshd:
        with pytest.raises(HostError, match="no acceptable ciphers") as caught:
            open_host(sshd.host_spec(tmp_path / "work", ssh_config="/dev/null"), "ssh")
        assert "aes128-ctr (Ciphers)" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("IdentityFile none\nIdentityAgent none\n", "no SSH key to offer"),
        ("IdentityFile {keys}/locked\nIdentityAgent none\n", "has a passphrase: .*/locked"),
        ("IdentityFile {keys}/file\nIdentityAgent none\nPubkeyAuthentication no\n", "excludes public keys"),
        ("IdentityFile {keys}/file\nPreferredAuthentications password\n", "excludes public keys"),
        ("IdentityFile {keys}/file\nIdentityAgent /nowhere\n", "refused our key"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(
    server: Sshd, keys: Path, tmp_path: Path, config: str, message: str
) -> None:
    path = tmp_path / "config"
    path.write_text(config.format(keys=keys))
    with pytest.raises(HostError, match=message):
        open_host(server.host_spec(tmp_path / "work", key=None, ssh_config=str(path)), "ssh")


@pytest.mark.parametrize("methods", ["password", "password,publickey"])
def test_a_server_that_wants_a_person_is_named(tmp_path: Path, methods: str) -> None:
    # In lower case, these come before the helper's own lines and win.
    options = {"passwordauthentication": "yes", "AuthenticationMethods": methods}
    with (
        raised_sshd(tmp_path / "sshd", **options) as sshd,
        pytest.raises(HostError, match="the server accepts no key, only: password") as raised,
    ):
        open_host(sshd.host_spec(tmp_path / "work", ssh_config="/dev/null"), "ssh")
    assert "PubkeyAuthentication" in str(raised.value.hint)


def test_a_server_that_counts_the_keys_is_named(keys: Path, tmp_path: Path) -> None:
    with raised_sshd(tmp_path / "sshd", MaxAuthTries="2") as sshd:
        names = [keys / "file", keys / "file2", sshd.key]
        config = "".join(f"IdentityFile {name}\n" for name in names)
        (tmp_path / "config").write_text(f"{config}IdentityAgent none\n")
        spec = sshd.host_spec(tmp_path / "work", key=None, ssh_config=str(tmp_path / "config"))
        command = destination_of(spec).command()
        by_ssh = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=300)
        assert b"Too many authentication failures" in by_ssh.stderr
        with pytest.raises(HostError, match=f"after 2 keys: {names[0]}, {names[1]}$") as raised:
            open_host(spec, "ssh")
        assert "MaxAuthTries" in str(raised.value.hint)


def test_types_of_keys_that_ssh_config_excludes_are_not_offered(
    server: Sshd, keys: Path, agent: Path, tmp_path: Path
) -> None:
    for name, kind in (("nist", "ecdsa"), ("rivest", "rsa")):
        argv = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / name]
        subprocess.run(argv, check=True, timeout=300)
    files = [tmp_path / "nist", tmp_path / "rivest", keys / "file", keys / "certified"]
    config = "".join(f"IdentityFile {name}\n" for name in files) + f"IdentityAgent {agent}\n"
    (tmp_path / "config").write_text(f"{config}PubkeyAcceptedAlgorithms ecdsa-*,rsa-sha2-256\n")
    spec = server.host_spec(tmp_path / "work", key=None, ssh_config=str(tmp_path / "config"))
    begun = len(server.log())
    command = [*destination_of(spec).command(), "true"]
    subprocess.run(command, capture_output=True, check=False, timeout=300)
    by_ssh = offered(server, begun)
    assert len(by_ssh) == 2
    begun = len(server.log())
    with pytest.raises(HostError, match="refused our key"):
        open_host(spec, "ssh")
    assert offered(server, begun) == by_ssh


def test_the_users_own_configuration_is_used(sshd: Sshd, tmp_path: Path) -> None:
    """Without `ssh_config`, ssh reads its usual files: perfrunner passes no -F."""
    spec = sshd.host_spec(tmp_path / "work")
    assert "-F" not in destination_of(spec).command()
    assert destination_of(HostSpec(address="kv1")).command() == ["ssh", "--", "kv1"]
