"""The search of a bisection: choose the next commit, judge its comparison, and decide when to stop.

The bad revision is measured first: the search looks for its effect E against the good revision. If
the interval of E contains E/2, the revision is measured again with twice the blocks, because a
change that was just visible tends to be exaggerated, and then E/2 would not divide the commits. A
commit is bad if the whole interval of its effect lies on E's side of E/2, and good if it lies on
the other side. If the interval contains E/2, the commit is measured again with twice the blocks, up
to a limit, and then skipped. git chooses the commits as `git bisect` does
(`rev-list --bisect-all`), among those that touch the engine, or the directory that a server's
repository is named by.

The other steps need less precision than the first. Their number of blocks is chosen from the spread
of the first step, so that an interval probably reaches a quarter of E to either side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from perfrunner.domain import MIN_BLOCKS
from perfrunner.errors import PerfrunnerError, StoreError, UsageError
from perfrunner.experiment.stopping import MOST_BLOCKS, Width
from perfrunner.results.files import write_whole
from perfrunner.sources.git import UNSHALLOW, Repository
from perfrunner.sources.run_git import GitError

Outcome: TypeAlias = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class Step:
    """The comparison of a commit with the good revision.

    `estimate`, `low` and `high` are the effect on the metric (a ratio or a difference) and its
    interval. They are None if nothing was measured; `why` then gives the reason. `content` and
    `programs` are SHA-256 sums of the engine's source and of the built files.
    """

    commit: str
    title: str
    outcome: Outcome
    why: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str | None = None
    blocks: int = 0
    experiment: str | None = None
    content: str | None = None
    programs: str | None = None


@dataclass
class BisectState:
    """A bisection: two revisions and the steps so far, of which the first is the bad revision.

    `kind` is the kind of the effect, "ratio" or "difference".
    """

    spec: str
    metric: str
    good: str
    bad: str
    steps: list[Step] = field(default_factory=list)
    kind: str = "ratio"

    def commits(self, outcome: Outcome) -> list[str]:
        """Return the commits with this outcome, in the order of the steps."""
        return [step.commit for step in self.steps if step.outcome == outcome]

    def save(self, path: Path) -> None:
        """Write the state, completely or not at all. Raises StoreError."""
        write_whole(path, json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> BisectState | None:
        """Read a state; None if there is no file. Raises StoreError if it cannot be read.

        Commits that were skipped without a measurement are left out: they may build today.
        """
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            steps: Sequence[dict[str, Any]] = document.pop("steps")
            known = [Step(**step) for step in steps]
            measured = [s for s in known if s.outcome != "skip" or s.experiment is not None]
            return cls(**document, steps=measured)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{path} cannot be read: {error}", "start again without --resume"
            ) from error


TURNED = ("better", "worse")


@dataclass(frozen=True)
class Measured:
    """The result of comparing a commit with the good revision.

    Without an estimate, `why` gives the reason, and `outcome` is set if the same engine is already
    known to be good or bad.
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


def _exaggerates(measured: Measured) -> bool:
    """Return whether the interval of a change contains half of it, and more blocks can make it narrower."""
    if measured.verdict not in TURNED or not 0 < measured.blocks < MOST_BLOCKS:
        return False
    estimate, *ends = (
        0.0 if value is None else math.log(value) if measured.kind == "ratio" else value
        for value in (measured.estimate, measured.low, measured.high)
    )
    return min(map(abs, ends)) < abs(estimate) / 2


@dataclass
class Search:
    """A bisection in progress.

    `measure(commit, blocks)` compares a commit with the good revision; None for `blocks` means the
    number of the spec. `keep` stores the state: it is called before the first step and after each
    one, and stored steps are not measured again.
    """

    repository: Repository
    state: BisectState
    measure: Callable[[str, int | None], Measured]
    keep: Callable[[], None]

    def run(self) -> Iterator[Step]:
        """Make the steps and yield each. Raises PerfrunnerError if the two revisions do not differ."""
        self._check_ends()
        if not self.state.steps:
            self.keep()  # the first step may be interrupted
            yield self._first()
        else:
            self._check_turned()
        while (commit := self._next()) is not None:
            yield self._step(commit)

    def culprits(self) -> list[str]:
        """Return the commit of the change after the search, or several if skipped commits hide it."""
        bad = [self.state.bad, *self.state.commits("bad")][-1]
        left = [commit for commit in self._between(bad) if commit != bad]
        return [bad, *left]

    def left(self) -> int:
        """Estimate the number of steps left."""
        candidates = len([c for c in self._candidates() if c not in self.state.commits("skip")])
        return math.ceil(math.log2(candidates + 1)) if candidates else 0

    # -- inside

    def _check_ends(self) -> None:
        good, bad = self.state.good, self.state.bad
        if good == bad:
            raise UsageError(
                "the good and the bad revision are the same commit",
                "give two commits with --good and --bad",
            )
        try:
            self.repository.git("merge-base", "--is-ancestor", good, bad)
        except GitError:
            raise UsageError(
                f"{good[:12]} (good) is not an ancestor of {bad[:12]} (bad)",
                UNSHALLOW
                if self.repository.shallow
                else "give an older commit with --good and a newer one with --bad",
            ) from None
        if not self._between(bad):
            raise UsageError(
                f"no commit between {good[:12]} and {bad[:12]} touches its source",
                "give revisions that are further apart",
            )

    def _first(self) -> Step:
        measured = self.measure(self.state.bad, None)
        while _exaggerates(measured):
            measured = self.measure(self.state.bad, min(2 * measured.blocks, MOST_BLOCKS))
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
            result = end.verdict or end.why or "no result"
            raise PerfrunnerError(
                f"no change of {self.state.metric} between {self.state.good[:12]} and"
                f" {end.commit[:12]}: {result}",
                "try more blocks (--repeats), another metric, or revisions that are further apart",
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
                why = "unclear: its interval contains half of the change"
                step = self._taken(commit, measured, "skip", why)
                break
        self.state.steps.append(step)
        self.keep()
        return step

    def _blocks(self) -> int | None:
        """Return the number of blocks of a step, or None for the spec's if fewer are not enough."""
        end = self.state.steps[0]
        if end.estimate is None or end.low is None or end.high is None:
            return None
        half = (self._scaled(end.high) - self._scaled(end.low)) / 2
        wanted = abs(self._scaled(end.estimate)) / 4
        enough = Width(end.blocks, half).expected_blocks(wanted, fewest=MIN_BLOCKS)
        return enough if enough < end.blocks else None

    def _outcome(self, measured: Measured) -> Outcome | None:
        """Judge a comparison; None if its interval contains half of the whole change."""
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
        return next((commit for commit in self._candidates() if commit not in skipped), None)

    def _candidates(self) -> list[str]:
        """Return the commits that are worth a comparison, the most informative first."""
        bad = [self.state.bad, *self.state.commits("bad")][-1]
        text = self._list("--bisect-all", bad)
        return [line.split(" ", 1)[0] for line in text if not line.startswith(bad)]

    def _between(self, bad: str) -> list[str]:
        """Return the commits after every good one up to `bad` that touch the engine, newest first."""
        return [line.split(" ", 1)[0] for line in self._list("--topo-order", bad)]

    def _list(self, how: str, bad: str) -> list[str]:
        goods = [self.state.good, *self.state.commits("good")]
        return self.repository.git(
            "rev-list", how, bad, *(f"^{good}" for good in goods), "--", self.repository.prefix or "."
        ).splitlines()  # fmt: skip
