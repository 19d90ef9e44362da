"""The way to a host, from the cluster file and an OpenSSH configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.cluster.ssh_config import Endpoint, way_to
from perfrunner.errors import HostError

CONFIG = """
Host kv1
  HostName 10.0.0.1
  Port 2222
  User ann
  IdentityFile /keys/kv
  ProxyJump gate

Host gate
  HostName gate.example
  User bob
  ProxyJump bob@outer:2200,inner

Host loop
  ProxyJump loop
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return str(path)


def test_without_a_configuration_the_cluster_file_is_all() -> None:
    assert way_to("kv1", user="me", key="/k") == (Endpoint("kv1", 22, "me", ("/k",)),)


def test_the_configuration_completes(config: str) -> None:
    assert way_to("kv1", config=config) == (
        Endpoint("outer", 2200, "bob"),
        Endpoint("inner", 22),
        Endpoint("gate.example", 22, "bob"),
        Endpoint("10.0.0.1", 2222, "ann", ("/keys/kv",)),
    )


def test_the_cluster_file_wins(config: str) -> None:
    *_, target = way_to("kv1", port=22, user="me", key="/mine", config=config)
    assert target == Endpoint("10.0.0.1", 22, "me", ("/mine",))


def test_a_host_that_the_configuration_does_not_name(config: str) -> None:
    assert way_to("kv9", config=config) == (Endpoint("kv9"),)


def test_a_circle_is_an_error(config: str) -> None:
    with pytest.raises(HostError, match="more than 8 hosts"):
        way_to("loop", config=config)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"ssh_config .*/nowhere cannot be read"):
        way_to("kv1", config=str(tmp_path / "nowhere"))


def test_known_hosts_names() -> None:
    assert Endpoint("a").known_as == "a"
    assert Endpoint("a", 2222).known_as == "[a]:2222"
