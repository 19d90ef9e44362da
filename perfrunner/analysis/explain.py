"""Compare where two variants spend their CPU time, from a CPU profile of every block.

    explain(blocks) -> Explanation: a row per function whose CPU per operation could be compared

The CPU time of a function per operation is its share of the samples times the CPU time of the server per operation,
which its clock measures exactly. Time in the kernel counts for the function of the program that entered it: kernel
code is the same for both variants, and the caller says why it runs. Both variants of a block ran at the same time or
one after the other, so the differences within blocks are tested, with a moderated t test over blocks. The variance
is at least that of the counted samples (binomial), since a few rare samples can agree by chance. Functions with few
samples are not tested one by one; the number of samples of both variants together does not favour either of them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from perfrunner.analysis.estimate import adjust
from perfrunner.analysis.inference import special, t_critical
from perfrunner.analysis.model import ALPHA
from perfrunner.measure.cpu_profile import CPU_TIME, EVENTS, KERNEL_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfrunner.analysis.model import Interval
    from perfrunner.measure.cpu_profile import Folded, Stack

    Array = NDArray[np.float64]

FEWEST_SAMPLES = 20  # of a function, of both variants in all blocks
FEWEST_BLOCKS = 3
FEWEST_COLUMNS = 10  # from which variances of functions borrow strength from each other
SMALLEST_RATIO = 1e-5  # of variances, so that none is zero
MOST_FREEDOM = 1000.0  # more degrees of freedom change nothing
KERNEL = "[kernel]"  # samples in the kernel without a function of the program


class Place(NamedTuple):
    """A function on the threads of one kind, such as `front-end`."""

    thread: str
    function: str


K = TypeVar("K", Place, str)


@dataclass(frozen=True)
class ProfiledTrial:
    """The profile of a trial and its CPU time per operation in µs (1 if unknown: all values are shares).

    `events` are hardware events and CPU time in ns (`cpu_profile.CPU_TIME`) during the profile.
    """

    stacks: Folded
    cpu: float
    events: Mapping[str, float]


@dataclass(frozen=True)
class Change:
    """A mean of both variants and the mean difference over blocks, in the unit of `ProfiledTrial.cpu`.

    `samples` is the sum of both variants, `q` the p value corrected for all tests of its table. The interval of a
    function that was selected because it changed is adjusted for the selection (false coverage rate).
    """

    base: float
    variant: float
    difference: float
    ci95: Interval
    p: float
    q: float
    samples: int = 0

    @property
    def changed(self) -> bool:
        """True if the difference is significant at a false discovery rate of 5 %."""
        return self.q <= ALPHA


@dataclass(frozen=True)
class EventRow:
    """A hardware event per operation (`ipc`: instructions per cycle)."""

    event: str
    change: Change


@dataclass(frozen=True)
class Explanation:
    """The difference between two variants, by thread and function; significant changes first, by size.

    `rare` is the change in functions with fewer than FEWEST_SAMPLES samples, which were not tested, and
    `rare_functions` their number. `events` is empty if the hosts count no hardware events.
    """

    blocks: int
    samples: int
    total: Change
    threads: Mapping[str, Change]
    functions: Mapping[Place, Change]
    rare: float
    rare_functions: int
    events: tuple[EventRow, ...]

    @property
    def changed(self) -> dict[Place, Change]:
        """The functions that changed, the largest change first."""
        return {place: change for place, change in self.functions.items() if change.changed}


def owner(stack: Stack) -> Place:
    """Return the innermost function of the program in a stack, which is charged with the kernel's time."""
    thread, *frames = stack
    for frame in reversed(frames):
        if not frame.endswith(KERNEL_MARK):
            return Place(thread, frame)
    return Place(thread, KERNEL)


def samples_by_place(stacks: Folded) -> Counter[Place]:
    """Return the samples of each function itself, without its callees."""
    counts: Counter[Place] = Counter()
    for stack, count in stacks.counts.items():
        counts[owner(stack)] += count
    return counts


