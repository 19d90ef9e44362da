"""Certificates of hosts, made by ssh-keygen: ssh itself judges each of these as the test says."""

from __future__ import annotations

import base64
import subprocess
import time
from pathlib import Path

import pytest

from perfrunner.hosts.hostkeys import HostCertificate, plain_key

ALLOWED = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
HOUR_S = 3600


def keygen(*words: object) -> None:
    subprocess.run(["ssh-keygen", "-q", *map(str, words)], check=True, timeout=300)


def blob(path: Path) -> bytes:
    return base64.b64decode(path.read_text().split()[1])


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of three types, each with its public half."""
    directory = tmp_path_factory.mktemp("keys")
    for kind, bits in (("ed25519", 256), ("ecdsa", 256), ("rsa", 2048)):
        keygen("-t", kind, "-b", bits, "-N", "", "-f", directory / kind)
    return directory


def signed(keys: Path, *words: object, authority: str = "ed25519", host: str = "ed25519") -> bytes:
    keygen("-s", keys / authority, "-I", "id", *words, keys / f"{host}.pub")
    return blob(keys / f"{host}-cert.pub")


@pytest.mark.parametrize("host", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("authority", ["ed25519", "ecdsa", "rsa"])
def test_a_certificate_proves_the_host(keys: Path, authority: str, host: str) -> None:
    content = signed(keys, "-h", "-n", "kv1,node", authority=authority, host=host)
    certificate = HostCertificate.read(content)
    assert certificate.authority == blob(keys / f"{authority}.pub")
    assert plain_key(content) == blob(keys / f"{host}.pub")
    assert certificate.problem("node", ALLOWED, time.time()) == ""
    altered = HostCertificate.read(content.replace(b"node", b"nude"))
    assert "signature" in altered.problem("nude", ALLOWED, time.time())
    assert "CASignatureAlgorithms" in certificate.problem("node", (), time.time())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-h"], ""),  # for every host
        (["-h", "-n", "kv1", "-V", "always:forever"], ""),
        (["-h", "-n", "kv2"], "not for kv1"),
        (["-h", "-n", "kv*"], "not for kv1"),
        (["-n", "kv1"], "not one of a host"),
        (["-h", "-n", "kv1", "-V", "+1h:+2h"], "not valid yet"),
        (["-h", "-n", "kv1", "-V", "-2h:-1h"], "expired"),
        (["-h", "-n", "kv1", "-O", "critical:x=y"], "critical options"),
    ],
)
def test_what_a_certificate_does_not_prove(keys: Path, words: list[str], problem: str) -> None:
    shown = HostCertificate.read(signed(keys, *words)).problem("kv1", ALLOWED, time.time())
    assert problem in shown if problem else shown == ""


def test_it_holds_for_its_time(keys: Path) -> None:
    certificate = HostCertificate.read(signed(keys, "-h", "-V", "-1h:+1h"))
    first, end = certificate.valid
    assert end - first == 2 * HOUR_S
    for now, holds in ((first - 1, False), (first, True), (end - 1, True), (end, False)):
        assert (certificate.problem("kv1", ALLOWED, now) == "") is holds


def test_a_certificate_of_which_a_byte_is_another_proves_nothing(keys: Path) -> None:
    content = signed(keys, "-h", "-n", "kv1")
    for at in range(4, len(HostCertificate.read(content).signed)):
        altered = content[:at] + b"\xff" + content[at + 1 :]
        try:
            certificate = HostCertificate.read(altered)
        except ValueError:
            continue
        assert altered == content or certificate.problem("kv1", ALLOWED, time.time())


@pytest.mark.parametrize("kept", [0, 4, 40, 100, -5])
def test_a_cut_certificate_proves_nothing(keys: Path, kept: int) -> None:
    content = signed(keys, "-h")[:kept]
    try:
        certificate = HostCertificate.read(content)
    except ValueError:
        return
    assert certificate.problem("kv1", ALLOWED, time.time())
