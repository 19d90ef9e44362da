"""The program that asks a server: ports, readiness, samples."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfrunner.servers import agent
from perfrunner.servers.adapter import State
from perfrunner.servers.agent import free_ports, listener, listens, read_usage, stack_bytes
from perfrunner.servers.registry import ADAPTERS, guess_kind
from perfrunner.servers.wire import Wire, WireError, connected


@pytest.fixture
def server():
    """Serve one canned answer to whatever is asked, on a port; any number of connections.

    A mapping has answers by the first word of a question; its last one is the answer to all others.
    """
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(answer: bytes | dict[bytes, bytes]) -> int:
        def run() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    if isinstance(answer, bytes):
                        if peer.recv(4096):
                            peer.sendall(answer)
                        continue
                    while asked := peer.recv(4096):
                        known = [text for word, text in answer.items() if word in asked]
                        peer.sendall([*known, *answer.values()][0 if known else -1])

        threading.Thread(target=run, daemon=True).start()
        return int(listening.getsockname()[1])

    yield serve
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def test_free_ports_are_different_and_free():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert not any(map(listens, ports))


def test_the_port_of_a_cluster_node_is_free_too(monkeypatch: pytest.MonkeyPatch):
    """Otherwise a Redis server in cluster mode ends: it listens on its port + 10000 as well."""
    first, second = free_ports(2, seed=1)
    monkeypatch.setattr(agent, "listens", lambda port: port == first + 10_000)
    assert free_ports(1, seed=1) == [second]


def test_a_port_that_is_listened_on_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert listens(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"+PONG\r\n", "redis"),
        (b"-NOAUTH Authentication required.\r\n", "redis"),
        (b"VERSION 1.6.18\r\n", "memcached"),
        (b"ERROR\r\n", "other"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "other"),
    ],
)
def test_a_server_is_known_by_its_answer(server, answer: bytes, kind: str):
    assert guess_kind("127.0.0.1", server(answer)) == kind


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (b"+OK\r\n", "OK"),
        (b":42\r\n", 42),
        (b"$-1\r\n", None),
        (b"$5\r\nab\r\nc\r\n", "ab\r\nc"),
        (b"*2\r\n$1\r\na\r\n:1\r\n", ["a", 1]),
    ],
)
def test_replies_of_redis(server, answer: bytes, reply: object):
    with connected("127.0.0.1", server(answer)) as wire:
        assert wire.resp("X") == reply


@pytest.mark.parametrize("answer", [b"-ERR no\r\n", b"hello\r\n", b"$x\r\n", b""])
def test_an_error_or_other_bytes_are_an_error(server, answer: bytes):
    with connected("127.0.0.1", server(answer)) as wire, pytest.raises(WireError):
        wire.resp("X")


def wait(port: int, pid: int, kind: str | None = None) -> dict[str, Any]:
    given = argparse.Namespace(
        host="127.0.0.1",
        port=port,
        pid=pid,
        kind=kind,
        timeout=60.0,
        password_file=None,
        wrong_figures=False,
        file=[],
        argument=[],
    )
    return agent._wait_ready(given)


def test_it_is_ready_when_it_answers(server):
    results = wait(server(b"hello\r\n"), os.getpid())
    assert (results["ready"], results["alive"], results["kind"]) == (True, True, "other")


def test_it_answers_but_the_process_is_gone(server):
    """A server that became a daemon: its port answers, but it is not the process that is sampled."""
    results = wait(server(b"hello\r\n"), 2**22 + 1)
    assert (results["ready"], results["alive"]) == (True, False)


def test_the_process_is_gone_and_nothing_answers():
    results = wait(free_ports(1)[0], 2**22 + 1)
    assert (results["ready"], results["alive"]) == (False, False)


@pytest.mark.parametrize(
    ("answers", "kind", "protocol"),
    [
        ({b"version": b"VERSION 1\r\n", b"any other": b"ERROR\r\n"}, "memcached", "text"),
        (
            {
                b"version": b"VERSION 1\r\n",
                b"\x80\x0b": b"\x81\x0b" + bytes(22),
                b"any other": b"ERROR\r\n",
            },
            "memcached",
            "",
        ),
        ({b"PING": b"+PONG\r\n", b"any other": b"-ERR unknown command\r\n"}, "redis", ""),
    ],
    ids=["text", "binary", "redis"],
)
def test_a_server_may_answer_a_part_of_the_questions(
    server, answers: dict[bytes, bytes], kind: str, protocol: str
):
    """Its protocol is found by asking; figures that it does not tell are missing."""
    results = wait(server(answers), os.getpid())
    assert (results["ready"], results["kind"], results["protocol"]) == (True, kind, protocol)
    state = State(**results["state"])
    assert (state.settings, state.figures, state.counters) == ({}, {}, {})
    (text,) = ADAPTERS[kind].warnings(state)
    assert text.endswith("settings, memory figures, counters of operations")


def test_another_protocol_is_reported_at_once(server):
    results = wait(server(b"ERROR\r\n"), os.getpid(), "redis")
    assert not results["ready"]
    assert "it answers: not RESP" in str(results["error"])


@pytest.mark.parametrize(("limit", "patience"), [({}, 20.0), ({"timeout": 7.0}, 7.0)])
def test_a_server_that_a_busy_host_keeps_waiting_is_not_given_up(
    monkeypatch, limit: dict[str, float], patience: float
):
    """A Redis without load was not scheduled for 5.4 s on a host with eighteen runnable threads."""
    asked = []

    @contextlib.contextmanager
    def slow(_host: str, _port: int, timeout_s: float = 5.0) -> Iterator[Wire]:
        asked.append(timeout_s)
        raise TimeoutError("timed out")
        yield

    monkeypatch.setattr(agent, "connected", slow)
    given = argparse.Namespace(host="", port=1, kind="redis", password_file=None, **limit)
    with pytest.raises(TimeoutError):
        agent.ask(given)
    assert asked == [patience]


def test_a_file_that_is_replaced_or_written_to_has_another_version(tmp_path: Path):
    program = tmp_path / "srv"
    program.write_text("one")

    def versions() -> dict[str, list[int]]:
        return agent.file_versions(os.getpid(), [str(program)])

    first = versions()
    assert set(first) == {str(program), agent.RUNS}
    assert versions() == first
    program.write_text("longer")
    written = versions()
    assert written[str(program)] != first[str(program)]
    other = tmp_path / "other"
    other.write_text("longer")
    shutil.copystat(program, other)
    other.replace(program)
    assert versions()[str(program)] != written[str(program)], "same size and time"
    assert versions()[agent.RUNS] == first[agent.RUNS]


def test_of_the_arguments_only_files_that_the_server_does_not_write_have_versions(tmp_path: Path):
    """A script or configuration behind an interpreter; a log, a directory and a port have none."""
    jar, log = tmp_path / "x.jar", tmp_path / "log"
    jar.write_text("one")
    log.write_text("before")
    os.utime(log, (1, 1))
    arguments = ["-Xmx1g", f"--conf={jar}", str(log), str(tmp_path), str(tmp_path / "none"), "1"]
    argv = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    os.utime(jar, (1, 1))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        log.write_text("begun")
        first = agent.file_versions(child.pid, [], arguments)
        jar.write_text("another")
        os.utime(jar, (2, 2))
        second = agent.file_versions(child.pid, [], arguments)
        child.kill()
    assert set(first) == set(second) == {str(jar), agent.RUNS}
    assert first[str(jar)] != second[str(jar)]


@pytest.mark.parametrize(
    ("env", "first"),
    [
        ({"LD_PRELOAD": "/lib/one.so:/lib/two.so", "SECRET": "x"}, "/lib/one.so"),
        ({"LD_PRELOAD": " /lib/one.so /lib/two.so"}, "/lib/one.so"),
        ({"LD_PRELOAD": ""}, ""),
        ({"SECRET": "x=y"}, ""),
        ({}, ""),
    ],
)
def test_the_first_preload_of_a_process(env: dict[str, str], first: str):
    with subprocess.Popen(["/bin/cat"], env=env, stdin=subprocess.PIPE) as process:
        preload = agent.read_preload(process.pid)
    assert preload == {"first": os.path.realpath(first) if first else "", "ignored": False}


@pytest.mark.parametrize("overwritten", [b"\0" * 64, b"a title" + b"\0" * 64, b"a title     "])
def test_the_preload_of_a_process_that_wrote_its_title_over_it_is_unknown(overwritten: bytes):
    assert agent.first_preload(overwritten) is None


def test_the_loader_ignores_preloads_of_a_process_with_more_privileges(tmp_path: Path):
    """AT_SECURE is 23 of getauxval(3); AT_PAGESZ, 6, is one more."""
    for secure in (0, 1):
        (tmp_path / "auxv").write_bytes(struct.pack("@6L", 6, 4096, 23, secure, 0, 0))
        assert agent.ignores_preloads(tmp_path / "auxv") == bool(secure)
    assert agent.ignores_preloads(tmp_path / "missing") is None


def test_figures_of_a_process():
    """Another process: threads of other tests may end in this one at any time."""
    program = "import sys; print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-S", "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        usage = read_usage(child.pid)
        child.kill()
    assert usage["rss"] > 1 << 20
    assert usage["vsz"] > usage["rss"]
    assert usage["threads"] == 1


def test_stacks_are_mappings_behind_a_guard_page():
    maps = (
        "7f0000000000-7f0000001000 ---p 0 0 0\n"
        "7f0000001000-7f0000801000 rw-p 0 0 0\n"
        "7f0001000000-7f0001800000 rw-p 0 0 0 heap-like\n"
    )
    assert stack_bytes(maps, 8 << 20, 4096) == 8 << 20


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_process_that_listens_is_found(address: str):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as ours:
        port = ours.getsockname()[1]
        assert listener(os.getpid(), port) == os.getpid()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            assert listener(child.pid, port) == os.getpid(), "the child does not have the socket"
            child.communicate(b"\n")
        assert listener(child.pid, port) is None, "it has ended"
    assert listener(os.getpid(), port) is None, "nobody listens"


FORKS = """
import os, socket, sys
with socket.create_server(("127.0.0.1", 0)) as listening:
    ours, theirs = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        ours.close()
        if sys.argv[1] == "closes":
            listening.close()
        theirs.send(b"!")
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    ours.recv(1)
    sys.stdout.write(f"{os.getpid()} {worker} {listening.getsockname()[1]}\\n")
    sys.stdout.flush()
    input()
    ours.close()
    os.waitpid(worker, 0)
