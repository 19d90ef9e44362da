"""The cost of sending a build, in CPU time of this process, compared with that of sending its bytes."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from perfrunner.hosts import Host
from tests.support.costs import cost_ratio

pytestmark = [pytest.mark.integration, pytest.mark.long]

SIZE = 50_000_000


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """An artifact of 50 MB that cannot be compressed."""
    (tmp_path / "artifact" / "bin").mkdir(parents=True)
    (tmp_path / "artifact" / "bin" / "engine").write_bytes(os.urandom(SIZE))
    return tmp_path / "artifact"


def test_a_new_build_costs_little_more_than_its_bytes(ssh_host: Host, artifact: Path) -> None:
    data = os.urandom(SIZE)
    names = map(str, itertools.count())
    ratio = cost_ratio(
        lambda: ssh_host.deploy(artifact, next(names)),
        lambda: ssh_host.transport.put_bytes(data, "bytes"),
        rounds=3,
    )
    assert ratio < 3


def test_a_build_that_is_there_costs_a_fraction_of_sending_it(
    ssh_host: Host, artifact: Path
) -> None:
    data = os.urandom(SIZE)
    ssh_host.deploy(artifact, "build")

    def again() -> None:
        ssh_host._deployed.clear()
        ssh_host.deploy(artifact, "build")

    ratio = cost_ratio(again, lambda: ssh_host.transport.put_bytes(data, "bytes"), rounds=3)
    assert ratio < 0.5


def test_much_output_costs_about_what_sending_it_does(ssh_host: Host) -> None:
    data = bytes(SIZE)
    command = ["head", "-c", str(SIZE), "/dev/zero"]
    ratio = cost_ratio(
        lambda: ssh_host.transport.run(command),
        lambda: ssh_host.transport.put_bytes(data, "bytes"),
        rounds=3,
    )
    assert ratio < 4
