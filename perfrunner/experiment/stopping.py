"""Decide how many blocks each case gets by its precision, and end a run after repeated failures of one cause.

`precision` in a spec ends or extends a case by the widths of its intervals alone: `case_widths` and `decide`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from perfrunner.domain import Case, TrialKey
from perfrunner.experiment import events as ev
from perfrunner.experiment.outdir import read_journal
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.session import RunContext
from perfrunner.experiment.trial.placement import TrialResult
from perfrunner.results.database import waiting
from perfrunner.results.records import EXTENDED

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData

IN_A_ROW = 3
_PARTICULARS = re.compile(r"/\S+|\d+")  # details of one trial: paths, ports, pids, seconds


@dataclass
class _Failing:
    """The latest consecutive failures of one case."""

    cause: str
    units: int = 0
    variants: set[str] = field(default_factory=set)


@dataclass
class RepeatedFailure:
    """A rule that stops the run when consecutive units of a case fail with the same cause.

    A single variant that always fails does not stop the run, because the others can still be measured. The cause must
    have hit three variants, or all of them if there are fewer. Causes are counted per case; any other result, in
    any case, resets all counts.
    """

    variants: int  # number of variants of the experiment
    _cases: dict[Case, _Failing] = field(default_factory=dict)

    def add(self, results: Sequence[TrialResult]) -> str | None:
        """Add the results of a unit; return the reason of the failure when the run should stop, else None."""
        failed = [result for result in results if result.status == "failed"]
        if not failed or any(result.status == "ok" for result in results):
            self._cases.clear()
            return None
        first = failed[0]
        case = first.task.case
        cause = _PARTICULARS.sub("#", first.reason)
        if case not in self._cases or self._cases[case].cause != cause:
            self._cases[case] = _Failing(cause)
        failing = self._cases[case]
        failing.units += 1
        failing.variants |= {result.task.variant for result in failed}
        if failing.units >= IN_A_ROW and len(failing.variants) >= min(IN_A_ROW, self.variants):
            return first.reason
        return None


FEWEST_BLOCKS = 10
MOST_BLOCKS = 40


@dataclass(frozen=True)
class Width:
    """The precision that a case has reached: clean blocks, and the widest half-width of its primary metrics.

    The half-width is a fraction of the baseline for ratios, and of 100 for differences of percentages (0.01 = 1
    point). None means that it is not known yet.
    """

    blocks: int
    half_width: float | None

    def expected_blocks(self, wanted: float, fewest: int = FEWEST_BLOCKS) -> int:
        """Estimate the total number of clean blocks, at least `fewest`, until the half-width is `wanted`.

        Assumes that later blocks vary as much as earlier ones. Half-widths shrink with the square root of the number of
        blocks and with Student's t, which is 12.7 for two blocks and 2.3 for ten.
        """
        if self.half_width is None or self.blocks < 2:
            return fewest
        from perfrunner.analysis.inference import t_critical
        from perfrunner.analysis.looks import PRECISE

        counts = np.arange(fewest, MOST_BLOCKS)
        t = t_critical(PRECISE / 2, np.array([self.blocks, *counts]) - 1)
        spread = self.half_width * math.sqrt(self.blocks) / t[0]
        narrow = counts[t[1:] * spread / np.sqrt(counts) <= wanted]
        return int(narrow[0]) if len(narrow) else MOST_BLOCKS


def case_widths(data: ExperimentData) -> dict[Case, Width]:
    """Return the width of every case that has a primary metric with a relative interval.

    Differences in bytes or pages have no relative interval. The interval is the one that the report shows if the case
    stops: it is wider than that of a planned number of blocks, because a case tends to stop while its spread looks
    small, and wider still after an extension.
    """
    from perfrunner.analysis.compare import compare
    from perfrunner.analysis.inference import t_critical
    from perfrunner.analysis.looks import Look

    look = replace(Look.at(data), unfinished=False, precision=True)
    widths: dict[Case, Width] = {}
    for row in compare(data).rows:
        if not row.primary or row.effect is None:
            continue
        if row.effect.kind == "difference" and row.metric.unit != "%":
            continue
        half: float | None = None
        if row.effect.sd is not None:
            error = row.effect.sd / math.sqrt(row.effect.n)
            half = float(t_critical(look.level(row.effect.n) / 2, row.effect.n - 1)) * error
            half /= 100 if row.effect.kind == "difference" else 1
        before = widths.get(row.case, Width(row.effect.n, 0.0))
        widest = None if half is None or before.half_width is None else max(half, before.half_width)
        widths[row.case] = Width(min(before.blocks, row.effect.n), widest)
    return widths


def decide(
    case: Case,
    block: int,
    planned: int,
    width: Width | None,
    wanted: float,
    most: int = MOST_BLOCKS,
) -> ev.Precision:
    """Decide for one case, after block `block` of `planned` is complete, whether to stop, continue or extend.

    `width` is None when no primary metric has a relative interval: such a case runs the planned blocks. The others
    run at least 10 clean blocks and at most `most` blocks.
    """
    if width is None:
        return ev.Precision(
            case, block, 0, None, wanted, "stop" if block >= planned else "continue"
        )
    narrow = width.half_width is not None and width.half_width <= wanted
    if (width.blocks >= FEWEST_BLOCKS and narrow) or max(block, width.blocks) >= most:
        return ev.Precision(case, block, width.blocks, width.half_width, wanted, "stop")
    decision: ev.Decision = "extend" if block >= planned else "continue"
    return ev.Precision(case, block, width.blocks, width.half_width, wanted, decision)


@dataclass
class StoppingRule:
    """The rule that ends cases which are precise enough; without `precision` in the spec it does nothing."""

    context: RunContext
    recorder: Recorder
    plan_block: Callable[[int], tuple[TrialKey, ...]]
    done: set[Case] = field(init=False, default_factory=set)

    def recall(self) -> None:
        """Close the cases that an earlier run of this experiment ended.

        A case that ended only because its blocks ran out takes part in blocks added later.
        """
        extended = self.context.session.experiment.facts.get(EXTENDED)
        for record in (
            read_journal(self.context.journal.path) if self.context.session.resumed else ()
        ):
            if record["event"] != "precision" or record.get("decision") != "stop":
                continue
            block, half_width = int(record["block"]), record.get("half_width")
            narrow = half_width is not None and half_width <= record["wanted"]
            if extended and block <= int(extended[-1]["from"]) and not narrow:
                continue
            for case in self.context.spec.cases:
                if list(case) == record.get("case"):
                    self._close(case, block)
        if extended and self.done >= set(self.context.spec.cases):
            text = "every case is already as precise as the spec requires: no block is added"
            self.context.listener.on_event(
                ev.Warned(text, "`precision` decides the number of blocks")
            )

    def look(self, block: int, planned: int) -> int:
        """Apply the rule after block `block`, if it is complete; return the new number of planned blocks.

        At most one block is added per call.
        """
        schedule = self.recorder.schedule
        if self.context.spec.precision is None or block == 0 or not schedule.block_complete(block):
            return planned
        data = waiting(lambda: self.context.store.load(self.context.session.experiment.id))
        widths = case_widths(data)
        wanted = self.context.spec.precision
        extended = EXTENDED in self.context.session.experiment.facts
        most = planned if extended else MOST_BLOCKS  # the user fixed the blocks of an extension
        more: set[Case] = set()
        for case in self.context.spec.cases:
            if case in self.done:
                continue
            width = widths.get(case)
            precision = decide(case, block, planned, width, wanted, most)
            self.context.listener.on_event(precision)
            self.context.journal.append("precision", **vars(precision))
            if precision.decision == "stop":
                self._close(case, block)
                continue
            another = precision.decision == "extend"
            more |= {case} if another else set()
            expected = planned if width is None else width.expected_blocks(wanted)
            beyond = min(expected, most) - (planned + 1 if another else planned)
            self.recorder.foresee(case, beyond * self._trials_of(case))
        if not more:
            return planned
        schedule.extend(t for t in self.plan_block(planned + 1) if t.case in more)
        return planned + 1

    def _close(self, case: Case, block: int) -> None:
        self.done.add(case)
        self.recorder.schedule.close(case, block)
        self.recorder.foresee(case, 0)

    def _trials_of(self, case: Case) -> int:
        """Return the number of trials that the case has in a block."""
        return sum(1 for t in self.plan_block(1) if t.case == case)
