"""Study `between`: repeat one comparison, with and without a busy neighbour, and compare the results.

An interval covers what differs from block to block. If runs differ by more than their intervals allow, something
differs from run to run, which no interval covers. If a neighbour changes the effect, a verdict is valid for its
environment only.
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfrunner.analysis.inference import t_interval
from perfrunner.analysis.model import CONFIDENCE
from perfrunner.errors import TrialError
from perfrunner.report.numbers import minus
from tools.evidence import figures
from tools.evidence.cells import fact_of, slice_text, table
from tools.evidence.kept import Comparison, Kept
from tools.evidence.studies import JEMALLOC, PRIMARY, SYSTEM, Base, Common, Load, Planned

NEIGHBOURS = ("none", "memory")
STUDY = "between"
# A process that adds 1 to each byte of 64 MB, which no cache holds, and rests as long as that took: half a CPU. It
# ends with its standard input, so that no neighbour outlives a killed campaign.
_WALKER = """
import select, sys, time
import numpy as np
memory = np.zeros(64 << 20, np.uint8)
while not select.select([sys.stdin], [], [], 0)[0]:
    began = time.monotonic()
    memory += 1
    time.sleep(time.monotonic() - began)
"""


@contextlib.contextmanager
def neighbour(name: str) -> Iterator[None]:
    """Run a neighbour of the measurement; `none` is an idle machine. Raises TrialError if it ended by itself."""
    if name == "none":
        yield
        return
    with subprocess.Popen([sys.executable, "-c", _WALKER], stdin=subprocess.PIPE) as walker:
        try:
            yield
        finally:
            ended = walker.poll()
            assert walker.stdin is not None
            walker.stdin.close()
    if ended is not None:
        raise TrialError(f"the neighbour ended with status {ended} during the measurement")


@dataclass(frozen=True)
class Repeats:
    """The number of runs, and what varies between them: slice lengths in seconds, and names of neighbours."""

    runs: int
    sweep: Sequence[float]
    neighbours: Sequence[str]


def between(
    base: Base, *, bucket: str, repeats: Repeats, load: Load, relink: str
) -> Iterator[Planned]:
    """Plan one comparison many times; each run visits all environments, so that drift affects all of them."""
    for run in range(1, repeats.runs + 1):
        for name in repeats.neighbours:
            for seconds in repeats.sweep:
                sized = Load(load.seconds, max(load.ramp, 4 * seconds), load.blocks, seconds)
                yield Planned(
                    STUDY,
                    Common(base, bucket, sized, relink).document(
                        f"evidence-between-{bucket}-{name}-{round(seconds * 1e6)}us-{run:03d}",
                        {"glibc": SYSTEM, "jemalloc-5.1.0": JEMALLOC},
                        {"pillowfight": base.loaded(sized)},
                    ),
                    [("glibc", "jemalloc-5.1.0")],
                    PRIMARY,
                    {
                        "load_s": load.seconds,
                        "slice_s": seconds,
                        "relink": relink,
                        "neighbour": name,
                    },
                )


@dataclass(frozen=True)
class Runs:
    """The log ratios of `n` runs of a comparison. `promised` is the sd that the intervals of single runs imply."""

    n: int
    mean: float
    ci95: tuple[float, float]  # of the mean, over runs
    sd: float
    promised: float
    p: float  # that the runs differ so much if all measure one effect


def _logs(comparisons: Sequence[Comparison], metric: str) -> list[NDArray[np.float64]]:
    """Return the log ratios of each run's blocks."""
    return [
        np.log(
            np.array(comparison.values[comparison.others[0]][metric])
            / np.array(comparison.values[comparison.baseline][metric])
        )
        for comparison in comparisons
    ]


