"""What a Redis configuration file asks for that cannot be measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.hosts.local import LocalTransport
from perfrunner.servers.checks import unfit_in_files


def unfit(*words: str, kind: str = "redis") -> str | None:
    return unfit_in_files(kind, words, LocalTransport("here"))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (
            "replicaof 10.0.0.1 6379",
            "replicaof 10.0.0.1 6379: expected a server that is no replica",
        ),
        ("SlaveOf '10.0.0.1' 6379", "slaveof 10.0.0.1 6379: expected a server that is no replica"),
        ("tls-port 6380", "tls-port 6380: expected a server without TLS"),
        ("# replicaof 10.0.0.1 6379", None),
        ("don't\nreplicaof no one\ndaemonize yes\nsupervised systemd\n\nunixsocket /run/x", None),
    ],
)
def test_a_file_and_what_it_includes(tmp_path: Path, line: str, wrong: str | None):
    inner, outer = tmp_path / "in ner.conf", tmp_path / "outer.conf"
    inner.write_text(line)
    outer.write_text(f'port 6379\ninclude "{tmp_path}/in*.conf"\ninclude {outer}\n')
    for words in ((str(outer), "--port", "{port}"), ("--port", "{port}", "--include", str(outer))):
        results = unfit(*words)
        assert results == (results and f"{outer} has {results.partition(' has ')[2]}")
        assert (wrong or "") in (results or "")
        assert (results is None) == (wrong is None)


def test_the_command_line_wins_and_other_files_are_not_read(tmp_path: Path):
    file = tmp_path / "r.conf"
    file.write_text("tls-port 6380\n")
    assert unfit(str(file), "--tls-port", "0") is None
    assert unfit(str(tmp_path / "none.conf"), "--port", "{port}") is None
    assert unfit(str(file), kind="other") is None
