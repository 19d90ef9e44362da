"""Simulated error rates of the analysis, for the documents that state them: `scripts/evidence simulate`.

Each simulation draws values whose truth is known, passes them to the functions that reports use, and returns its text
as Markdown. Its seed is fixed, so its figures change only when those functions do.
"""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from perfrunner.analysis.history import history
from perfrunner.analysis.looks import Look
from perfrunner.analysis.nights import Night, NightRow, suspicions
from perfrunner.analysis.verdict import decide
from perfrunner.bisect.search import TURNED, BisectState, Measured, Search
from perfrunner.domain import MIN_BLOCKS, Case
from perfrunner.errors import PerfrunnerError
from perfrunner.results import ExperimentRecord
from perfrunner.sources.git import Repository
from perfrunner.sources.run_git import run_git
from perfrunner.spec.metrics import metric_type
from tools.evidence.cells import table
from tools.evidence.choices import choices
from tools.evidence.draws import BLOCKS, MARGIN, SEED, Array, Draw, effects_of, share_text
from tools.evidence.looks import looks, precision

METRIC = "ops_per_s"
# -- intervals

STALL, STALLED = 10.0, 0.1  # standard deviations; share of the blocks


def _two_modes(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.asarray(rng.choice([-1.0, 1.0], shape) + rng.normal(0, 0.3, shape))


def _stalls(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.asarray(
        rng.normal(0, 1, shape) + STALL * (rng.random(shape) < STALLED) - STALL * STALLED
    )


def _correlated(correlation: float) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        values = rng.normal(0, 1, shape)
        for block in range(1, shape[1]):
            fresh = np.sqrt(1 - correlation**2) * values[:, block]
            values[:, block] = correlation * values[:, block - 1] + fresh
        return values

    return draw


BLOCKS_LIKE: Mapping[str, Draw] = {
    "Student's t with 3 degrees of freedom": lambda rng, shape: rng.standard_t(3, shape),
    "two modes of equal weight": _two_modes,
    "one block in ten is off by 10 standard deviations, always to one side": _stalls,
    "correlation of successive blocks 0.1": _correlated(0.1),
    "correlation of successive blocks 0.3": _correlated(0.3),
}


def coverage(runs: int = 20_000) -> str:
    """Return how often 95 % intervals cover the mean, where blocks are not independent and alike."""
    sizes = (5, 7, 10, 20, 40)
    rows = []
    for name, draw in BLOCKS_LIKE.items():
        rng = np.random.default_rng(SEED)
        shares = [_covered(0.01 * draw(rng, (runs, blocks))) for blocks in sizes]
        rows.append([name, *(share_text(share) for share in shares)])
    return table(["blocks", *map(str, sizes)], rows)


def _covered(values: Array) -> float:
    intervals = [effect.ci95 for effect in effects_of(values) if effect.ci95 is not None]
    return sum(low <= 1 <= high for low, high in intervals) / len(intervals)


# -- plans


def plans(runs: int = 4000) -> str:
    """Return how often a run of the planned length finds the change that its plan names, or settles another."""
    rows = []
    for first in (MIN_BLOCKS, BLOCKS):
        for sd in (0.01, 0.02, 0.04):
            rng = np.random.default_rng(SEED)
            planned = [
                (first + plan[0], plan[1])
                for change in (0.0, MARGIN)
                for plan in _plans_of(rng.normal(np.log1p(change), sd, (runs, first)))
            ]
            sizes = [size for size, _ in planned]
            named, _ = _settled(rng, sizes, [change for _, change in planned], sd)
            margin, _ = _settled(rng, sizes, [MARGIN] * len(sizes), sd)
            half = sum(_settled(rng, sizes, [MARGIN / 2] * len(sizes), sd))
            _, same = _settled(rng, sizes, [0.0] * len(sizes), sd)
            shares = [share_text(share) for share in (named, margin, half, same)]
            rows.append([str(first), share_text(sd), f"{np.median(sizes):g}", *shares])
    return table(
        ["blocks of the first look", "spread", "blocks of the plan (median)", "the change that the plan names: found",
         "a change of the margin: found", "half the margin: settled", "no change: *same*"],
        rows,
    )  # fmt: skip


def _plans_of(values: Array) -> list[tuple[int, float]]:
    """Return the plans for the *unsure* rows: further blocks, and the change that they find."""
    unsure = [effect for effect in effects_of(values) if decide(effect, "higher")[0] == "unsure"]
    return [plan for plan in Look().plans(unsure) if plan is not None]


def _settled(
    rng: np.random.Generator, sizes: Sequence[int], changes: Sequence[float], sd: float
) -> tuple[float, float]:
    """Return the shares of second looks that find a change, and that find *same*."""
    values = [rng.normal(np.log1p(c), sd, size) for c, size in zip(changes, sizes, strict=True)]
    effects = [Look(number=2).adjust(effect) for effect in effects_of(values)]
    verdicts = [decide(replace(e, q=e.p), "higher")[0] for e in effects]
    turned = sum(verdict in TURNED for verdict in verdicts)
    return turned / len(sizes), verdicts.count("same") / len(sizes)


# -- bisections

COMMITS = 32
SPREAD = 0.01
_ENGINE = "engine"


class _Unchanged(Repository):
    """A repository that nothing changes, so that git has to answer each question once only."""

    git = functools.cache(Repository.git)


def _commits(top: Path) -> list[str]:
    """Fill a new repository with COMMITS changes of one file; return the commits, the good revision first."""
    run_git(top, "init", "--quiet")
    stream = "".join(
        f"commit refs/heads/main\ncommitter a <a> {number} +0000\ndata 1\n-\n"
        f"M 644 inline {_ENGINE}\ndata {len(str(number))}\n{number}\n"
        for number in range(COMMITS + 1)
    )
    run_git(top, "fast-import", "--quiet", stdin=stream)
    return run_git(top, "rev-list", "--reverse", "main").split()


def bisections(searches: int = 1000) -> str:
    """Return how often a bisection names the commit of a loss, several, none, or a wrong one."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        commits = _commits(Path(directory))
        repository = _Unchanged(Path(directory), "")
        for loss in (0.02, 0.01, 0.0):
            rng = np.random.default_rng(SEED)
            ends = Counter(_bisected(rng, repository, commits, loss) for _ in range(searches))
            right = [ends["right"], ends["among"]] if loss else ["", ""]
            rows.append([share_text(loss), *map(str, [*right, ends["none"], ends["wrong"]])])
    head = ["loss", "the commit", "several, it among them", "no change", "a wrong commit"]
    return f"The number of {searches} searches that name each:\n\n{table(head, rows)}"


def _bisected(
    rng: np.random.Generator, repository: Repository, commits: list[str], loss: float
) -> str:
    culprit = int(rng.integers(1, len(commits)))

    def measure(commit: str, blocks: int | None) -> Measured:
        change = np.log1p(-loss) if commits.index(commit) >= culprit else 0.0
        (effect,) = effects_of(rng.normal(change, SPREAD, (1, blocks or BLOCKS)))
        assert effect.ci95 is not None
        return Measured(
            estimate=effect.estimate,
            low=effect.ci95[0],
            high=effect.ci95[1],
            verdict=decide(effect, "higher")[0],
            blocks=effect.n,
        )

    state = BisectState("simulated", METRIC, commits[0], commits[-1])
    search = Search(repository, state, measure, lambda: None)
    try:
        list(search.run())
    except PerfrunnerError:
        return "none"
    named = search.culprits()
    if not loss or commits[culprit] not in named:
        return "wrong"
    return "right" if len(named) == 1 else "among"


# -- nights

NIGHT_SD = 0.005  # of a night's effect
BEFORE, AFTER = 60, 15  # nights


def beginnings(series: int = 1000) -> str:
    """Return how often a loss seems to begin too late, and how often the commit that counts as good has it."""
    rng = np.random.default_rng(SEED)
    late, spoiled, of = 0, 0, 0
    for _ in range(series):
        values = rng.normal(0, 1, (BEFORE + AFTER, 2))
        values[BEFORE:, 1] -= 2
        followed = history([_night(n, *NIGHT_SD * row) for n, row in enumerate(values)], METRIC)
        losses = [a for a in followed.alarms if a.variant == "b" and a.verdict == "worse"]
        since = datetime.min.replace(tzinfo=timezone.utc)
        goods = [s.good for s in suspicions([followed], since) if s.key[1] == "b"]
        if losses and goods:
            of += 1
            late += losses[0].first_run > BEFORE
            spoiled += int(goods[0], 16) >= BEFORE
    return (
        f"A loss of 2 standard deviations in one case, after {BEFORE} nights, is reported within {AFTER} nights in"
        f" {of} of {series} simulated series. In {share_text(late / of)} of these it seems to begin too late; in"
        f" {100 * spoiled / of:.1f} % the good commit already has the loss."
    )


def _night(number: int, raw: float, effect: float) -> Night:
    source = {"name": "b", "sha256": "", "directory": "", "interface": 1, "revision": True,
              "commit": f"{number:012x}", "dirty": []}  # fmt: skip
    facts = {"sources": {"variants": {"a": {**source, "name": "a"}, "b": source}}}
    spec = {"baseline": "a", "variants": {"a": {}, "b": {}}, "workloads": {"w": {}}}
    at = datetime(2026, 1, 1, 2, tzinfo=timezone.utc) + timedelta(days=number)
    record = ExperimentRecord(
        f"e{number}", "s", spec, "", "s.yaml", 1, at, "0", facts=facts, state="done"
    )
    case, metric = Case("w", "persistent"), metric_type(METRIC)
    rows = (
        NightRow(case, "a", metric, "build", 1e6 * float(np.exp(raw)), None, BLOCKS),
        NightRow(case, "b", metric, "build", 1e6, float(np.exp(effect)), BLOCKS),
    )
    return Night(record, rows)


STATISTICS, CI, NIGHTLY = "explanation/statistics.md", "how-to/ci.md", "how-to/nightly.md"
# By section: the document below docs, and the function.
SIMULATIONS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "choices": (STATISTICS, choices),
    "coverage": (STATISTICS, coverage),
    "plans": (STATISTICS, plans),
    "looks": (STATISTICS, looks),
    "precision": (STATISTICS, precision),
    "bisections": (CI, bisections),
    "beginnings": (NIGHTLY, beginnings),
}
