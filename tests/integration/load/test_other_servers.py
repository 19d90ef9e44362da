"""pillowfight against Debian's memcached and redis-server, in each protocol that they speak."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import built
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

ITEMS = 2000
OPS = 20_000
LOAD = [
    f"--num-items={ITEMS}", f"--num-ops={OPS}", "--min-size=100", "--max-size=200", "--set-pct=30",
    "--batch-size=100", "--verify-every=1", "--random-seed=3",
]  # fmt: skip


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def ask(self, question: bytes, end: bytes) -> str:
        """Send one command and return the answer up to `end`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(question)
            answer = b""
            while end not in answer:
                more = connection.recv(65536)
                assert more, answer
                answer += more
        return answer.decode()

    def memcached_stat(self, name: str) -> int:
        lines = self.ask(b"stats\r\n", b"END\r\n").splitlines()
        return next(int(line.split()[2]) for line in lines if line.startswith(f"STAT {name} "))

    def redis_calls(self, command: str) -> int:
        answer = self.ask(b"INFO commandstats\r\n", b"\r\n\r\n")
        line = next(x for x in answer.splitlines() if x.startswith(f"cmdstat_{command}:"))
        return int(line.split("calls=")[1].split(",")[0])


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start("memcached" or "redis-server", *flags) returns when the server listens; all end after the test."""
    started: list[Server] = []

    def launch(program: str, *flags: str) -> Server:
        port = free_ports(1)
        if program == "memcached":
            command = [program, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1"]
            command += ["-u", "root"] if os.geteuid() == 0 else []
        else:
            command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
            command += ["--dir", str(tmp_path), "--daemonize", "no"]
        log = tmp_path / f"server-{len(started)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        server = Server(process, port, log)
        started.append(server)

        def listens() -> bool:
            assert process.poll() is None, log.read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(listens, f"{program} does not listen")
        return server

    yield launch
    for server in started:
        server.process.kill()
        server.process.wait()


def pillowfight(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run pillowfight; its report, with the exit status as `status`."""
    program = built("pillowfight") / "bin" / "pillowfight"
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return {**json.loads(done.stdout), "status": done.returncode}


def check_load(report: dict[str, Any]) -> None:
    """Everything was stored, found, compared and right."""
    assert report["status"] == 0, report["failure"]
    access = report["access"]
    assert report["populate"]["ops"] == ITEMS
    assert access["ops"] == OPS
    assert access["misses"] == 0
    assert access["hits"] == access["gets"] == access["verified"]
    assert set(access["errors"].values()) == {0}


@pytest.mark.parametrize("protocol", ["binary", "text", "meta"])
def test_memcached(start: Start, protocol: str) -> None:
    server = start("memcached")
    report = pillowfight("--port", str(server.port), "--protocol", protocol, *LOAD)
    check_load(report)
    assert server.memcached_stat("cmd_get") == report["access"]["gets"]
    assert server.memcached_stat("cmd_set") == report["access"]["sets"] + ITEMS
    assert server.memcached_stat("curr_items") == ITEMS


@pytest.mark.parametrize("protocol", ["resp2", "resp3"])
def test_redis(start: Start, protocol: str) -> None:
    server = start("redis-server")
    report = pillowfight("--port", str(server.port), "--protocol", protocol, *LOAD)
    check_load(report)
    assert server.redis_calls("get") == report["access"]["gets"]
    assert server.redis_calls("set") == report["access"]["sets"] + ITEMS


@pytest.mark.parametrize(
    ("program", "flags", "protocol"),
    [
        ("memcached", [], "binary"),
        ("memcached", ["-B", "ascii"], "text"),
        ("redis-server", [], "resp2"),
    ],
)
def test_auto_asks_the_server(start: Start, program: str, flags: list[str], protocol: str) -> None:
    server = start(program, *flags)
    report = pillowfight("--port", str(server.port), "--protocol", "auto", *LOAD)
    check_load(report)
    assert report["options"]["protocol"] == protocol
    assert report["options"]["protocol_asked"] == "auto"


def test_servers_of_different_protocols_are_loaded_in_turn(start: Start) -> None:
    servers = [start("memcached"), start("redis-server"), start("memcached")]
    asked = ["text", "auto", "meta"]
    variants = [
        f"--variant=host=127.0.0.1,port={s.port},pid={s.process.pid},protocol={p}"
        for s, p in zip(servers, asked, strict=True)
    ]
    report = pillowfight(*variants, "--slice=0.001", *LOAD)
    assert report["status"] == 0, report["failure"]
    parts = report["group"]["variants"]
    assert [part["protocol"] for part in parts] == ["text", "resp2", "meta"]
    for part in parts:
        assert part["report"]["access"]["ops"] == OPS
        assert part["report"]["access"]["misses"] == 0
        assert sum(part["slices"]["cpu_ns"]) > 0


