"""When a run ends before its plan does: nothing that it could still measure would count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from perfrunner.run.trial.seats import TrialResult

IN_A_ROW = 3
_PARTICULARS = re.compile(r"/\S+|\d+")  # of one trial: paths, ports, pids, seconds


@dataclass
class FailingInARow:
    """Units that failed one after the other, of one cause, without a trial between them that ended otherwise.

    One arm that always fails is no reason to stop, the others are still measured without it: the cause must have met
    three arms, or all that there are.
    """

    arms: int  # of the experiment
    _cause: str = ""
    _units: int = 0
    _met: set[str] = field(default_factory=set)

    def add(self, results: Sequence[TrialResult]) -> str | None:
        """The results of a unit that was run; the cause as it was told when it is time to stop."""
        failed = [result for result in results if result.status == "failed"]
        if not failed or any(result.status == "ok" for result in results):
            self._cause, self._units, self._met = "", 0, set()
            return None
        cause = _PARTICULARS.sub("#", failed[0].reason)
        if cause != self._cause:
            self._cause, self._units, self._met = cause, 0, set()
        self._units += 1
        self._met |= {result.task.variant for result in failed}
        if self._units >= IN_A_ROW and len(self._met) >= min(IN_A_ROW, self.arms):
            return failed[0].reason
        return None
