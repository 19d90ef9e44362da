"""Which commit comes next, what a comparison says of it, and when the search is over.

The bad end is measured first: its effect E against the good end is what is looked for. A commit is bad when the whole
interval of its own effect lies on E's side of E/2, good when it lies on the other; where the interval holds E/2 it is
measured again with twice the blocks, and skipped when that does not tell either. git chooses the commits as
`git bisect` does (`rev-list --bisect-all`), of those that touch the engine.

The other steps need not be as precise as the bad end's: so many blocks that an interval is likely to reach a quarter of
E to either side, as the spread of the first step tells before any of them is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from perfrunner.analysis.model import MIN_BLOCKS
from perfrunner.bisect.state import BisectState, Outcome, Step
from perfrunner.errors import PerfrunnerError, UsageError
from perfrunner.run.plan.precision import MOST_BLOCKS, Width
from perfrunner.source.git import UNSHALLOW, GitError, Repository

TURNED = ("better", "worse")


@dataclass(frozen=True)
class Measured:
    """What comparing a commit with the good end gave. Without an estimate there is nothing to judge (`why`), but that
    the engine may be one whose `outcome` is known.
    """

    why: str = ""
    kind: str = "ratio"
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str | None = None
    blocks: int = 0
    experiment: str | None = None
    outcome: Outcome | None = None
    content: str | None = None
    programs: str | None = None


@dataclass
class Search:
    """`measure(commit, blocks)` compares with the good end; None for `blocks`: the spec's own number.

    `keep` is called when the ends are in order and after every step: what it stored is not measured again.
    """

    repository: Repository
    state: BisectState
    measure: Callable[[str, int | None], Measured]
    keep: Callable[[], None]

    def run(self) -> Iterator[Step]:
        """Every step that is made, as it is made. PerfrunnerError when the ends do not differ."""
        self._check_ends()
        if not self.state.steps:
            self.keep()  # the first step may be cut short, too
            yield self._first()
        else:
            self._check_turned()
        while (commit := self._next()) is not None:
            yield self._step(commit)

    def culprits(self) -> list[str]:
        """When the search is over: the commit at which it changed, or those among which skipped ones hide it."""
        bad = [self.state.bad, *self.state.commits("bad")][-1]
        left = [commit for commit in self._between(bad) if commit != bad]
        return [bad, *left]

    def left(self) -> int:
        """About how many steps are to come."""
        candidates = len([c for c in self._candidates() if c not in self.state.commits("skip")])
        return math.ceil(math.log2(candidates + 1)) if candidates else 0

    # -- inside

    def _check_ends(self) -> None:
        good, bad = self.state.good, self.state.bad
        if good == bad:
            raise UsageError("the good and the bad end are the same commit", "name two")
        try:
            self.repository.git("merge-base", "--is-ancestor", good, bad)
        except GitError:
            raise UsageError(
                f"{good[:12]} (good) is no ancestor of {bad[:12]} (bad)",
                UNSHALLOW
                if self.repository.shallow
                else "a bisection goes from an older commit to a newer one",
            ) from None
        if not self._between(bad):
            raise UsageError(f"no commit between {good[:12]} and {bad[:12]} touches the engine")

    def _first(self) -> Step:
        measured = self.measure(self.state.bad, None)
        self.state.kind = measured.kind
        step = self._taken(self.state.bad, measured, "bad", measured.why)
        if measured.verdict not in TURNED:
            step = replace(step, outcome="skip")
        self.state.steps.append(step)
        self.keep()
        self._check_turned()
        return step

    def _check_turned(self) -> None:
        end = self.state.steps[0]
        if end.verdict not in TURNED:
            found = end.verdict or end.why or "nothing"
            raise PerfrunnerError(
                f"{self.state.metric} of {end.commit[:12]} against {self.state.good[:12]}: {found};"
                " there is no change to look for",
                "more blocks, another metric, or ends that are further apart",
            )

    def _step(self, commit: str) -> Step:
        blocks = self._blocks()
        while True:
            measured = self.measure(commit, blocks)
            if measured.estimate is None:
                step = self._taken(commit, measured, measured.outcome or "skip", measured.why)
                break
            outcome = self._outcome(measured)
            if outcome is not None:
                step = self._taken(commit, measured, outcome, "")
                break
            blocks = min(2 * measured.blocks, MOST_BLOCKS)
            if measured.blocks == 0 or measured.blocks >= MOST_BLOCKS:
                why = "its interval holds half of the change: it cannot be told on which side it is"
                step = self._taken(commit, measured, "skip", why)
                break
        self.state.steps.append(step)
        self.keep()
        return step

    def _blocks(self) -> int | None:
        """Of a step; None: as the spec says, where fewer are not likely to tell."""
        end = self.state.steps[0]
        if end.estimate is None or end.low is None or end.high is None:
            return None
        half = (self._scaled(end.high) - self._scaled(end.low)) / 2
        wanted = abs(self._scaled(end.estimate)) / 4
        enough = Width(end.blocks, half).expected_blocks(wanted, fewest=MIN_BLOCKS)
        return enough if enough < end.blocks else None

    def _outcome(self, measured: Measured) -> Outcome | None:
        """None where the interval holds half of the whole change."""
        end = self.state.steps[0]
        assert end.estimate is not None
        half = self._scaled(end.estimate) / 2
        if measured.low is None or measured.high is None:
            return None
        sign = 1 if half > 0 else -1
        near, far = sorted(sign * self._scaled(bound) for bound in (measured.low, measured.high))
        if near > abs(half):
            return "bad"
        return "good" if far < abs(half) else None

    def _scaled(self, estimate: float) -> float:
        return math.log(estimate) if self.state.kind == "ratio" else estimate

    def _taken(self, commit: str, measured: Measured, outcome: Outcome, why: str) -> Step:
        return Step(
            commit=commit,
            title=self.repository.commit(commit).title,
            outcome=outcome,
            why=why,
            estimate=measured.estimate,
            low=measured.low,
            high=measured.high,
            verdict=measured.verdict,
            blocks=measured.blocks,
            experiment=measured.experiment,
            content=measured.content,
            programs=measured.programs,
        )

    def _next(self) -> str | None:
        skipped = self.state.commits("skip")
        return next((one for one in self._candidates() if one not in skipped), None)

    def _candidates(self) -> list[str]:
        """The commits that a comparison would tell something of, the most telling first."""
        bad = [self.state.bad, *self.state.commits("bad")][-1]
        text = self._list("--bisect-all", bad)
        return [line.split(" ", 1)[0] for line in text if not line.startswith(bad)]

    def _between(self, bad: str) -> list[str]:
        """Commits after every good one up to `bad` that touch the engine, newest first."""
        return [line.split(" ", 1)[0] for line in self._list("--topo-order", bad)]

    def _list(self, how: str, bad: str) -> list[str]:
        goods = [self.state.good, *self.state.commits("good")]
        return self.repository.git(
            "rev-list", how, bad, *(f"^{good}" for good in goods), "--", self.repository.prefix or "."
        ).splitlines()  # fmt: skip