"""


ANSWERS = """
import os, socket, sys
with socket.create_server(("127.0.0.1", 0)) as listening:
    sys.stdout.write(f"{listening.getsockname()[1]}\\n")
    sys.stdout.flush()
    while True:
        peer, _ = listening.accept()
        if sys.argv[1] == "forks" and os.fork():
            peer.close()
            continue
        listening.close() if sys.argv[1] == "forks" else None
        while peer.recv(4096):
            peer.sendall(b"+PONG\\r\\n")
        if sys.argv[1] == "forks":
            os._exit(0)
        peer.close()
"""


@pytest.mark.parametrize("kind", ["redis", "other"])
@pytest.mark.parametrize("answers", ["forks", "itself"])
def test_the_process_that_answers_is_found(
    monkeypatch: pytest.MonkeyPatch, answers: str, kind: str
):
    """A server may fork a process for each connection: its figures are not those of the one that listens."""
    if answers == "forks":
        monkeypatch.setattr(agent, "FORKS_WITHIN_S", 60.0)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", ANSWERS, answers], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        results = wait(int(server.stdout.readline()), server.pid, kind)
        server.kill()
    assert results["ready"], results
    assert (results["listener"] == server.pid) == (answers == "itself")
    assert results["listener"] is not None


@pytest.mark.parametrize(("worker_does", "serves"), [("keeps", "worker"), ("closes", "server")])
def test_a_worker_that_was_forked_with_the_port_serves(worker_does: str, serves: str):
    with subprocess.Popen(
        [sys.executable, "-c", FORKS, worker_does],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        pid, worker, port = map(int, server.stdout.readline().split())
        assert listener(pid, port) == {"worker": worker, "server": pid}[serves]
        server.communicate("\n")
