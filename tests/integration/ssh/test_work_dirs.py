"""Work directories in which nothing can be measured are refused at the start of a run, and named by doctor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sshd import Sshd

from perfrunner.build.builders import platform_here
from perfrunner.errors import HostError
from perfrunner.experiment.preflight.doctor import examine
from perfrunner.experiment.preflight.hosts import open_hosts, refuse_unfit
from perfrunner.spec.cluster import ClusterSpec

pytestmark = pytest.mark.integration


REMOTE = "size=901m"  # stands for a network file system of a type that perfrunner does not know


class _Silent:
    def on_event(self, event: object) -> None:
        pass


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """mounted(options) returns a work directory on a file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a file system")
    work = tmp_path / "work"
    work.mkdir()

    def mount(options: str) -> Path:
        source = "server:/export" if options == REMOTE else "tmpfs"
        words = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", source, str(work)]
        if subprocess.run(words, check=False).returncode:
            pytest.skip("needs the right to mount a file system")
        return work

    yield mount
    subprocess.run(["umount", "-l", str(work)], check=False, stderr=subprocess.DEVNULL)


def cluster(sshd: Sshd, transport: str, work: Path) -> ClusterSpec:
    if transport == "ssh":
        host = sshd.host_spec(work).model_dump(mode="json", exclude_none=True)
    else:
        host = {"work_dir": str(work)}
    return ClusterSpec.model_validate(
        {"name": "one", "transport": transport, "hosts": {"kv1": host}}
        | {"engine_nodes": ["kv1"], "load_clients": ["kv1"]}
    )


@pytest.mark.parametrize("transport", ["ssh", pytest.param("local", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("options", "subject", "text"),
    [
        ("size=900m,noexec", "work directory", "kv1: the work directory is mounted noexec"),
        (REMOTE, "work directory", "kv1: the work directory is on tmpfs of server:/export: locks"),
        ("size=10m", "disk", "kv1: No space left on device: 0.0 GB free"),
        ("size=900m,nr_inodes=50", "disk", "kv1: No space left on device: only .* more files"),
    ],
    ids=["noexec", "remote", "full", "no inodes"],
)
def test_it_is_refused(
    sshd: Sshd,
    mounted: Callable[[str], Path],
    transport: str,
    options: str,
    subject: str,
    text: str,
) -> None:
    hosts = cluster(sshd, transport, mounted(options))
    with pytest.raises(HostError, match=text) as caught, open_hosts(hosts, "r", _Silent()):
        pytest.fail("opened")
    assert "work_dir" in (caught.value.hint or "")
    with pytest.raises(HostError, match=text):
        refuse_unfit(hosts, "r", platform_here())
    grades = {finding.subject: finding.grade for finding in examine(hosts, None)}
    assert grades[subject] == "problem"
    assert grades["reached"] == "ok"


def test_what_a_run_left_does_not_keep_it_from_resuming(
    sshd: Sshd, mounted: Callable[[str], Path]
) -> None:
    work = mounted("size=220m")
    hosts = cluster(sshd, "ssh", work)
    left = work / "runs" / "r" / "data"
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(100_000_000))
    with open_hosts(hosts, "r", _Silent()):
        assert not left.exists()