def explain(blocks: Sequence[tuple[ProfiledTrial, ProfiledTrial]]) -> Explanation:
    """Compare the second trial of each block with the first. Raises ValueError for fewer than FEWEST_BLOCKS."""
    if len(blocks) < FEWEST_BLOCKS:
        raise ValueError(f"{len(blocks)} blocks: expected at least {FEWEST_BLOCKS}")
    profiles = [_Profiles.of(side) for side in zip(*blocks, strict=True)]
    base, variant = profiles
    functions = _compared(base, variant, lambda place: place)
    threads = _compared(base, variant, lambda place: place.thread)
    total = _changes(base.cpu[:, None], variant.cpu[:, None])
    order = sorted(
        functions.tested,
        key=lambda place: (
            not functions.tested[place].changed,
            -abs(functions.tested[place].difference),
            place,
        ),
    )
    return Explanation(
        blocks=len(blocks),
        samples=int(base.samples.sum() + variant.samples.sum()),
        total=total[0],
        threads=threads.tested,
        functions={place: functions.tested[place] for place in order},
        rare=functions.rare,
        rare_functions=functions.rare_keys,
        events=_events(blocks),
    )


@dataclass(frozen=True)
class _Profiles:
    """The profiles of one variant, with an entry for each block."""

    places: Sequence[Mapping[Place, int]]
    samples: Array
    cpu: Array

    @classmethod
    def of(cls, trials: Sequence[ProfiledTrial]) -> _Profiles:
        places = [samples_by_place(trial.stacks) for trial in trials]
        if not all(places):
            raise ValueError("a profile without samples")
        return cls(
            places,
            np.array([float(counts.total()) for counts in places]),
            np.array([trial.cpu for trial in trials]),
        )

    def counts(self, keys: Mapping[K, int], by: Callable[[Place], K]) -> Array:
        """Return the samples by block and key."""
        counts = np.zeros((len(self.places), len(keys)))
        for block, places in enumerate(self.places):
            for place, count in places.items():
                counts[block, keys[by(place)]] += count
        return counts


@dataclass(frozen=True)
class _Compared(Generic[K]):
    """The tested keys, and the sum of the changes of the others."""

    tested: dict[K, Change]
    rare: float
    rare_keys: int


def _compared(base: _Profiles, variant: _Profiles, by: Callable[[Place], K]) -> _Compared[K]:
    """Compare the samples of two variants, grouped by a key of their places."""
    both = (*base.places, *variant.places)
    keys = {
        key: n for n, key in enumerate(sorted({by(place) for places in both for place in places}))
    }
    counts = [side.counts(keys, by) for side in (base, variant)]
    weights = [(side.cpu / side.samples)[:, None] for side in (base, variant)]
    x, y = (count * weight for count, weight in zip(counts, weights, strict=True))
    total = counts[0].sum(axis=0) + counts[1].sum(axis=0)
    common = total >= FEWEST_SAMPLES
    luck = np.zeros(len(keys))
    for count, weight in zip(counts, weights, strict=True):
        share = count.sum(axis=0) / count.sum()
        rate = count.sum(axis=0) / (1 / weight).sum()
        # Of samples that are all in one function, none can be elsewhere by chance.
        luck += rate * weight.sum() / len(base.cpu) * np.maximum(1 - share, SMALLEST_RATIO)
    changes = _changes(x[:, common], y[:, common], luck[common], total[common])
    names = [key for key, n in keys.items() if common[n]]
    return _Compared(
        dict(zip(names, changes, strict=True)),
        float((y - x)[:, ~common].sum(axis=1).mean()),
        int((~common).sum()),
    )


