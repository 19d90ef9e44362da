"""Hosts that programs of this machine cannot run on, for real: other Debian systems on a host of the lab."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfrunner.errors import HostError
from perfrunner.experiment.preflight.doctor import examine
from perfrunner.experiment.preflight.hosts import open_hosts
from perfrunner.hosts import open_host
from perfrunner.spec.cluster import ClusterSpec, HostSpec
from tools.lab import Lab

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
HOST = "lab2"
NUMBER = 100  # of its address: its sshd is another one than the lab's
# $1 root of the system, $2 the lab's host key, $3 its user's public key, $4 address/bits
_BEGIN = """
for part in proc sys dev; do mount --rbind /$part "$1/$part"; done
install -m 600 "$2" "$1/etc/ssh/ssh_host_ed25519_key"
install -D -m 600 "$3" "$1/root/.ssh/authorized_keys"
mkdir -p "$1/run/sshd"
ip address add "$4" dev eth0
exec chroot "$1" /usr/sbin/sshd -o "ListenAddress=${4%/*}" -o PidFile=none -o UsePAM=no
"""


@dataclass(frozen=True)
class Foreign:
    """A system of its own on HOST, as a cluster names it."""

    lab: Lab
    address: str
    known_hosts: Path

    def document(self) -> dict[str, object]:
        return self.lab.host_document(
            HOST, address=self.address, known_hosts=str(self.known_hosts), work_dir="/var/tmp/work"
        )

    def cluster(self) -> ClusterSpec:
        document = self.lab.cluster_document(["lab1", HOST], ["lab3"])
        document["hosts"][HOST] = self.document()  # type: ignore[index]
        return ClusterSpec.model_validate(document)


@pytest.fixture
def foreign(lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Foreign]:
    suite, architecture = request.param
    if platform.machine() != "x86_64":
        pytest.skip("the systems are those of an x86-64 kernel")
    if shutil.which("mmdebstrap") is None or not SOURCES.exists():
        pytest.skip(f"needs mmdebstrap and {SOURCES}")
    mirror = re.search(r"^URIs: (http\S+/debian)$", SOURCES.read_text(), re.MULTILINE)
    assert mirror is not None
    root = tmp_path / "root"
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", "--include=openssh-server",
         f"--architectures={architecture}", "--dpkgopt=force-unsafe-io", suite, root, mirror[1]],
        check=True,
    )  # fmt: skip
    address = lab.layout.address(NUMBER)
    key = lab.layout.host_directory(HOST) / "host_key"
    begin = ["sh", "-ec", _BEGIN, "sh", str(root), str(key), f"{lab.layout.key}.pub"]
    lab.run(HOST, *begin, f"{address}/24")
    known = tmp_path / "known_hosts"
    known.write_text(f"{address} {key.with_suffix('.pub').read_text()}")
    yield Foreign(lab, address, known)
    lab.power_off(HOST)  # with its mounts: what is below them is removed by pytest
    lab.boot(HOST)


@pytest.mark.parametrize(
    ("foreign", "says"),
    [
        (("bullseye", "amd64"), r"it has glibc 2\.31, and programs are built here with glibc"),
        (("bookworm", "i386"), "it runs 32-bit programs, and programs are built here with 64 bits"),
    ],
    indirect=["foreign"],
)
def test_it_is_refused_before_anything_starts(lab: Lab, foreign: Foreign, says: str) -> None:
    with open_host(HostSpec.model_validate(foreign.document()), "ssh", name=HOST) as host:
        assert host.facts()["hostname"] == HOST, "it can be asked"
    with (
        pytest.raises(HostError, match=f"{HOST}: {says}") as refused,
        open_hosts(foreign.cluster(), "r", _Silent()),
    ):
        pytest.fail("opened")
    assert "build_host" in str(refused.value.hint)
    lab.assert_idle()
    results = [f for f in examine(foreign.cluster(), None) if f.grade == "problem"]
    assert [(f.place, f.subject) for f in results] == [(HOST, "programs")], results
    assert re.match(says, results[0].text)
    lab.assert_idle()


class _Silent:
    def on_event(self, event: object) -> None:
        pass