def runs_of(comparisons: Sequence[Comparison], metric: str) -> Runs:
    """Return how much the runs of a comparison differ. There must be at least two.

    The p-value is that of an F test: the variance of the runs' means against the mean variance of a run's mean, which
    its blocks give. It assumes normal blocks.
    """
    from scipy import stats

    blocks = _logs(comparisons, metric)
    means = [float(logs.mean()) for logs in blocks]
    within = float(np.mean([logs.var(ddof=1) / len(logs) for logs in blocks]))
    n, mean, sd = len(means), float(np.mean(means)), float(np.std(means, ddof=1))
    freedom = sum(len(logs) - 1 for logs in blocks)
    return Runs(
        n=n,
        mean=mean,
        ci95=t_interval(mean, sd / math.sqrt(n), n - 1, CONFIDENCE),
        sd=sd,
        promised=math.sqrt(within),
        p=float(stats.f.sf(sd**2 / within, n - 1, freedom)),
    )


def tables(results: Kept) -> str:
    """Return the table of the study, and what each neighbour changes."""
    rows = []
    groups = figures.grouped(
        results.comparisons,
        lambda comparison: (
            comparison.bucket,
            str(fact_of(comparison, "neighbour")),
            float(fact_of(comparison, "slice_s")),
        ),
    )
    repeated = {key: groups[key] for key in sorted(groups) if len(groups[key]) > 1}
    for group in repeated.values():
        for metric in PRIMARY:
            runs = runs_of(group, metric)
            low, high = (100 * math.expm1(bound) for bound in runs.ci95)
            rows.append(
                [
                    group[0].bucket,
                    str(fact_of(group[0], "neighbour")),
                    slice_text(group[0]),
                    f"`{metric}`",
                    str(runs.n),
                    minus(f"{100 * math.expm1(runs.mean):+.2f} % [{low:+.2f}, {high:+.2f}]"),
                    f"{100 * runs.sd:.2f} %",
                    f"{100 * runs.promised:.2f} %",
                    f"{runs.p:.2g}",
                ]
            )
    head = table(
        [
            "bucket",
            "neighbour",
            "slice",
            "metric",
            "runs",
            "mean of the runs",
            "sd of the runs",
            "sd that their intervals promise",
            "p",
        ],
        rows,
    )
    changes = []
    for key, group in repeated.items():
        alone = repeated.get((key[0], NEIGHBOURS[0], key[2]))
        if alone is not None and alone is not group:
            changes.append(
                f"{group[0].bucket}, slices of {slice_text(group[0])}: {_change(group, alone)}"
            )
    text = head
    if changes:
        text += (
            f"\n\n`{PRIMARY[0]}` next to the neighbour against without it: {'; '.join(changes)}."
        )
    if trends := [*_trends(repeated)]:
        text += f"\n\nChange of the effect on `{PRIMARY[0]}` when slices are twice as long: {'; '.join(trends)}."
    return text


def _trends(repeated: Mapping[tuple[object, ...], Sequence[Comparison]]) -> Iterator[str]:
    """Yield the slope of the effect over log2 of the slice length, with its interval over runs."""
    from scipy import stats

    for bucket, name in dict.fromkeys(key[:2] for key in repeated):
        points = [
            (math.log2(float(fact_of(group[0], "slice_s"))), float(logs.mean()))
            for key, group in repeated.items()
            if key[:2] == (bucket, name)
            for logs in _logs(group, PRIMARY[0])
        ]
        lengths, effects = zip(*points, strict=True)
        if len({*lengths}) < 3:
            continue
        line = stats.linregress(lengths, effects)
        low, high = t_interval(line.slope, line.stderr, len(points) - 2, CONFIDENCE)
        yield minus(
            f"{bucket}, neighbour {name}, {len({*lengths})} lengths: {100 * line.slope:+.2f} pt"
            f" [{100 * low:+.2f}, {100 * high:+.2f}], p {line.pvalue:.2g}"
        )


def _change(near: Sequence[Comparison], alone: Sequence[Comparison]) -> str:
    """Return how much the effect differs between two environments, with Welch's interval over runs."""
    from scipy import stats

    with_it, without = ([float(x.mean()) for x in _logs(g, PRIMARY[0])] for g in (near, alone))
    test = stats.ttest_ind(with_it, without, equal_var=False)
    limits = test.confidence_interval(CONFIDENCE)
    difference = float(np.mean(with_it)) - float(np.mean(without))
    mean, low, high = (100 * math.expm1(x) for x in (difference, limits.low, limits.high))
    return minus(f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}]")
