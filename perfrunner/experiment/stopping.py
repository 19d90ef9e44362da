"""Decide when a run stops before its planned end: enough precision, or repeated failures of one cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perfrunner.domain import Case, TrialKey
from perfrunner.experiment import events as ev
from perfrunner.experiment.outdir import read_journal
from perfrunner.experiment.plan import MOST_BLOCKS, case_widths, decide
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.session import RunContext
from perfrunner.experiment.trial.placement import TrialResult
from perfrunner.results.database import waiting
from perfrunner.results.records import EXTENDED

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
