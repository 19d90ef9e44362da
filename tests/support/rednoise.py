"""The noise of a shared machine, simulated: red, as it was measured on a virtual machine of two CPUs.

Log rate of a fixed load over a megabyte of memory: a sum of Ornstein-Uhlenbeck processes. Their spreads and time
constants were fitted to what 8 s of it showed in windows of several lengths (MEASURED): four of them are within 2 % of
the overall spread and within 7 % of the spread from window to window (tests/unit/analysis/test_red_noise.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal

Array = NDArray[np.float64]

# Window in seconds, sd of a window's log rate, sd of the log ratio of two neighbouring windows.
MEASURED = (
    (0.0001, 0.208, 0.136),
    (0.0014, 0.169, 0.101),
    (0.0055, 0.155, 0.078),
    (0.022, 0.146, 0.072),
    (0.089, 0.134, 0.105),
    (0.355, 0.116, 0.095),
)
# Time constant in seconds, sd: core and caches from one batch to the next, then neighbours on the host.
COMPONENTS = ((0.00005, 0.152), (0.001, 0.092), (0.1, 0.119), (10.0, 0.086))


def window_sd(seconds: float) -> float:
    """Return the sd of the mean log rate over a window."""
    return float(np.sqrt(sum(_variance(tau, sd, seconds) for tau, sd in COMPONENTS)))


def neighbour_sd(seconds: float) -> float:
    """Return the sd of the difference of two neighbouring windows."""
    difference = 0.0
    for tau, sd in COMPONENTS:
        x = seconds / tau
        covariance = sd**2 * ((1 - np.exp(-x)) / x) ** 2
        difference += 2 * (_variance(tau, sd, seconds) - covariance)
    return float(np.sqrt(difference))


def noise(rng: np.random.Generator, step: float, shape: tuple[int, ...]) -> Array:
    """Return log rates in steps of `step` seconds along the last axis; independent along the others."""
    total: Any = 0.0
    for tau, sd in COMPONENTS:
        rho = float(np.exp(-step / tau))
        own = np.sqrt(_variance(tau, sd, step))
        shocks = rng.standard_normal(shape) * own * np.sqrt(1 - rho**2)
        shocks[..., 0] = rng.standard_normal(shape[:-1]) * own  # it began long ago
        total = total + signal.lfilter([1.0], [1.0, -rho], shocks, axis=-1)
    return np.asarray(total)


def in_turns(
    rng: np.random.Generator, blocks: int, variants: int, seconds: float, slice_s: float
) -> Iterator[Array]:
    """Yield the log rates of a group for each block, shape (rounds, variants), with a new random order.

    `seconds` is the load of one variant. A slice is averaged over pieces of a millisecond where it is longer.
    """
    pieces = max(1, round(slice_s / 0.001))
    rounds = round(seconds / slice_s)
    run = noise(rng, slice_s / pieces, (blocks, rounds * variants * pieces))
    slices = np.log(np.exp(run.reshape(blocks, rounds, variants, pieces)).mean(axis=-1))
    for block in slices:
        yield np.take_along_axis(
            block, rng.permuted(np.tile(np.arange(variants), (rounds, 1)), axis=1), 1
        )


def one_by_one(rng: np.random.Generator, blocks: int, variants: int, seconds: float) -> Array:
    """Return log rates, shape (blocks, variants), of successive trials of `seconds` of load with rests of 3 s."""
    step = 0.25
    load, rest = round(seconds / step), round(3 / step)
    run = noise(rng, step, (blocks * variants * (load + rest),))
    trials = run.reshape(blocks, variants, load + rest)[..., :load]
    results = np.log(np.exp(trials).mean(axis=-1))
    return np.take_along_axis(
        results, rng.permuted(np.tile(np.arange(variants), (blocks, 1)), axis=1), 1
    )


def _variance(tau: float, sd: float, seconds: float) -> float:
    """Return the variance of a window's mean of one process."""
    x = seconds / tau
    return float(sd**2 * 2 * (x - 1 + np.exp(-x)) / x**2)
