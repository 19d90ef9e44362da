"""memcached's command line and `stats settings`."""

from __future__ import annotations

import pytest

from perfrunner.servers.memcached import Memcached


def words(text: str) -> list[str]:
    return text.split()


def test_options_are_read_as_getopt_reads_them():
    results = [
        (name, value)
        for _, name, value in Memcached().options(words("-p 1 -t4 -dM --threads=2 --conn-limit 9"))
    ]
    assert results == [
        ("port", "1"),
        ("threads", "4"),
        ("daemon", ""),
        ("disable-evictions", ""),
        ("threads", "2"),
        ("conn-limit", "9"),
    ]


def test_a_long_name_may_be_cut_where_it_is_unambiguous():
    given = list(Memcached().options(words("--daem --thr 2 --us=me --disable-c --en --po 1")))
    assert [(name, value) for _, name, value in given] == [
        ("daemon", ""),
        ("threads", "2"),
        ("user", "me"),
        ("disable-cas", ""),
        ("en", ""),
        ("port", "1"),
    ]


def test_what_follows_two_dashes_is_no_option():
    server = Memcached()
    assert server.given(words("-p {port} -- -d -s /tmp/x")) == {"port"}
    assert server.given(words("-l -- -d")) == {"listen", "daemon"}, "the value of -l"


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("-p {port} -t 4", {"num_threads": "4"}),
        ("--port={port} --threads=4", {"num_threads": "4"}),
        ("-m 1024", {"maxbytes": str(1024**3)}),
        ("-I 2m", {"item_size_max": str(2 * 1024**2)}),
        ("-C -M", {"cas_enabled": "no", "evictions": "off"}),
        (
            "-o no_lru_crawler,no_lru_maintainer",
            {"lru_crawler": "no", "lru_maintainer_thread": "no"},
        ),
        ("-o hash_algorithm=xxh3,hashpower=20", {"hash_algorithm": "xxh3"}),
        ("-o slab_reassign,slab_automove", {"slab_reassign": "yes", "slab_automove": "1"}),
        ("-o worker_logbuf_size=128", {"worker_logbuf_size": str(128 * 1024)}),
        ("-o read_buf_mem_limit=16", {"read_buf_mem_limit": str(16 * 1024**2)}),
        ("-f 1.123", {"growth_factor": "1.12"}),
        ("-l 127.0.0.1 -U 0 -u nobody", {}),
    ],
)
def test_the_settings_a_command_asks_for(command: str, asked: dict[str, str]):
    assert Memcached().requested(words(command)) == asked


@pytest.mark.parametrize(
    ("command", "index", "what"),
    [
        ("-p {port} -d", 2, "foreground"),
        ("-s /tmp/x -p {port}", 0, "Unix sockets"),
        ("-Z -p {port}", 0, "TLS"),
        ("-p {port} -S", 2, "authentication"),
        ("-p {port} -c 2", 2, "at least 36 clients"),
        ("-p {port} -c 35", 2, "at least 36 clients"),
        ("-t 1 -c 23 -p {port}", 2, "at least 24 clients"),
        ("-p 11211 -U {port}", 0, "-p {port}"),
        ("-p {port} --port=11211", 2, "-p {port}"),
        ("-p {port} -B binary", 2, "text protocol"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_its_word(command: str, index: int, what: str):
    refused = Memcached().refused(words(command))
    assert list(refused) == [index]
    assert what in refused[index]


@pytest.mark.parametrize(
    "command",
    ["-p {port} -c 36", "-t 1 -c 24 -p {port}", "-p 1 -p {port}", "-l [::1]:{port} -p 0", "-c x"],
)
def test_what_can_be_measured(command: str):
    assert Memcached().refused(words(command)) == {}


def test_the_protocols_of_a_command():
    server = Memcached()
    assert server.spoken(words("-p {port}")) == ("binary", "text", "meta")
    assert server.spoken(words("-B ascii -p {port} -Bauto")) == ("binary", "text", "meta")
    for command in ("-p {port} -B ascii", "--protocol=ascii", "-B auto -B ascii"):
        assert server.refused(words(command)) == {}
        assert server.spoken(words(command)) == ("text", "meta")
        assert "text or meta" in str(server.wrong_protocol("binary", words(command)))


def test_it_listens_on_loopback_and_runs_as_root_only_for_root():
    here = "127.0.0.1"

    def added(command: str, *, root: bool = False, listen: str = here) -> list[str]:
        return Memcached().added(words(command), root=root, listen=listen, directory="{dir}")

    assert added("-p {port}", root=True) == ["-l", here, "-u", "root"]
    assert added("-p {port}") == ["-l", here]
    assert added("-p {port}", listen="::") == ["-l", "[::]"]
    assert added("-p {port} -l ::1 -u me", root=True) == []


def test_a_number_is_the_same_in_another_form():
    assert Memcached().same("1.5", "1.50")
    assert not Memcached().same("4", "2")


@pytest.mark.parametrize(
    ("command", "index"),
    [
        ("-p {port} -e /dev/shm/mc", 2),
        ("-P /run/memcached.pid -p {port}", 0),
        ("-o no_lru_crawler,ext_path=/data/ext:64m", 0),
        ("-e /dev/shm/mc-{port}", None),
        ("-o ext_path={dir}/ext:64m,ext_wbuf_size=4", None),
    ],
)
def test_files_that_all_starts_would_write(command: str, index: int | None):
    assert list(Memcached().shared(words(command))) == ([] if index is None else [index])
