"""What a lock's holder says of itself, which any user of the machine may have written."""

from __future__ import annotations

from perfrunner.hosts.lock import LONGEST_HOLDER, HostInUse


def test_a_holder_cannot_command_the_terminal_or_fill_it() -> None:
    error = HostInUse("kv1", "run x\x1b]0;owned\x07\x1b[2J of me" + "!" * 10_000, "wait")
    for text in (error.holder, error.message):
        assert not any(ord(c) < 32 for c in text)
        assert "run x\\x1b]0;owned" in text
        assert len(text) < LONGEST_HOLDER + 100
