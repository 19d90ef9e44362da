"""What a report says of profiles: each arm against the baseline, and the functions that moved most."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.analysis import Cell
from perfrunner.analysis.profiles import FunctionShare, by_chance, most_moved
from perfrunner.errors import TrialError
from perfrunner.report.numbers import minus
from perfrunner.results.profiles import arm_profiles, read_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.measure.folded import Folded
    from perfrunner.results import ExperimentData
    from perfrunner.results.profiles import ArmProfile

TYPICAL_SHARE = 0.1  # at which the luck of sampling is told
LONGEST_NAME = 72  # of a function in a table; its whole name is told beside it
ONE_SAMPLE = (
    "A profile is one sample of each arm, taken once after the last trial: shares have no interval here, and a"
    " difference is no verdict."
)
_INNERMOST = re.compile(r"<[^<>]*>")  # arguments of a template that hold none themselves
_EMPTIED = "\0"
_ARROW, _ARROW_KEPT = "operator->", "operator\1"  # no template's end


@dataclass(frozen=True)
class Profile:
    """One arm's, and how it was taken."""

    taken: ArmProfile
    stacks: Folded


@dataclass(frozen=True)
class ProfiledArm:
    """An arm beside the baseline of the same ensemble; `moved` are functions, the largest difference first."""

    cell: Cell
    base: Profile
    arm: Profile
    moved: tuple[FunctionShare, ...]


@dataclass(frozen=True)
class CellProfiles:
    """The profiles of a cell: the baseline's, and each other arm against it."""

    cell: Cell
    base: Profile
    arms: tuple[ProfiledArm, ...]


def cell_profiles(
    data: ExperimentData, cells: Sequence[Cell], variants: Sequence[str]
) -> tuple[tuple[CellProfiles, ...], tuple[str, ...]]:
    """Of the cells and variants of a report (the first is the baseline), and a line for each that cannot be read."""
    unread: list[str] = []
    read: dict[tuple[Cell, str, int], Profile] = {}
    for taken in arm_profiles(data):
        cell = Cell(taken.workload, taken.bucket)
        if cell not in cells or taken.variant not in variants or taken.status != "ok":
            continue
        try:
            read[cell, taken.variant, taken.ensemble] = Profile(taken, read_profile(data, taken))
        except TrialError as error:
            unread.append(f"the profile of {taken.variant} in {cell} cannot be read: {error}")
    found = (_cell(cell, read, variants) for cell in cells)
    return tuple(its for its in found if its is not None), tuple(unread)


def _cell(
    cell: Cell, read: dict[tuple[Cell, str, int], Profile], variants: Sequence[str]
) -> CellProfiles | None:
    baseline, *others = variants
    of_base = {e: p for (c, variant, e), p in read.items() if (c, variant) == (cell, baseline)}
    if not of_base:
        return None
    first = next(iter(of_base.values()))
    arms = []
    for variant in others:
        of_arm = {e: p for (c, name, e), p in read.items() if (c, name) == (cell, variant)}
        for ensemble, arm in of_arm.items():
            base = of_base.get(ensemble, first)
            arms.append(ProfiledArm(cell, base, arm, most_moved(base.stacks, arm.stacks)))
    return CellProfiles(cell, first, tuple(arms))


def how_taken(profile: Profile) -> str:
    """Samples, event and rate in a line."""
    taken = profile.taken
    text = f"{taken.variant}: {taken.samples} samples of {taken.event} at {taken.frequency} Hz"
    return f"{text}, cut short: more samples than are kept" if taken.cut_short else text


def both_taken(arm: ProfiledArm) -> str:
    """How both were, and which differences are too small to be looked at."""
    luck = by_chance(arm.base.stacks.samples, arm.arm.stacks.samples, TYPICAL_SHARE)
    return (
        f"{how_taken(arm.arm)}; {how_taken(arm.base)}. So few samples differ by up to {_hundredths(luck)} points by"
        f" luck alone where the shares are {100 * TYPICAL_SHARE:g} %"
    )


def shares(share: FunctionShare) -> tuple[str, str, str]:
    """Baseline, arm and difference, as texts: percent and percentage points."""
    return (
        percent_of(share.base),
        percent_of(share.arm),
        points(share.difference),
    )


def percent_of(share: float) -> str:
    """0.1234 as `12.3 %`; a share that none of the samples has as `-`."""
    return f"{_hundredths(share)} %" if share else "-"


def points(difference: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    text = _hundredths(abs(difference))
    return f"+{text}" if difference > 0 else minus(f"-{text}")


def _hundredths(share: float) -> str:
    return f"{100 * share:.{1 if share >= 0.01 else 2}f}"


def short_name(function: str, most: int = LONGEST_NAME) -> str:
    """A function's name for a line: template arguments go first, then what does not fit."""
    if len(function) <= most:
        return function
    name = function.replace(_ARROW, _ARROW_KEPT)
    while (inner := _INNERMOST.sub(_EMPTIED, name)) != name:
        name = inner
    name = name.replace(_EMPTIED, "<>").replace(_ARROW_KEPT, _ARROW)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def profile_records(profiles: Iterable[CellProfiles]) -> list[dict[str, Any]]:
    """For the JSON document."""
    return [
        {
            "workload": arm.cell.workload,
            "bucket": arm.cell.bucket,
            "variant": arm.arm.taken.variant,
            "baseline": arm.base.taken.variant,
            "event": arm.arm.taken.event,
            "frequency": arm.arm.taken.frequency,
            "samples": arm.arm.taken.samples,
            "baseline_samples": arm.base.taken.samples,
            "directory": arm.arm.taken.directory,
            "baseline_directory": arm.base.taken.directory,
            "functions": [
                {
                    "function": share.function,
                    "baseline_self_share": share.base,
                    "self_share": share.arm,
                    "difference": share.difference,
                }
                for share in arm.moved
            ],
        }
        for cell in profiles
        for arm in cell.arms
    ]
