"""Test that a channel can be closed after a Ctrl-C that left one of its locks held."""

from __future__ import annotations

import threading

import paramiko
import pytest

from perfrunner.hosts import ssh


@pytest.mark.parametrize("name", ["lock", "in_buffer", "in_stderr_buffer"])
def test_a_lock_that_an_interrupt_left_held_does_not_stop_the_close(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt came after `acquire` and before the `try` that releases: the run could not be ended."""
    monkeypatch.setattr(ssh, "_LOCK_WAIT_S", 0.01)
    channel = paramiko.Channel(1)
    held = getattr(channel, name)
    (held if name == "lock" else held._lock).acquire()
    closing = threading.Thread(target=ssh._close, args=(channel,), daemon=True)
    closing.start()
    closing.join(60.0)
    assert not closing.is_alive()
