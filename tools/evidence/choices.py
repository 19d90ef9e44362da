"""Simulate alternatives to blocks and Student's t intervals: `scripts/evidence simulate --only choices`."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tools.evidence.cells import table
from tools.evidence.draws import BLOCKS, SEED, Array, Draw, effects_of, share_text

SAMPLES = 100  # in a trial
LEVEL = 0.05
SPREAD = 0.01  # of a trial
DRIFT = 0.005  # spread of the steps of a random walk, from trial to trial


def choices(runs: int = 4000) -> str:
    """Return how often the alternatives see a change of nothing, or exclude the truth, next to the blocks and t."""
    rows = [
        *(_pooled(runs, ratio) for ratio in (0.2, 0.5, 1.0)),
        *(_in_a_row(runs, blocks) for blocks in (5, 10, 20)),
        *(
            _bootstrap(runs, method, name, blocks)
            for method in ("percentile", "BCa")
            for name in NOISES
            for blocks in (5, 10)
        ),
    ]
    return table(["alternative", "noise", "blocks", "alarms", "of blocks and t intervals"], rows)


def _pooled(runs: int, ratio: float) -> list[str]:
    """Compare all samples of two variants, whose processes differ by `ratio` of the spread of samples."""
    rng = np.random.default_rng(SEED)
    processes = rng.normal(0, ratio * SPREAD, (2, runs, BLOCKS, 1))
    a, b = processes + rng.normal(0, SPREAD, (2, runs, BLOCKS, SAMPLES))
    p = stats.ttest_ind(a.reshape(runs, -1), b.reshape(runs, -1), axis=1).pvalue
    noise = f"processes differ by {ratio:g} of the spread of samples"
    return _row(f"{SAMPLES} samples of each trial, pooled", noise, p, (b - a).mean(axis=2))


def _in_a_row(runs: int, blocks: int) -> list[str]:
    """Compare A A A… with B B B… under drift; in blocks, the order within each is random."""
    rng = np.random.default_rng(SEED)
    host = rng.normal(0, DRIFT, (runs, 2 * blocks)).cumsum(axis=1)
    trials = host + rng.normal(0, SPREAD, (runs, 2 * blocks))
    p = stats.ttest_ind(trials[:, :blocks], trials[:, blocks:], axis=1).pvalue
    ratios = trials[:, 1::2] - trials[:, ::2]
    swapped = rng.choice([-1.0, 1.0], ratios.shape)
    noise = f"the host drifts by {DRIFT / SPREAD:g} of the spread from trial to trial"
    return _row("A A A… B B B…", noise, p, ratios * swapped)


def _skewed(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.asarray(rng.lognormal(0, 0.5, shape) - np.exp(0.125))


NOISES: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "skewed": _skewed,
}


def _bootstrap(runs: int, method: str, name: str, blocks: int) -> list[str]:
    """Compare a bootstrap interval with that of a report, for the same blocks."""
    rng = np.random.default_rng(SEED)
    values = SPREAD * NOISES[name](rng, (runs, blocks))
    interval = stats.bootstrap(
        (values,), np.mean, axis=1, vectorized=True, n_resamples=999, batch=100, method=method,
        random_state=rng,
    ).confidence_interval  # fmt: skip
    excluded = (interval.low > 0) | (interval.high < 0)
    return _row(f"{method} bootstrap", name, np.where(excluded, 0.0, 1.0), values)


def _row(alternative: str, noise: str, p: Array, ratios: Array) -> list[str]:
    tests = [effect.p for effect in effects_of(ratios)]
    ours = np.mean([own is not None and own <= LEVEL for own in tests])
    shares = [share_text(float(share)) for share in (np.mean(p <= LEVEL), ours)]
    return [alternative, noise, str(ratios.shape[1]), *shares]
