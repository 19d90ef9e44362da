"""The slices of a trial that ran side by side, from its raw files; and as a rate over time."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfrunner.errors import TrialError
from perfrunner.measure.turns import Slices, read_slices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfrunner.analysis import Cell
    from perfrunner.results.records import TrialRecord

SLICES_FILE = "slices.json"
LONG, SHORT = 1.0, 0.1  # seconds of a bin; the short ones where the long would be fewer than
FEW = 10


@dataclass(frozen=True)
class Turn:
    """One arm's slices in one block."""

    cell: Cell
    block: int
    ensemble: int
    variant: str
    slices: Slices


def read_turn(files: Mapping[str, Path], cell: Cell, trial: TrialRecord) -> Turn | None:
    """None of a trial that ran alone. TrialError or OSError where one that did not has no slices to read."""
    if "context" in trial.facts:  # of a benchmark program, which keeps its rounds in its own report
        return None
    if trial.facts.get("schedule") != "side-by-side" and SLICES_FILE not in files:
        return None
    return Turn(cell, trial.block, trial.ensemble, trial.variant, slices_in(files))


def slices_in(files: Mapping[str, Path]) -> Slices:
    """Of the trial with these raw files. TrialError or OSError where there is not one round to read."""
    path = files.get(SLICES_FILE)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), SLICES_FILE)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TrialError(f"{SLICES_FILE}: no JSON ({error})") from None
    if not isinstance(document, dict):
        raise TrialError(f"{SLICES_FILE}: no slices")
    slices = read_slices(document, SLICES_FILE)
    if not len(slices.ops):
        raise TrialError(f"{SLICES_FILE}: not one round")
    return slices


def rate_points(slices: Slices) -> list[tuple[float, float]]:
    """(seconds in turn, operations a second of them): what the arm did while the load was on it."""
    ends = np.cumsum(slices.wall_ns) * 1e-9
    width = LONG if ends[-1] >= FEW * LONG else SHORT
    bins = ((ends - slices.wall_ns * 0.5e-9) / width).astype(np.int64)
    ops = np.bincount(bins, slices.ops)
    seconds = np.bincount(bins, slices.wall_ns * 1e-9)
    whole = seconds >= width / 2  # the last bin is usually a partial one
    if not whole.any():
        return [(float(ends[-1]), float(slices.ops.sum() / ends[-1]))]
    return [(float((n + 1) * width), float(ops[n] / seconds[n])) for n in np.flatnonzero(whole)]
