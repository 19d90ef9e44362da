from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from perfrunner.experiment.interrupt import Interrupted, InterruptedTwice, SignalGuard


@pytest.fixture(autouse=True)
def _as_on_a_terminal() -> Iterator[None]:
    """Under nohup or in a shell's background these tests would inherit ignored signals, which a run respects."""
    before = {
        signum: signal.signal(signum, signal.SIG_DFL)
        for signum in SignalGuard.SIGNALS
        if signum != signal.SIGINT
    }
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def send(signum: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), signum)


@pytest.mark.parametrize("signum", SignalGuard.SIGNALS)
def test_the_first_signal_unwinds(signum: int) -> None:
    with SignalGuard() as guard:
        with pytest.raises(Interrupted) as caught:
            send(signum)
        assert caught.value.signal_name == signal.Signals(signum).name
        assert not guard.hurry


def test_a_shielded_part_is_finished_first() -> None:
    done = []

    def body(guard: SignalGuard) -> None:
        with guard.shield():
            with guard.shield():
                send()
                done.append("inner")
            done.append("outer")
        done.append("never")

    with SignalGuard() as guard, pytest.raises(Interrupted):
        body(guard)
    assert done == ["inner", "outer"]


def test_the_second_signal_does_not_wait_for_a_shield() -> None:
    done = []

    def body(guard: SignalGuard) -> None:
        with guard.shield():
            send()
            done.append("first")
            send()
            done.append("never")

    with SignalGuard() as guard, pytest.raises(InterruptedTwice):
        body(guard)
    assert done == ["first"]
    assert guard.hurry


def test_an_error_in_a_shielded_part_is_not_replaced_by_the_signal() -> None:
    def body(guard: SignalGuard) -> None:
        with guard.shield():
            send()
            raise ValueError("own")

    with SignalGuard() as guard, pytest.raises(ValueError, match="own"):
        body(guard)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with SignalGuard():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_it_does_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    errors: list[BaseException] = []

    def body() -> None:
        try:
            with SignalGuard():
                pass
        except BaseException as error:  # noqa: BLE001 - a thread must hand it over
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert errors == []
    assert signal.getsignal(signal.SIGINT) == before


def test_a_closing_terminal_is_no_hurry() -> None:
    with SignalGuard() as guard:
        with pytest.raises(Interrupted):
            send(signal.SIGHUP)
        send(signal.SIGHUP)
        assert not guard.hurry


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalGuard():
            send(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
