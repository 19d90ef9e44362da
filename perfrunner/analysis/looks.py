"""The price of looking at a run more than once: the level at which each look tests.

A verdict at 5 % is promised for one look, at the end of the planned blocks. A user who extends a run until a verdict
pleases, or stops it at a good moment, would alarm more often. Therefore

* each further look after `--extend` spends a small share of its own (LATER, halved from look to look);
* a run that has not reached its planned end gets intervals that hold at all moments together (a confidence sequence),
  because its estimates are shown while it runs and anyone can stop it at any of them;
* a case that ends by `precision` tests at PRECISE, because it tends to end while the spread looks small.

`scripts/evidence simulate --only looks` simulates users who follow every advice of the report and watch the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfrunner.analysis.inference import special
from perfrunner.analysis.model import ALPHA
from perfrunner.analysis.verdict import interval_at, more_blocks
from perfrunner.domain import MIN_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.model import Effect
    from perfrunner.results import ExperimentData

LATER = 0.005  # level of the first look after an extension
PRECISE = 0.03
ANYTIME = 0.02  # of all moments of an unfinished run together
# Of the effect in standard deviations, in the mixture behind the confidence sequence.
PRIOR_VARIANCE = 1.0


@dataclass(frozen=True)
class Look:
    """A look at a run. `number` counts from 1; `unfinished`: the run has not reached its planned end."""

    number: int = 1
    unfinished: bool = False
    precision: bool = False
    planned: int = 0  # blocks at the planned end

    @classmethod
    def at(cls, data: ExperimentData) -> Look:
        """Return the look that the report of a stored experiment is.

        An extension without a trial shows nothing new: `precision` may have ended every case before.
        """
        record = data.experiment
        newest = max((trial.block for trial in data.trials), default=0)
        return cls(
            number=1 + sum(newest > int(each["from"]) for each in record.extensions),
            unfinished=record.state != "done",
            precision=record.spec_json.get("precision") is not None,
            planned=record.extended_to or int(record.spec_json.get("blocks") or 0),
        )

    @property
    def after(self) -> Look:
        """The look at the end of the run, or, if it has ended, after an extension."""
        return replace(self, number=self.number + (not self.unfinished), unfinished=False)

    def level(self, blocks: int) -> float:
        """Return the level of a single test of this look; 0 if so few blocks allow none."""
        if self.unfinished:
            return anytime_level(blocks)
        level = PRECISE if self.precision else ALPHA
        return level if self.number == 1 else min(level, LATER / 2.0 ** (self.number - 2))

    def plans(self, effects: Sequence[Effect]) -> list[tuple[int, float] | None]:
        """Plan what would settle each *unsure* effect (`more_blocks`); beyond the planned end it takes an extension."""
        plans = more_blocks(effects, self.after.level(MIN_BLOCKS))
        if not self.unfinished:
            return plans
        extended = more_blocks(effects, self.after.after.level(MIN_BLOCKS))
        return [
            plan if plan is not None and effect.n + plan[0] <= self.planned else longer
            for effect, plan, longer in zip(effects, plans, extended, strict=True)
        ]

    def adjust(self, effect: Effect) -> Effect:
        """Return the effect with its p value and interval at the level of this look."""
        level = self.level(effect.n)
        if level == ALPHA or not effect.paired:
            return effect
        return replace(
            effect,
            ci95=interval_at(effect, 1 - level) if level > 0 else None,
            p=None
            if effect.p is None
            else min(1.0, effect.p * ALPHA / level)
            if level > 0
            else 1.0,
            level=level,
        )

    def notes(self) -> Iterable[str]:
        """Yield what a reader of intervals and verdicts has to know about this look."""
        if self.unfinished:
            yield (
                "the run has not reached its planned end: its intervals hold at any moment, so they are wider"
                " than they will be at the end"
            )
        elif self.number > 1:
            yield (
                f"extended {'once' if self.number == 2 else f'{self.number - 1} times'}: earlier looks spent their"
                f" share of the error rate, so this one tests at {100 * self.level(0):.2g} % with wider intervals"
            )
        elif self.precision:
            yield (
                f"`precision` ended the run: it tests at {100 * PRECISE:g} %, because a case tends to end while its"
                " spread looks small"
            )


def anytime_level(blocks: int) -> float:
    """Return the level of a t test that may be repeated after every block, at ANYTIME for all of them together.

    The t statistic is compared with the boundary where the Bayes factor for an effect drawn from a normal distribution
    against no effect reaches 1 / ANYTIME. That factor is a martingale without an effect, so it reaches the boundary at
    any time with at most that probability (Wang and Ramdas 2025, "Anytime-valid t-tests and confidence sequences").
    """
    if blocks < 2:
        return 0.0
    spread = 1 + blocks * PRIOR_VARIANCE
    reach = (math.sqrt(spread) / ANYTIME) ** (2 / blocks)
    if reach >= spread:
        return 0.0
    t = math.sqrt((blocks - 1) * (reach - 1) / (1 - reach / spread))
    return float(2 * special().stdtr(blocks - 1, -t))
