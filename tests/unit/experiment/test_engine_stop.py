"""Test the end of an engine: how long a clean stop may take, and what is reported of one that died."""

from __future__ import annotations

import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.server import STOP_GRACE_S, Engine
from perfrunner.hosts import scripts
from perfrunner.hosts.process import Completed, ExitStatus, StopResult


def engine(*, killed: bool = False) -> Engine:
    handle = Mock()
    handle.poll.return_value = None
    handle.stop.return_value = StopResult(ExitStatus(code=0), killed)
    setup = SimpleNamespace(name="engine")
    return Engine(SimpleNamespace(name="kv1"), setup, handle, Mock())


@pytest.mark.parametrize(
    ("left", "grace"), [(7200.0, 7200.0), (STOP_GRACE_S, STOP_GRACE_S), (-5.0, STOP_GRACE_S)]
)
def test_it_has_what_is_left_of_the_trial_and_a_minute_in_any_case(
    left: float, grace: float
) -> None:
    single = engine()
    single.stop(time.monotonic() + left)
    (given,) = single.handle.stop.call_args.args
    assert given == pytest.approx(grace, abs=30)


def test_one_that_does_not_end_is_reported_with_the_time_that_it_had() -> None:
    with pytest.raises(TrialError, match="kv1 did not stop within 60 s and was killed") as caught:
        engine(killed=True).stop(0.0)
    assert "limits.trial_timeout" in caught.value.hint


class Host:
    """A host whose OOM killer has ended `kills` processes, and whose engine's log ends with `words`."""

    name = "kv1"

    def __init__(self, kills: str, words: str = "") -> None:
        self.kills, self.words = kills, words

    def run(self, argv: list[str], *, check: bool) -> Completed:
        assert not check
        if scripts.LOG_TAIL in argv:
            return Completed(tuple(argv), 0, self.words, "")
        assert argv[-1] == "/proc/vmstat"
        return Completed(tuple(argv), 0 if self.kills else 1, self.kills, "")


@pytest.mark.parametrize(
    ("status", "before", "after", "oom"),
    [
        (ExitStatus(signal=9), 3, "oom_kill 4\n", True),
        (ExitStatus(), 3, "oom_kill 4\n", True),  # its keeper was killed with it
        (ExitStatus(signal=9), 3, "oom_kill 3\n", False),
        (ExitStatus(signal=11), 3, "oom_kill 4\n", False),
        (ExitStatus(code=1), 3, "oom_kill 4\n", False),
        (ExitStatus(signal=9), None, "oom_kill 4\n", False),
        (ExitStatus(signal=9), 3, "", False),  # an old kernel, or one that hides it
    ],
)
def test_an_engine_that_the_oom_killer_ended_is_reported_as_that(
    status: ExitStatus, before: int | None, after: str, oom: bool
) -> None:
    handle = Mock()
    handle.poll.return_value = status
    handle.stop.return_value = StopResult(status, killed=False)
    setup = SimpleNamespace(name="engine", log="engine.log")
    for end in (lambda e: e.check_alive("during the load"), lambda e: e.stop(0.0)):
        single = Engine(Host(after, "flushing"), setup, handle, Mock(), oom_kills=before)
        with pytest.raises(TrialError, match=r"the engine on kv1 died .*flushing") as caught:
            end(single)
        assert ("OOM killer" in caught.value.message) == oom
        assert ("engine.quota_mb" in (caught.value.hint or "")) == oom
