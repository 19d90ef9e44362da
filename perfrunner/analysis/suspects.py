"""Series whose last few runs lie on the side of a loss: not enough to tell it, enough to run once more.

Five values of one noisy series do not hold more than that 7 of 10 losses of two standard deviations are told within
five nights. More values do: a night that leaves a suspicion is measured again (`perfrunner nightly`), and the looks of
analysis/history.py, which alone tell anything, then have them. What is added does not hang on what it will show, so the
false alarms stay what they are (simulated: tests/unit/analysis/test_alarms.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfrunner.analysis.level import leaning
from perfrunner.analysis.series import History, Series, resolution_of, scaled, turn_of

# Of a spec's nights without any change, the share that may look suspicious, for each number of nights looked at.
SUSPICION = 0.04


@dataclass(frozen=True)
class Suspect:
    """A series that may have become worse; `p` of its last few runs, on one side, if it has not."""

    series: Series
    p: float

    def __str__(self) -> str:
        one = self.series
        against = "" if one.kind is None else f" against {one.baseline}"
        return f"{one.metric.id} of {one.variant}{against} on {one.cell} leans to worse (p = {self.p:.2g})"


def suspects(histories: Sequence[History]) -> list[Suspect]:
    """Of all metrics of a spec, the least likely first; a change that was told is suspected no more."""
    every = [one for history in histories for one in history.series]
    found = []
    for one in every:
        values = scaled([run.value for run in one.runs], one.kind)
        if not values:
            continue
        p, rose = leaning(values, one.levels[-1].first, resolution_of(one.metric, one.kind))
        if p < SUSPICION / len(every) and turn_of(one.metric, rose) == "worse":
            found.append(Suspect(one, p))
    return sorted(found, key=lambda suspect: suspect.p)
