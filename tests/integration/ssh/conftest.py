"""One sshd for the module's tests, and a host on each side of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# importlib mode: neither sshd.py nor workers.py is in a package.
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from sshd import Sshd, raised_sshd

from perfrunner.hosts import Host, open_host
from perfrunner.spec.cluster import HostSpec


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with raised_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(params=["local", "ssh"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """The same host, reached both ways."""
    work_dir = tmp_path / "work"
    if request.param == "local":
        spec = HostSpec(work_dir=str(work_dir))
    else:
        spec = request.getfixturevalue("sshd").host_spec(work_dir)
    with open_host(spec, request.param, name="node", run_id="run-1") as opened:
        yield opened
        for left in opened.sweep(grace_s=0.5):
            assert not left.result.orphans, f"the test left {left}"


@pytest.fixture
def ssh_host(sshd: Sshd, tmp_path: Path) -> Iterator[Host]:
    with open_host(sshd.host_spec(tmp_path / "work"), "ssh", name="node", run_id="run-1") as opened:
        yield opened
        opened.sweep(grace_s=0.5)
