"""Redis' command line, CONFIG GET and INFO."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from perfrunner.servers.adapter import State
from perfrunner.servers.redis import Redis
from perfrunner.servers.wire import WireError

INFO = {
    "redis_version": "7.0.15",
    "mem_allocator": "jemalloc-5.3.0",
    "used_memory": "1000",
    "allocator_active": "2000",
    "allocator_resident": "3000",
    "allocator_frag_bytes": "400",
    "cmdstat_get": "calls=7,usec=1",
    "evicted_keys": "2",
    "errorstat_OOM": "count=3",
    "rdb_bgsave_in_progress": "1",
    "aof_rewrite_in_progress": "0",
    "loading": "0",
}
ZERO = {"cmd_get": 0.0, "cmd_set": 0.0}


class Wire:
    """A connection that answers as INFO and CONFIG GET would."""

    def __init__(self, info: dict[str, str]) -> None:
        self._info = info

    def info(self, *_: str) -> dict[str, str]:
        return self._info

    def resp(self, *words: str) -> list[str]:
        assert words == ("CONFIG", "GET", "*")
        return ["save", "", "io-threads", "2"]


def test_the_settings_a_command_asks_for():
    words = [
        "/etc/r.conf",
        "--port",
        "{port}",
        "--save",
        "",
        "--save",
        "900",
        "1",
        "--IO-threads",
        "2",
    ]
    assert Redis().requested(words) == {"save": "900 1", "io-threads": "2"}
    assert Redis().requested(["--port", "{port}", "--save", ""]) == {"save": ""}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--daemonize", "yes"], "foreground"),
        (["--daemonize", "YES"], "foreground"),
        (["--port", "{port}", "--port", "6379"], "--port {port}"),
        (["--port", "0", "--unixsocket", "/tmp/x"], "Unix sockets"),
        (["--tls-port", "{port}"], "TLS"),
        (["--maxclients", "9"], "at least 10 clients"),
        (["--replicaof", "10.0.0.1", "6379"], "no replica"),
        (["--slaveof", "10.0.0.1", "6379"], "no replica"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], what: str):
    assert [what in text for text in Redis().refused(words).values()] == [True]
    fine = [
        "--daemonize",
        "no",
        "--maxclients",
        "10",
        "--replicaof",
        "NO",
        "one",
        "--port",
        "1",
        "--port",
        "{port}",
    ]
    assert Redis().refused(fine) == {}
    asked = {name: value for _, name, value in Redis().options(words)}
    if asked.get("port") == "6379":
        return  # it is no setting of the server
    assert what in (Redis().unfit(asked) or ""), "the same where it is read back"


def test_passwords_are_no_settings():
    """Valkey calls masterauth primaryauth as well."""

    class Answer(Wire):
        def resp(self, *_: str) -> list[str]:
            return [
                "primaryauth",
                "x1",
                "masterauth",
                "x1",
                "requirepass",
                "x1",
                "tls-auth-clients",
                "no",
            ]

    state = Redis().ask(Answer(INFO), False)
    assert "x1" not in repr(state)
    assert state.settings == {"tls-auth-clients": "no"}
    assert Redis().requested(["--primaryauth", "x1", "--io-threads", "2"]) == {"io-threads": "2"}


def test_sizes_have_units():
    assert Redis().same("100mb", str(100 * 1024**2))
    assert Redis().same("1G", str(10**9))
    assert not Redis().same("100mb", "100")
    assert Redis().same("900 1", "900  1")
    assert not Redis().same("2", "1")
    assert Redis().same("", "")
    assert not Redis().same("", "3600 1")


def test_a_setting_with_values_for_several_classes():
    """CONFIG GET prints all classes of clients, and all save points, of which each option names one."""
    limits = "normal 1 2 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
    assert Redis().same("normal 1 2 3", limits)
    assert Redis().same("replica 256mb 64mb 60", limits)
    assert not Redis().same("normal 0 0 0", limits)
    assert Redis().same("300 10", "60 1 300 10")


def test_a_server_that_asks_for_a_password():
    assert Redis().locked(["--port", "{port}", "--requirepass", "a"]) == 2
    assert Redis().locked(["--requirepass", "", "--port", "{port}"]) is None
    assert Redis().locked(["--user", "default on >pw ~* +@all"]) == 0
    assert Redis().locked(["--user", "default", "on", "#" + "0" * 64, "~*"]) == 0
    assert Redis().locked(["--user", "default on nopass ~* +@all"]) is None
    assert Redis().locked(["--user", "other on >pw ~* +@all"]) is None


def test_figures_counters_and_work_in_the_background():
    state = Redis().ask(Wire(INFO), False)
    assert state.figures == {
        "mem_used": 1000.0,
        "total_active_bytes": 2000.0,
        "total_resident_bytes": 3000.0,
        "total_fragmentation_bytes": 400.0,
    }
    assert state.counters == {"cmd_get": 7.0, "cmd_set": 0.0}
    assert (state.version, state.evicted, state.busy) == ("7.0.15", 2, "a BGSAVE")
    assert state.refused == 3
    assert state.settings["io-threads"] == "2"


def test_the_figures_of_jemalloc_are_left_out_if_it_is_not_the_allocator():
    """A preloaded library wins, but INFO still asks the jemalloc that Redis is linked with."""
    assert Redis().ask(Wire(INFO), True).figures == {"mem_used": 1000.0}
    other = {**INFO, "mem_allocator": "libc"}
    assert Redis().ask(Wire(other), False).figures == {"mem_used": 1000.0}


def test_save_points_are_warned_of():
    state = State(version="7", settings={"save": ""}, figures={"mem_used": 1}, counters=ZERO)
    assert Redis().warnings(state) == []
    (text,) = Redis().warnings(replace(state, settings={"save": "3600 1"}))
    assert "BGSAVE" in text


def added(*words: str, listen: str = "127.0.0.1", directory: str | None = "{dir}") -> list[str]:
    return Redis().added(words, root=False, listen=listen, directory=directory)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("--dir /data", 0),
        ("--save '' --dir /data --appendonly yes", 2),
        ("/etc/redis.conf --save '' --dir /data", 3),
        ("--unixsocket /run/redis.sock", 0),
        ("--pidfile /run/redis.pid", 0),
        ("--save '' --dir /data", None),
        ("/etc/redis.conf --save '' --dir /data --appendonly no", None),
        ("--dir {dir}/data --pidfile {dir}/pid --unixsocket ''", None),
        ("--dir data", None),
    ],
)
def test_files_that_all_starts_would_write(text: str, index: int | None):
    results = Redis().shared(shlex.split(text))
    assert list(results) == ([] if index is None else [index])


def test_it_answers_other_hosts_only_where_it_has_to():
    assert added("--port", "{port}") == []
    everywhere = ["--bind", "0.0.0.0", "--protected-mode", "no"]
    assert added("--port", "{port}", listen="0.0.0.0") == everywhere
    given = ["--bind", "10.0.0.1", "--protected-mode", "yes"]
    assert added(*given, listen="0.0.0.0") == []


def test_the_places_of_a_configuration_file_are_not_used():
    """They may be those of a server in use; the daemon of a distribution is started in the foreground."""
    harmless = [
        "--daemonize",
        "no",
        "--supervised",
        "no",
        "--logfile",
        "",
        "--pidfile",
        "",
        "--unixsocket",
        "",
        "--cluster-config-file",
        "nodes.conf",
    ]
    here = ["--bind", "127.0.0.1", *harmless]
    assert added("/etc/redis.conf", "--port", "{port}") == [*here, "--dir", "{dir}"]
    assert added("/etc/redis.conf", "--port", "{port}", directory=None) == here
    assert added("--port", "{port}", "--include", "/etc/redis.conf")[:-2] == here
    own = ["/etc/redis.conf", "--port", "{port}", "--dir", "/data", *here]
    assert added(*own) == []
    assert Redis().requested([*own, "--save", ""]) == {"save": ""}


class Node:
    """A connection that answers as a server in cluster mode would."""

    def __init__(self, **about: str) -> None:
        self.about = {f"cluster_{name}": value for name, value in about.items()}
        self.asked: list[tuple[str, ...]] = []

    def info(self, section: str) -> dict[str, str]:
        assert section == "cluster"
        return {"cluster_enabled": "1"}

    def lines(self, *words: str) -> dict[str, str]:
        assert words == ("CLUSTER", "INFO")
        return self.about

    def resp(self, *words: str) -> None:
        self.asked.append(words)


def test_a_node_in_cluster_mode_gets_all_slots_once():
    node = Node(state="fail", slots_assigned="0", known_nodes="1")
    assert "slots" in Redis().begin(node)
    assert [len(words) for words in node.asked] == [2 + 16384]
    for state, ready in (("fail", False), ("ok", True)):
        node = Node(state=state, slots_assigned="16384", known_nodes="1")
        assert (Redis().begin(node) == "") is ready
        assert node.asked == []


def test_a_node_of_a_cluster_in_use_keeps_its_slots():
    node = Node(state="ok", slots_assigned="0", known_nodes="3")
    with pytest.raises(WireError, match="one of 3 nodes"):
        Redis().begin(node)
    assert node.asked == []


@pytest.mark.parametrize(
    ("code", "signal", "clean"),
    [(0, None, True), (None, 15, True), (143, None, True), (1, None, False), (None, 9, False)],
)
def test_a_server_that_ends_by_sigterm_has_stopped_cleanly(
    code: int | None, signal: int | None, clean: bool
):
    """Java's virtual machine catches the signal, and ends with 143."""
    assert Redis().clean_stop(code, signal) is clean