def _changes(
    x: Array, y: Array, luck: Array | None = None, samples: Array | None = None
) -> list[Change]:
    """Test the mean differences of columns over blocks; `luck` is the least variance of a difference."""
    n, columns = x.shape
    d = y - x
    mean = d.mean(axis=0)
    variance, freedom = d.var(axis=0, ddof=1), float(n - 1)
    if luck is not None and columns:
        variance, freedom = moderated(variance, luck, n - 1)
    error = np.sqrt(variance / n)
    still = np.where(mean == 0, 0.0, np.inf)
    t = np.divide(np.abs(mean), error, out=still, where=error > 0)
    p = 2 * special().stdtr(freedom, -t)
    q = adjust(p.tolist())
    changed = np.asarray(q, dtype=float) <= ALPHA
    # Intervals of selected rows: of all that are selected so, 95 % hold the truth (Benjamini and Yekutieli 2005).
    level = np.where(changed, ALPHA * changed.mean() if columns else ALPHA, ALPHA)
    half = t_critical(level / 2, freedom) * error
    return [
        Change(
            base=float(x[:, k].mean()),
            variant=float(y[:, k].mean()),
            difference=float(mean[k]),
            ci95=(float(mean[k] - half[k]), float(mean[k] + half[k])),
            p=float(p[k]),
            q=q[k],
            samples=0 if samples is None else int(samples[k]),
        )
        for k in range(columns)
    ]


def moderated(variance: Array, luck: Array, freedom: int) -> tuple[Array, float]:
    """Return variances of columns that borrow strength from each other, and their degrees of freedom.

    The variances of few blocks are themselves uncertain, and the smallest of many are small by chance. So each is
    averaged with what the others have relative to `luck`, their counting variance. The weight follows from how much
    the ratios differ (Smyth 2004, "moderated t"). No result is less than the column's own variance or its `luck`.
    """
    if len(variance) < FEWEST_COLUMNS:
        return np.maximum(variance, luck), float(freedom)
    ratio = variance / luck
    ratio = np.maximum(ratio, SMALLEST_RATIO * np.median(ratio))
    half = freedom / 2
    logs = np.log(ratio) - special().digamma(half) + math.log(half)
    excess = float(logs.var(ddof=1)) - float(special().polygamma(1, half))
    prior = 2 * _trigamma_inverse(excess) if excess > 0 else math.inf
    prior = min(prior, MOST_FREEDOM)
    typical = math.exp(
        float(logs.mean()) + float(special().digamma(prior / 2)) - math.log(prior / 2)
    )
    pooled = (prior * max(1.0, typical) * luck + freedom * variance) / (prior + freedom)
    return np.maximum(np.maximum(pooled, variance), luck), prior + freedom


def _trigamma_inverse(value: float) -> float:
    """Return x > 0 with trigamma(x) = value; trigamma falls from infinity to zero."""
    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        if special().polygamma(1, middle) > value:
            low = middle
        else:
            high = middle
    return low


IPC = "ipc"


def _events(blocks: Sequence[tuple[ProfiledTrial, ProfiledTrial]]) -> tuple[EventRow, ...]:
    """Compare the hardware events that all trials counted."""
    figures = [tuple(_per_op(trial) for trial in pair) for pair in blocks]
    names = [
        name
        for name in (*EVENTS, IPC)
        if all(name in figures_of for pair in figures for figures_of in pair)
    ]
    if not names:
        return ()
    x, y = (np.array([[pair[side][name] for name in names] for pair in figures]) for side in (0, 1))
    return tuple(map(EventRow, names, _changes(x, y)))


def _per_op(trial: ProfiledTrial) -> dict[str, float]:
    """Return the events per operation (without CPU per operation: per µs of CPU), and instructions per cycle."""
    ns = trial.events.get(CPU_TIME, 0.0)
    counted = {name: trial.events[name] for name in EVENTS if name in trial.events}
    if not ns:
        return {}
    per_op = {name: 1e3 * trial.cpu * count / ns for name, count in counted.items()}
    if counted.get("cycles") and "instructions" in counted:
        per_op[IPC] = counted["instructions"] / counted["cycles"]
    return per_op
