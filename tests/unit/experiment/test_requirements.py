"""Check what a spec requires of its hosts before anything starts: the SDK, free ports, and the route by ssh."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from perfrunner.errors import HostError, UsageError, require_sdk
from perfrunner.experiment.preflight.hosts import ssh_command
from perfrunner.experiment.preflight.requirements import (
    named_ports,
    require_sdk_here,
    require_sdk_there,
    sdk_findings,
)
from perfrunner.hosts import Host, open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.model import Spec
from tests.unit.experiment.test_plan import a_spec


def sdk_spec(python: str | None = None) -> Spec:
    document = a_spec(workloads=1).model_dump()
    document["workloads"] = {"app": {"type": "sdk", "items": 10}}
    document["client"]["python"] = python
    return Spec.model_validate(document)


@pytest.fixture
def hosts(tmp_path: Path) -> dict[str, Host]:
    spec = a_spec().cluster.hosts["h"].model_copy(update={"work_dir": str(tmp_path / "work")})
    return {"h": open_host(spec, "local", name="h", run_id="r")}


def interpreter(directory: Path, script: str) -> str:
    path = directory / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_it_is_looked_for_where_a_workload_needs_it(hosts: dict[str, Host]) -> None:
    assert list(sdk_findings(a_spec(), hosts)) == []
    (results,) = sdk_findings(sdk_spec(), hosts)
    assert (results.place, results.subject, results.grade) == ("h", "couchbase SDK", "ok")
    assert "for Python 3." in results.text
    require_sdk_there(sdk_spec(), hosts)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo No module named couchbase >&2; exit 1", "cannot import couchbase: No module named couchbase"),
        ("exit 7", "cannot import couchbase: exit 7"),
        ("echo nonsense", "cannot import couchbase: nonsense"),
        ("""echo '[[3, 8], "3.8.1", "4.1.0"]'""", "is Python 3.8.1; the SDK needs 3.10 or later"),
    ],
)  # fmt: skip
def test_a_client_without_it_is_refused(
    hosts: dict[str, Host], tmp_path: Path, script: str, says: str
) -> None:
    python = interpreter(tmp_path, script)
    with pytest.raises(HostError, match="h: ") as caught:
        require_sdk_there(sdk_spec(python), hosts)
    assert f"{python} {says}" in caught.value.message
    assert caught.value.hint is not None
    assert "client.python=DIR/bin/python" in caught.value.hint


def test_a_python_that_is_not_there_is_reported(hosts: dict[str, Host], tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file or directory"):
        require_sdk_there(sdk_spec(str(tmp_path / "none")), hosts)


def test_our_own_python_is_looked_at_before_anything_is_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_sdk()
    monkeypatch.setattr("perfrunner.errors.SDK_PACKAGES", ("no_such_package",))
    with pytest.raises(UsageError, match="a workload of type sdk needs no_such_package") as caught:
        require_sdk_here(sdk_spec())
    assert caught.value.hint == "pip install 'perfrunner[sdk]'"
    require_sdk_here(a_spec())
    require_sdk_here(sdk_spec("/opt/python"))
    assert sys.executable != "/opt/python"


TOOL = {"workloads": {"l": {"type": "latency"}}, "primary": ["Latency/Add/p50_us"]}


@pytest.mark.parametrize(
    ("changes", "ports"),
    [
        ({}, []),
        ({"engine": {"port": 7000}}, [7000, 7001, 7002]),
        ({"engine": {"port": 7000}, "limits": {"group_size": 2}}, [7000, 7001]),
        ({"engine": {"port": 7000}, "schedule": "sequential"}, [7000]),
        ({"engine": {"port": 7000}, **TOOL}, []),
    ],
)
def test_as_many_as_engines_may_be_alive(changes: dict[str, Any], ports: list[int]) -> None:
    document = {**a_spec(variants=3, workloads=1).model_dump(), **changes}
    assert list(named_ports(Spec.model_validate(document))) == ports


def test_the_ssh_line_goes_where_the_run_went_by_the_same_rules() -> None:
    assert ssh_command(HostSpec(address="kv1")) == "ssh -- kv1"
    host = HostSpec(address="kv1", port=22, user="CORP\\ann", known_hosts="/lab/known hosts")
    line = "ssh -p 22 -l 'CORP\\ann' -o 'UserKnownHostsFile=\"/lab/known hosts\"' -- kv1"
    assert ssh_command(host) == line
    host = HostSpec(address="::1", ssh_config="/c", key="/k", host_keys="accept-new")
    line = "ssh -F /c -o IdentityFile=/k -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -- ::1"
    assert ssh_command(host) == line