@pytest.mark.parametrize("protocol", ["resp2", "resp3"])
def test_the_password_of_redis(start: Start, tmp_path: Path, protocol: str) -> None:
    server = start("redis-server", "--requirepass", "secret word")
    to = ["--port", str(server.port), "--protocol", protocol, *LOAD]
    file = tmp_path / "password"
    file.write_text("secret word\n")
    check_load(pillowfight(*to, "--password-file", str(file)))
    check_load(pillowfight(*to, "--password-env", "SECRET", env={"SECRET": "secret word"}))
    check_load(pillowfight(*to, "--user", "default", "--password-file", str(file)))
    refused = pillowfight(*to)
    assert refused["status"] == 1
    assert "NOAUTH" in refused["failure"]
    assert "--password-file" in refused["failure"]
    wrong = pillowfight(*to, "--password-env", "SECRET", env={"SECRET": "other"})
    assert "WRONGPASS" in wrong["failure"]
    assert "other" not in json.dumps(wrong)


@pytest.mark.parametrize("protocol", ["text", "meta"])
def test_the_password_of_memcached(start: Start, tmp_path: Path, protocol: str) -> None:
    users = tmp_path / "users"
    users.write_text("ann:secret\n")
    server = start("memcached", "-Y", str(users))
    file = tmp_path / "password"
    file.write_text("secret")
    to = ["--port", str(server.port), "--protocol", protocol, *LOAD]
    check_load(pillowfight(*to, "--user", "ann", "--password-file", str(file)))
    assert "unauthenticated" in pillowfight(*to)["failure"]


def test_evictions_are_misses_and_a_full_server_is_counted(start: Start) -> None:
    large = ["--num-items=20000", "--num-ops=20000", "--min-size=500", "--max-size=500"]
    evicts = start("redis-server", "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
    report = pillowfight("--port", str(evicts.port), "--protocol", "resp2", *large)
    assert report["status"] == 0, report["failure"]
    assert 0 < report["access"]["misses"] < report["access"]["gets"]
    keeps = start("redis-server", "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
    report = pillowfight("--port", str(keeps.port), "--protocol", "resp2", *large)
    assert report["status"] == 0, report["failure"]
    assert report["populate"]["errors"]["enomem"] > 0
    small = start("memcached", "-m", "4")
    for protocol in ("text", "meta", "binary"):
        report = pillowfight("--port", str(small.port), "--protocol", protocol, *large)
        assert report["status"] == 0, report["failure"]
        assert 0 < report["access"]["misses"] < report["access"]["gets"]


def test_a_server_without_room_for_connections_says_so(start: Start) -> None:
    redis = start("redis-server", "--maxclients", "1")
    to = ["--port", str(redis.port), "--protocol", "resp2", "--connections=3"]
    report = pillowfight(*to, *LOAD)
    assert report["status"] == 1
    assert "max number of clients" in report["failure"]
    assert "maxclients" in report["failure"]


def test_unix_sockets(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    redis = start("redis-server", "--unixsocket", str(path))
    until(path.exists, "there is no socket")
    check_load(pillowfight("--unix", str(path), "--protocol", "resp2", *LOAD))
    report = pillowfight(
        f"--variant=unix={path},protocol=resp3,pid={redis.process.pid}", *LOAD, "--no-population"
    )
    part = report["group"]["variants"][0]
    assert (part["unix"], part["host"], part["port"]) == (str(path), None, None)
    assert part["report"]["access"]["misses"] == 0


def test_values_larger_than_the_receive_buffer(start: Start) -> None:
    large = ["--num-items=20", "--num-ops=200", "--min-size=300000", "--max-size=300000"]
    for program, protocols in (
        ("memcached", ["binary", "text", "meta"]),
        ("redis-server", ["resp2", "resp3"]),
    ):
        server = start(program)
        for protocol in protocols:
            report = pillowfight(
                "--port", str(server.port), "--protocol", protocol, *large, "--set-pct=30"
            )
            assert report["status"] == 0, report["failure"]
            assert report["access"]["ops"] == 200
            assert report["access"]["misses"] == 0


def test_contents_of_somebody_else_are_not_taken_for_ours(start: Start) -> None:
    server = start("redis-server")
    to = ["--port", str(server.port), "--protocol", "resp2"]
    check_load(pillowfight(*to, *LOAD))
    # Keys are numbers of 20 digits: one of them gets another value of a size that is allowed.
    key = b"0" * 19 + b"7"
    server.ask(b"SET " + key + b" " + b"x" * 150 + b"\r\n", b"+OK\r\n")
    read = [word for word in LOAD if not word.startswith(("--set-pct", "--verify-every"))]
    read += ["--set-pct=0", "--no-population"]
    report = pillowfight(*to, *read, "--verify-every=1")
    assert report["status"] == 1
    assert "wrong value of the key of number 7" in report["failure"]
    check = pillowfight(*to, *read, "--verify-every=0")
    assert check["status"] == 0
    assert check["access"]["verified"] == 0
