"""Servers on hosts over SSH: what is sent, what is the host's own, and how they are asked, measured and stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # importlib mode: sshd.py is in no package

from sshd import Sshd, raised_sshd

from tests.integration.servers.conftest import ServerLab, library, program, settings_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with raised_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def cluster(sshd: Sshd, servers: ServerLab, *, apart: bool = False) -> dict[str, Any]:
    """A cluster file's content: one host, or the server and the load on hosts of their own.

    Apart, the server's address is not that of loopback: it listens for other hosts, and its CPU clock is asked there.
    """
    names = ["kv", "load"] if apart else ["kv"]
    hosts = {
        name: sshd.host_spec(servers.work / name).model_dump(mode="json", exclude_defaults=True)
        for name in names
    }
    if apart:
        hosts["kv"]["data_address"] = "127.0.0.2"
    return {
        "name": "lab", "transport": "ssh", "hosts": hosts,
        "engine_nodes": names[:1], "load_clients": names[-1:],
    }  # fmt: skip


def server(*command: str, **fields: Any) -> dict[str, Any]:
    return {"server": {"command": list(command), **fields}}


def placed(servers: ServerLab) -> dict[str, str]:
    """By variant, where its program and preloaded library came from."""
    return {build.variant: build.provenance["server"]["placed"] for build in servers.data().builds}


def repository(directory: Path) -> str:
    """A repository whose server is memcached with three threads."""
    path = directory / "repository"
    git = ["git", "-C", str(path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    (path / "server").write_text('#!/bin/sh\necho begins\nexec memcached "$@" -t 3\n')
    (path / "server").chmod(0o755)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "three threads"], check=True)
    return str(path)


@pytest.mark.long
def test_the_hosts_own_and_sent_programs(servers: ServerLab, sshd: Sshd, tmp_path: Path):
    """A program by its path, or built here, is sent with its libraries; one by its name is the host's own."""
    mine = tmp_path / "memcached-mine"
    shutil.copy(program("memcached"), mine)
    empty = library(tmp_path / "libempty.so", "int perfrunner_nothing;\n")
    sent = server(str(mine), "-p", "{port}", "-t", "2", kind="memcached")
    variants = {
        "own": server("nice", "-n", "5", "memcached", "-p", "{port}", "-t", "1"),
        "sent": sent,
        "preloaded": {**sent, "allocator": {"preload": empty}},
        "built": server("./server", "-p", "{port}", kind="memcached", git=repository(tmp_path)),
    }
    servers.write(variants, cluster=cluster(sshd, servers))
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    where = placed(servers)
    assert where.pop("built").endswith("/server of this machine, sent to kv")
    assert where == {
        "own": f"/usr/bin/nice of kv; starts {program('memcached')} of kv",
        "sent": f"{mine} of this machine, sent to kv",
        "preloaded": f"{mine} of this machine, sent to kv; preloaded {empty} of this machine, sent to kv",
    }
    assert settings_of(driver, "sent")["server.num_threads"] == "2"
    artifacts = servers.work / "kv" / "artifacts"
    ran = Path(settings_of(driver, "preloaded")["allocator.preload"])
    assert artifacts in ran.parents
    assert list((ran.parents[1] / "lib").glob("libevent-*"))
    assert not list((ran.parents[1] / "lib").glob("libc.so*"))
    for trial in servers.data().trials:
        assert trial.status == "ok", trial.reason
        assert trial.metrics["mem_used_bytes"] > 2000 * 100
        assert trial.metrics["server_cpu_us_per_op"] > 0
    (trial,) = servers.out.glob("*/trials/*-built")
    assert '"num_threads": "3"' in (trial / "server-stat.json").read_text()
    assert (trial / "server.log").read_text() == "begins\n"
    servers.assert_nothing_left()


@pytest.mark.long
def test_a_server_apart_from_its_load(
    servers: ServerLab, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
):
    """Redis listens for other hosts and wants a password; the CPU time of both is read on their host."""
    monkeypatch.setenv("REDIS_SECRET", "a-secret-of-this-test")
    configuration = servers.directory / "redis.conf"
    configuration.write_text("requirepass a-secret-of-this-test\n")
    redis = ["redis-server", str(configuration), "--port", "{port}", "--save", ""]
    variants = {
        "redis": server(*redis, password_env="REDIS_SECRET"),
        "glibc": {
            **server(*redis, password_env="REDIS_SECRET"), "allocator": {"preload": "glibc"},
        },
        "memcached": server("memcached", "-p", "{port}"),
    }  # fmt: skip
    servers.write(variants, cluster=cluster(sshd, servers, apart=True))
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert "libc.so.6 of kv" in placed(servers)["glibc"]
    warned = [event["message"] for event in driver.of("Warned")]
    assert any(text.startswith("memcached: everyone who reaches kv") for text in warned)
    assert not any(text.startswith("redis: everyone") for text in warned)
    for trial in servers.data().trials:
        assert trial.status == "ok", trial.reason
        assert trial.metrics["server_cpu_us_per_op"] > 0
    for directory, _, names in os.walk(servers.out):
        for name in names:
            assert b"a-secret-of" not in (Path(directory) / name).read_bytes(), name
    servers.assert_nothing_left()
