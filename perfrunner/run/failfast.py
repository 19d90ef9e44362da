"""When a run ends before its plan does: nothing that it could still measure would count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from perfrunner.run.trial.seats import TrialResult

IN_A_ROW = 3
_PARTICULARS = re.compile(r"/\S+|\d+")  # of one trial: paths, ports, pids, seconds


@dataclass
class _Failing:
    cause: str
    units: int = 0
    met: set[str] = field(default_factory=set)  # arms


@dataclass
class FailingInARow:
    """Units of a cell that failed one after the other, of one cause, without a trial in any cell that ended otherwise.

    One arm that always fails is no reason to stop, the others are still measured without it: the cause must have met
    three arms, or all that there are. Each cell may have a cause of its own.
    """

    arms: int  # of the experiment
    _cells: dict[tuple[str, str], _Failing] = field(default_factory=dict)  # workload, bucket

    def add(self, results: Sequence[TrialResult]) -> str | None:
        """The results of a unit that was run; the cause as it was told when it is time to stop."""
        failed = [result for result in results if result.status == "failed"]
        if not failed or any(result.status == "ok" for result in results):
            self._cells.clear()
            return None
        first = failed[0]
        cell = (first.task.workload, first.task.bucket)
        cause = _PARTICULARS.sub("#", first.reason)
        if cell not in self._cells or self._cells[cell].cause != cause:
            self._cells[cell] = _Failing(cause)
        failing = self._cells[cell]
        failing.units += 1
        failing.met |= {result.task.variant for result in failed}
        if failing.units >= IN_A_ROW and len(failing.met) >= min(IN_A_ROW, self.arms):
            return first.reason
        return None
