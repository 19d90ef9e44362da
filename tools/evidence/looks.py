"""Simulate users who look at a run more than once: `scripts/evidence simulate --only looks,precision`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from perfrunner.analysis.looks import Look
from perfrunner.analysis.model import ALPHA
from perfrunner.analysis.verdict import decide, more_blocks
from perfrunner.bisect.search import TURNED
from perfrunner.domain import MIN_BLOCKS, Case
from perfrunner.experiment.stopping import FEWEST_BLOCKS, MOST_BLOCKS, Width
from perfrunner.experiment.stopping import decide as stop_or_continue
from tools.evidence.cells import table
from tools.evidence.draws import BLOCKS, MARGIN, SEED, Array, effects_of, share_text

LOOKS = 5  # the first one, and four extensions
PATIENCE = 400  # blocks that nobody measures


@dataclass(frozen=True)
class User:
    """Describe what a user does, and whether repeated looks are charged for.

    Each one extends the run by what the report says while the row is *unsure*, at most four times; the first verdict
    counts. Those who watch also look after every block, and stop at an interval that excludes no change.
    """

    watches: bool = True
    charged: bool = True

    def look(self, number: int = 1, *, unfinished: bool = False) -> Look:
        """Return a look as the report takes it, or as if it were the only one."""
        return Look(number, unfinished=unfinished) if self.charged else Look()


@dataclass(frozen=True)
class Outcome:
    """Hold how users ended: the shares with an alarm and with *same*, and their mean number of blocks."""

    alarms: float
    same: float
    blocks: float


def follow(
    rng: np.random.Generator, change: float, sd: float, users: int, user: User | None = None
) -> Outcome:
    """Simulate users who plan BLOCKS blocks; `change` is a share, `sd` the spread of the log ratios over blocks."""
    user = user or User()
    values = rng.normal(np.log1p(change), sd, (users, PATIENCE))
    blocks, before = np.full(users, BLOCKS), np.full(users, 1)
    verdicts: list[str | None] = [None] * users
    left = np.arange(users)
    for number in range(1, LOOKS + 1):
        look = user.look(number)
        if user.watches:
            stopped = live_alarms(values[left], before[left], blocks[left], user)
            for each in left[stopped]:
                verdicts[each] = "worse"
            left = left[~stopped]
        effects = [
            look.adjust(effect)
            for effect in effects_of([values[each, : blocks[each]] for each in left])
        ]
        plans = more_blocks(effects, (look.after if user.charged else look).level(BLOCKS))
        before[left] = blocks[left]
        goes_on = []
        for each, effect, plan in zip(left, effects, plans, strict=True):
            verdicts[each] = decide(replace(effect, q=effect.p), "higher")[0]
            more = plan is not None and blocks[each] + plan[0] <= PATIENCE
            if verdicts[each] == "unsure" and more and number < LOOKS:
                assert plan is not None
                blocks[each] += plan[0]
                goes_on.append(each)
        left = np.array(goes_on, dtype=int)
        if not len(left):
            break
    alarms = sum(verdict in TURNED for verdict in verdicts)
    return Outcome(alarms / users, verdicts.count("same") / users, float(blocks.mean()))


def live_alarms(
    values: Array, after: NDArray[np.int_], until: NDArray[np.int_], user: User
) -> NDArray[np.bool_]:
    """For each row, return whether an interval excludes no change after some block between the two."""
    n = np.arange(1, values.shape[1] + 1)
    mean = np.cumsum(values, axis=1) / n
    square = np.cumsum(values**2, axis=1) - n * mean**2
    level = np.array([user.look(unfinished=True).level(int(k)) for k in n])
    level[n < MIN_BLOCKS] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        t = mean / np.sqrt(square / (n - 1) / n)
        beyond = np.abs(t) > stats.t.isf(level / 2, np.maximum(n - 1, 1))
    inside = (n > after[:, None]) & (n < until[:, None]) & (level > 0)
    return np.asarray((beyond & inside).any(axis=1))


def looks(users: int = 4000, times: int = 12) -> str:
    """Return how often users alarm who watch a run and follow the plans of the report, and their blocks."""
    rows = []
    for user, sd in (
        (User(), 0.01),
        (User(), 0.015),
        (User(), 0.02),
        (User(charged=False), 0.02),
        (User(watches=False, charged=False), 0.02),
    ):
        rng = np.random.default_rng(SEED)
        unchanged = [follow(rng, 0.0, sd, users, user) for _ in range(times)]
        changed = follow(rng, MARGIN, sd, users, user)
        rows.append([
            "yes" if user.watches else "no",
            "charged" if user.charged else "not charged",
            share_text(sd, 1),
            share_text(float(np.mean([outcome.alarms for outcome in unchanged])), 1),
            f"{np.mean([outcome.blocks for outcome in unchanged]):.0f}",
            f"{changed.blocks:.0f}",
        ])  # fmt: skip
    return table(
        ["watches", "looks are", "spread over blocks", "alarms without a change", "mean blocks, no change",
         "mean blocks, a change of the margin"],
        rows,
    )  # fmt: skip


def precision(cases: int = 2500) -> str:
    """Return how often the interval of a case that ended by `precision` covers the truth."""
    rows = []
    for sd in (0.008, 0.01, 0.014, 0.018):
        covered, stopped = precise_cases(np.random.default_rng(SEED), sd, 0.006, cases)
        rows.append(
            [share_text(sd, 1), share_text(stopped.mean()), share_text(covered[stopped].mean(), 1)]
        )
    return table(
        ["spread over blocks", "cases that `precision: 0.6%` ended", "of these covered"], rows
    )


def precise_cases(
    rng: np.random.Generator, sd: float, wanted: float, cases: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each case, return whether its final interval covers the truth, and whether it ended before MOST_BLOCKS."""
    values = rng.normal(0, sd, (cases, MOST_BLOCKS))
    n = np.arange(1, MOST_BLOCKS + 1)
    mean = np.cumsum(values, axis=1) / n
    spread = np.sqrt(
        np.maximum(np.cumsum(values**2, axis=1) - n * mean**2, 0) / np.maximum(n - 1, 1)
    )
    level = Look(precision=True).level(FEWEST_BLOCKS)
    assert level < ALPHA
    half = stats.t.isf(level / 2, np.maximum(n - 1, 1)) * spread / np.sqrt(n)
    covered, stopped = np.zeros(cases, bool), np.zeros(cases, bool)
    for case in range(cases):
        for block in range(FEWEST_BLOCKS, MOST_BLOCKS + 1):
            reached = Width(block, float(half[case, block - 1]))
            if stop_or_continue(Case("w", "-"), block, BLOCKS, reached, wanted).decision == "stop":
                covered[case] = abs(mean[case, block - 1]) <= half[case, block - 1]
                stopped[case] = block < MOST_BLOCKS
                break
    return covered, stopped
