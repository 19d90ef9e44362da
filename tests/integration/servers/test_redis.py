"""Real Redis servers as variants."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.servers.conftest import ServerLab, memcached, redis, script, settings_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.long
def test_two_settings_of_redis(servers: ServerLab):
    servers.write({"one": redis(), "two": redis("--io-threads", "2", "--maxmemory", "200mb")})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    settings = settings_of(driver, "two")
    assert settings["server.kind"] == "redis"
    assert settings["server.protocol"] == "resp2"
    assert settings["server.io-threads"] == "2"
    assert settings["server.maxmemory"] == str(200 * 1024**2)
    for trial in servers.data().trials:
        assert trial.status == "ok", trial.reason
        assert trial.metrics["mem_used_bytes"] > 2000 * 100
    servers.assert_nothing_left()


@pytest.mark.long
def test_a_preload_wins_and_the_figures_of_jemalloc_are_left_out(servers: ServerLab):
    """Debian's Redis is linked with jemalloc, which its INFO asks whatever the allocator is."""
    servers.write({"linked": redis(), "glibc": {**redis(), "allocator": {"preload": "glibc"}}})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    metrics = {trial.variant: trial.metrics for trial in servers.data().trials}
    assert "allocator_frag_bytes" in metrics["linked"]
    assert "allocator_frag_bytes" not in metrics["glibc"]
    assert metrics["glibc"]["mem_used_bytes"] != metrics["linked"]["mem_used_bytes"]


@pytest.mark.long
def test_servers_of_different_protocols_are_interleaved(servers: ServerLab):
    text = memcached()
    text["server"]["protocol"] = "text"
    servers.write({"memcached": memcached(), "text": text, "redis": redis()})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert {t.status for t in servers.data().trials} == {"ok"}


@pytest.mark.long
def test_the_bundled_engine_is_interleaved_with_other_servers(servers: ServerLab):
    """Its login is its own: the others have none, and refuse one."""
    engine = {"allocator": {"name": "system"}}
    others = {"memcached": memcached(), "redis": redis()}
    small = {"vbuckets": 16, "quota_mb": 100}
    servers.write({"engine": engine, **others}, engine=small, buckets=["ephemeral"])
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert {t.status for t in servers.data().trials} == {"ok"}


def test_a_password_is_not_shown(
    servers: ServerLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The server reads it from a file of the user; the load and the questions from perfrunner's environment.

    The file is that of a server in use, whose data, log and socket stay as they are.
    """
    secret = "a-secret-of-this-test"
    monkeypatch.setenv("REDIS_SECRET", secret)
    in_use = tmp_path / "in-use"
    in_use.mkdir()
    configuration = tmp_path / "redis.conf"
    configuration.write_text(
        f"requirepass {secret}\ndaemonize yes\ndir {in_use}\nappendonly yes\nlogfile {in_use}/redis.log\n"
        f"pidfile {in_use}/redis.pid\nunixsocket {in_use}/redis.sock\nbind 127.0.0.2\n"
    )

    def variant(*words: str) -> dict[str, Any]:
        command = redis(*words)["server"]["command"]
        with_file = [command[0], str(configuration), *command[1:]]
        return {"server": {"command": with_file, "password_env": "REDIS_SECRET"}}

    servers.write({"one": variant(), "two": variant("--io-threads", "2")})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert not [*in_use.iterdir()]
    for directory, _, names in os.walk(servers.out):
        for name in names:
            assert secret.encode() not in (Path(directory) / name).read_bytes(), name
    monkeypatch.setenv("REDIS_SECRET", "wrong")
    code, driver = servers.measure()
    assert code == 3
    message = driver.stderr()
    assert "refuses the load: it answers: WRONGPASS" in message
    assert "does not speak" not in message


def test_a_password_of_a_server_without_one(servers: ServerLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REDIS_SECRET", "a-secret-of-this-test")
    open_to_all = redis()
    open_to_all["server"]["password_env"] = "REDIS_SECRET"
    servers.write({"one": open_to_all, "two": redis()})
    code, driver = servers.measure()
    assert code == 3
    message = driver.stderr()
    assert "redis-server on here has no password" in message
    assert "leave server.password_env (ab: --password-env) out" in message


def test_cluster_mode_is_measured(servers: ServerLab):
    servers.write({"alone": redis(), "node": redis("--cluster-enabled", "yes")})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert settings_of(driver, "node")["server.cluster-enabled"] == "yes"
    assert {trial.status for trial in servers.data().trials} == {"ok"}
    servers.assert_nothing_left()


def test_a_node_that_belongs_to_a_cluster_is_refused(servers: ServerLab, tmp_path: Path):
    nodes = (
        f"{'a' * 40} 127.0.0.1:1@10001 master - 0 0 1 connected\n"
        f"{'b' * 40} 127.0.0.1:2@10002 myself,master - 0 0 0 connected\n"
        "vars currentEpoch 1 lastVoteEpoch 0\n"
    )
    real = redis()["server"]["command"][0]
    text = (
        f"import os, sys\nopen('nodes.conf', 'w').write({nodes!r})\n"
        f"os.execv({real!r}, [{real!r}, *sys.argv[1:]])\n"
    )
    node = script(tmp_path / "node", text)
    words = [node, "--port", "{port}", "--save", "", "--cluster-enabled", "yes"]
    servers.write({"one": {"server": {"command": words}}, "two": redis()})
    code, driver = servers.measure()
    assert (code, driver.of("TrialStarted")) == (3, [])
    message = driver.stderr()
    assert "cannot be measured: it is one of 2 nodes of a cluster: expected one node" in message
    assert "does not speak" not in message
    servers.assert_nothing_left()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--maxclients", "9"], "maxclients 9: expected a limit of at least 10 clients"),
        (["--dir", "{in_use}", "--save", "900 1"], "it saves to {in_use}: expected a server that saves nothing"),
        (["--dir", "{in_use}"], ""),
    ],
)  # fmt: skip
def test_what_a_wrapper_adds_is_refused_when_it_is_read_back(
    servers: ServerLab, tmp_path: Path, words: list[str], message: str
):
    (tmp_path / "in-use").mkdir()
    words = [word.format(in_use=tmp_path / "in-use") for word in words]
    real = redis()["server"]["command"][0]
    text = f"import os, sys\nos.execv({real!r}, [{real!r}, *sys.argv[1:], *{words!r}])\n"
    wrapper = script(tmp_path / "wrapper", text)
    variant = {"server": {"command": [wrapper, "--port", "{port}", "--save", ""]}}
    servers.write({"one": variant, "two": redis()})
    code, driver = servers.measure()
    if message:
        assert (code, driver.of("TrialStarted")) == (3, [])
        assert f"variant one: {message.format(in_use=tmp_path / 'in-use')}" in driver.stderr()
    else:
        assert code == 0, driver.stderr()
    servers.assert_nothing_left()
