"""The way to a host, from the cluster file and an OpenSSH configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.cluster import data_address
from perfrunner.cluster.ssh_config import Endpoint, way_to
from perfrunner.errors import HostError
from perfrunner.spec.cluster import HostSpec

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
    path.write_text(CONFIG.replace("/keys/", f"{tmp_path}/"))
    return str(path)


def test_without_a_configuration_the_cluster_file_is_all() -> None:
    assert way_to("kv1", user="me", key="/k") == (Endpoint("kv1", 22, "me", ("/k",), agent=False),)


def test_the_configuration_completes(config: str, tmp_path: Path) -> None:
    (tmp_path / "kv").touch()
    assert way_to("kv1", config=config) == (
        Endpoint("outer", 2200, "bob"),
        Endpoint("inner", 22),
        Endpoint("gate.example", 22, "bob"),
        Endpoint("10.0.0.1", 2222, "ann", (str(tmp_path / "kv"),)),
    )


def test_the_cluster_file_wins(config: str) -> None:
    *_, target = way_to("kv1", port=22, user="me", key="/mine", config=config)
    assert target == Endpoint("10.0.0.1", 22, "me", ("/mine",), agent=False)


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


def told(tmp_path: Path, text: str) -> Endpoint:
    path = tmp_path / "config"
    path.write_text(text)
    return way_to("kv1", config=str(path))[-1]


def test_keys_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    """As by ssh: the agent may have them, and a `.pub` names one of the agent's."""
    for name in ("there", "agents.pub"):
        (tmp_path / name).touch()
    lines = [f"IdentityFile {tmp_path}/{name}" for name in ("gone", "agents.pub", "there")]
    endpoint = told(tmp_path, "Host kv1\n" + "\n".join(lines))
    assert endpoint == Endpoint("kv1", keys=(f"{tmp_path}/there",), agent=True)
    only = told(tmp_path, "\n".join(["Host kv1", *lines, "IdentitiesOnly yes"]))
    assert only == Endpoint("kv1", keys=(f"{tmp_path}/there",), agent=False)


def test_included_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    parts = tmp_path / ".ssh" / "config.d"
    parts.mkdir(parents=True)
    (parts / "lab").write_text("Host kv1\n  HostName 10.0.0.9\n")
    (parts / "user").write_text(f"Include {tmp_path}/deeper nowhere/*\n")
    (tmp_path / "deeper").write_text("Host kv*\n  User ann\nHost other\n  Port 1\n")
    endpoint = told(tmp_path, "include config.d/*  # ours\nPort 2200\n")
    assert endpoint == Endpoint("10.0.0.9", 2200, "ann"), "what follows is for every host again"


def test_files_that_include_each_other_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="Include goes deeper"):
        told(tmp_path, f"Include {tmp_path}/config\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Host kv1\n  ProxyCommand nc gate 22\n", "kv1 has a ProxyCommand"),
        ("Host kv1\n  Port x\n", "the Port of kv1 is no port: 'x'"),
        ("CanonicalizeHostname yes\nCanonicalDomains nowhere.invalid\nCanonicalizeFallbackLocal no\n", "kv1"),
        ("Host kv1\n  Include other\n", "Include within `host kv1` is not read"),
        ('Include "other\n', "No closing quotation"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HostError, match=message):
        told(tmp_path, text)


def test_a_proxy_command_of_none_is_none(tmp_path: Path) -> None:
    assert told(tmp_path, "Host kv1\n  ProxyCommand none\n") == Endpoint("kv1")


def test_clients_go_where_the_configuration_leads(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host kv1\n  HostName 10.0.0.5\n")
    aliased = HostSpec(address="kv1", ssh_config=str(tmp_path / "config"))
    assert data_address(aliased) == "10.0.0.5"
    assert data_address(aliased.model_copy(update={"data_address": "10.1.0.5"})) == "10.1.0.5"
    assert data_address(HostSpec(address="kv1")) == "kv1"
