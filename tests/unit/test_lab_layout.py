"""specs/clusters/lab.yaml is the lab that `scripts/lab up 3` raises."""

from __future__ import annotations

from pathlib import Path

from perfrunner.spec.loader import load_cluster
from tests.support.netlab.__main__ import DIRECTORY
from tests.support.netlab.layout import Layout, host_name

FILE = Path(__file__).parents[2] / "specs/clusters/lab.yaml"


def test_the_cluster_file_has_the_addresses_keys_and_directories_of_the_lab() -> None:
    layout, cluster = Layout(DIRECTORY, 0), load_cluster(FILE)
    assert list(cluster.hosts) == [host_name(number) for number in (1, 2, 3)]
    for number, host in enumerate(cluster.hosts.values(), 1):
        assert host.address == layout.address(number)
        assert host.data_address == layout.data_address(number)
        assert (host.user, host.work_dir) == ("root", str(layout.work_dir))
        assert (str(host.key), str(host.known_hosts)) == (
            str(layout.key),
            str(layout.known_hosts),
        )
