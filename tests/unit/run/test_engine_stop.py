"""How long a clean stop of an engine may take: it persists what is queued."""

from __future__ import annotations

import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from perfrunner.cluster.process import ExitStatus, StopResult
from perfrunner.errors import TrialError
from perfrunner.run.trial.engine import STOP_GRACE_S, Engine


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
    one = engine()
    one.stop(time.monotonic() + left)
    (given,) = one.handle.stop.call_args.args
    assert given == pytest.approx(grace, abs=30)


def test_one_that_does_not_end_is_told_with_the_time_that_it_had() -> None:
    with pytest.raises(TrialError, match="kv1 did not stop within 60 s and was killed") as caught:
        engine(killed=True).stop(0.0)
    assert "limits.trial_timeout" in caught.value.hint
