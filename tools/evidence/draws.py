"""Draw values and compute their effects, for the simulations of `scripts/evidence simulate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perfrunner.analysis.estimate import Pairing, paired_effects
from perfrunner.analysis.model import Effect

Array: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, int]], Array]

SEED = 20261130
MARGIN = 0.01
BLOCKS = 10


def effects_of(values: Sequence[Array] | Array) -> list[Effect]:
    """Return the effect of each row of log ratios, as that of a report with one test."""
    pairings = []
    for row in values:
        other = dict(enumerate(np.exp(row).tolist()))
        pairings.append(Pairing("ratio", dict.fromkeys(other, 1.0), other, MARGIN))
    effects = paired_effects("good", pairings)
    return [replace(e, q=e.p) for e in effects if isinstance(e, Effect)]


def share_text(share: float, digits: int = 0) -> str:
    """Return a share as per cent: `5.4 %`."""
    return f"{100 * share:.{digits}f} %"
