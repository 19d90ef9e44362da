"""Ways to a host, and hosts that do not suit: by jumps, by other addresses, of other systems."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from perfrunner.errors import HostError
from perfrunner.experiment.preflight.doctor import examine
from perfrunner.experiment.preflight.health import Finding
from perfrunner.experiment.preflight.hosts import open_hosts
from perfrunner.hosts import open_host
from perfrunner.spec.cluster import HostSpec
from tools.lab import Lab

pytestmark = pytest.mark.integration


def test_a_host_behind_another(lab: Lab, tmp_path: Path) -> None:
    """The controller and lab3 cannot reach each other; lab1 reaches both."""
    lab.run("lab3", "ip", "route", "add", "blackhole", f"{lab.layout.controller}/32")
    config = tmp_path / "config"
    config.write_text(
        f"Host {lab.hosts['lab3']}\n  ProxyJump root@{lab.hosts['lab1']}\n"
        f"Host *\n  IdentityFile {lab.layout.key}\n  UserKnownHostsFile {lab.layout.known_hosts}\n"
    )
    spec = HostSpec.model_validate(lab.host_document("lab3", ssh_config=str(config)))
    try:
        with open_host(spec, "ssh", name="lab3") as host:
            assert host.transport.run(["hostname"]).stdout == "lab3\n"
            lab.layout.known_hosts.read_text()
    finally:
        lab.run("lab3", "ip", "route", "delete", "blackhole", f"{lab.layout.controller}/32")


def test_the_hop_must_be_known_too(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host {lab.hosts['lab3']}\n  ProxyJump root@{lab.hosts['lab1']}\n"
        f"Host *\n  IdentityFile {lab.layout.key}\n"
    )
    only = [ln for ln in lab.layout.known_hosts.read_text().splitlines() if lab.hosts["lab3"] in ln]
    (tmp_path / "known_hosts").write_text("\n".join(only) + "\n")
    with config.open("a") as text:
        text.write(f"  UserKnownHostsFile {tmp_path}/known_hosts\n")
    document = lab.host_document("lab3", ssh_config=str(config))
    with pytest.raises(HostError, match="Host key verification failed"):
        open_host(HostSpec.model_validate(document), "ssh", name="lab3")


def fake(lab: Lab, host: str, program: str, says: str, tmp_path: Path) -> str:
    """`program` on that host prints something else until it is unmounted; its path."""
    script = tmp_path / program
    script.write_text(f"#!/bin/sh\necho {says}\n")
    script.chmod(0o755)
    path = subprocess.run(["which", program], capture_output=True, text=True, check=True).stdout
    lab.run(host, "mount", "--bind", str(script), path.strip())
    return path.strip()


def test_a_host_of_an_older_system_is_refused_before_anything_starts(
    lab: Lab, tmp_path: Path
) -> None:
    path = fake(lab, "lab2", "getconf", "glibc 2.17", tmp_path)
    try:
        with (
            pytest.raises(HostError, match=r"lab2: it has glibc 2\.17, and programs are built"),
            open_hosts(lab.cluster(["lab1", "lab2"], ["lab3"]), "r", _Silent()),
        ):
            pytest.fail("opened")
    finally:
        lab.run("lab2", "umount", path)
    assert lab.processes("lab1") == []
    with open_hosts(lab.cluster(["lab1", "lab2"], ["lab3"]), "r", _Silent()) as hosts:
        assert list(hosts.placements) == ["lab1", "lab2", "lab3"], "and no lock was left"


def test_data_addresses_are_those_that_clients_use(lab: Lab) -> None:
    document = lab.cluster_document(["lab1"], ["lab2"])
    document["hosts"]["lab1"]["data_address"] = "192.0.2.7"  # type: ignore[index]
    cluster = type(lab.cluster(["lab1"], ["lab2"])).model_validate(document)
    with open_hosts(cluster, "r", _Silent()) as hosts:
        assert hosts.placements["lab1"].address == "192.0.2.7"
        assert hosts.placements["lab1"].listen == "0.0.0.0"
    document["hosts"]["lab1"]["data_address"] = "2001:db8::5"  # type: ignore[index]
    cluster = type(cluster).model_validate(document)
    with open_hosts(cluster, "r", _Silent()) as hosts:
        assert hosts.placements["lab1"].address == "2001:db8::5"
        assert hosts.placements["lab1"].listen == "::"


def test_clients_use_the_address_that_an_alias_stands_for(lab: Lab, tmp_path: Path) -> None:
    """Of our ssh_config they know nothing."""
    config = tmp_path / "config"
    config.write_text(f"Host kv-alias\n  HostName {lab.hosts['lab1']}\n")
    document = lab.cluster_document(["lab1"], ["lab2"])
    changes = {"address": "kv-alias", "ssh_config": str(config)}
    document["hosts"]["lab1"] |= changes  # type: ignore[index]
    cluster = type(lab.cluster(["lab1"], ["lab2"])).model_validate(document)
    with open_hosts(cluster, "r", _Silent()) as hosts:
        assert hosts.placements["lab1"].address == lab.hosts["lab1"]
    (pair,) = [f for f in examine(cluster, None) if f.subject == "network"]
    assert pair.text.startswith(f"{lab.hosts['lab1']} answers")


@pytest.mark.long
def test_the_doctor_looks_at_every_pair(lab: Lab) -> None:
    cluster = lab.cluster(["lab1", "lab2"], ["lab3"])
    pairs = {f.place: f for f in examine(cluster, None) if f.subject == "network"}
    assert set(pairs) == {"lab3 to lab1", "lab3 to lab2", "lab1 to lab2", "lab2 to lab1"}
    assert {f.grade for f in pairs.values()} <= {"ok", "warning"}, "a busy machine is slow"
    assert all(min(takes_and_gives(f)) > 0 for f in pairs.values()), pairs
    lab.assert_idle()
    lab.part("lab1", "lab2")
    pairs = {f.place: f for f in examine(cluster, None) if f.subject == "network"}
    assert {place for place, f in pairs.items() if f.grade == "problem"} == {
        "lab1 to lab2",
        "lab2 to lab1",
    }


@pytest.mark.long
def test_the_doctor_does_not_ask_for_sshd_on_a_data_network(lab: Lab) -> None:
    """Engines work where a firewall drops port 22, and do not where it drops all others."""
    rule = ["to", lab.hosts["lab2"], "ipproto", "tcp", "sport"]
    cluster = lab.cluster(["lab1"], ["lab2"])
    for ports, grades in (("22", {"ok", "warning"}), ("23-65534", {"problem"})):
        lab.run("lab1", "ip", "rule", "add", *rule, ports, "blackhole")
        try:
            (pair,) = [f for f in examine(cluster, None) if f.subject == "network"]
        finally:
            lab.run("lab1", "ip", "rule", "delete", *rule, ports, "blackhole")
        assert pair.grade in grades, pair
        assert ("MB/s" in pair.text) == (ports == "22"), pair
    lab.assert_idle()


@pytest.mark.parametrize(("mbit", "most"), [(80, 11), pytest.param(1, 0.5, marks=pytest.mark.long)])
def test_the_doctor_names_a_narrow_cable(lab: Lab, mbit: int, most: float) -> None:
    """At most what the cable carries: a busy machine is slower than the cable."""
    lab.limit("lab1", mbit)
    results = examine(lab.cluster(["lab1"], ["lab2"]), None)
    (pair,) = [f for f in results if f.subject == "network"]
    assert pair.grade == "warning"
    assert all(0 < rate <= most for rate in takes_and_gives(pair)), pair.text
    assert "network" in pair.remedy
    lab.assert_idle()


def takes_and_gives(pair: Finding) -> list[float]:
    """MB/s."""
    rates = re.search(r"takes ([\d.]+) MB/s and gives ([\d.]+) MB/s", pair.text)
    assert rates, pair
    return [float(rate) for rate in rates.groups()]


@pytest.mark.long
def test_the_doctor_names_a_cable_that_is_narrow_one_way(lab: Lab) -> None:
    """What a node sends, which writes do not need and reads do."""
    shape = ["tbf", "rate", "80mbit", "burst", "64kb", "latency", "50ms"]
    lab.run("lab1", "tc", "qdisc", "add", "dev", "eth0", "root", *shape)
    (pair,) = [f for f in examine(lab.cluster(["lab1"], ["lab2"]), None) if f.subject == "network"]
    takes, gives = takes_and_gives(pair)
    assert 0 < gives <= 11 < takes, "80 Mbit/s"
    assert pair.grade == "warning"
    assert "network" in pair.remedy


class _Silent:
    def on_event(self, event: object) -> None:
        pass


@pytest.mark.long
def test_the_doctor_names_a_long_cable(lab: Lab) -> None:
    lab.delay("lab1", 50)
    results = examine(lab.cluster(["lab1"], ["lab2"]), None)
    (pair,) = [f for f in results if f.subject == "network"]
    assert (took := re.search(r"answers in ([\d.]+) ms", pair.text)), pair
    assert float(took[1]) >= 80, "there and back; what bash takes is taken off"
    assert pair.grade == "warning"
    assert "one network" in pair.remedy


@pytest.mark.long
def test_the_doctor_names_a_wrong_clock(lab: Lab) -> None:
    lab.set_clock("lab2", 600)
    results = examine(lab.cluster(["lab1"], ["lab2"]), None)
    clocks = {f.place: f for f in results if f.subject == "clock"}
    assert {place: f.grade for place, f in clocks.items()} == {"lab1": "ok", "lab2": "warning"}
    assert re.fullmatch(r"\+(599|60\d)\.\d s against this machine's", clocks["lab2"].text)
    lab.set_clock("lab2", 0)
