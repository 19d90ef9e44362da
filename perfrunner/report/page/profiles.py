"""The page's section of profiles: for each cell the baseline's flame graph and each arm's differential one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from perfrunner.analysis.profiles import frames
from perfrunner.report.flame import boxes, colour_of, difference_svg, flame_svg, scale_of_colours
from perfrunner.report.profiles import both_taken, how_taken, points, shares, short_name

if TYPE_CHECKING:
    from perfrunner.report.model import Report
    from perfrunner.report.profiles import CellProfiles, ProfiledArm

LEGEND_STEPS = 9


def profile_section(report: Report) -> list[dict[str, Any]]:
    """By cell; empty where nothing was profiled."""
    return [_cell(report, cell) for cell in report.profiles]


def _cell(report: Report, its: CellProfiles) -> dict[str, Any]:
    base = its.base
    label = f"Flame graph of {base.taken.variant} in {its.cell}: functions by their share of the samples"
    return {
        "cell": str(its.cell),
        "index": report.comparison.cells.index(its.cell),
        "base": base.taken.variant,
        "base_how": how_taken(base),
        "base_svg": Markup(flame_svg(frames(base.stacks, base.stacks), label)),
        "arms": [_arm(report, arm) for arm in its.arms],
    }


def _arm(report: Report, arm: ProfiledArm) -> dict[str, Any]:
    name, against = arm.arm.taken.variant, arm.base.taken.variant
    tree = frames(arm.base.stacks, arm.arm.stacks)
    full = scale_of_colours(boxes(tree))
    label = f"Differential flame graph of {name} against {against} in {arm.cell}"
    steps = [2 * step / (LEGEND_STEPS - 1) - 1 for step in range(LEGEND_STEPS)]
    return {
        "name": name,
        "arm": report.comparison.variants.index(name),
        "how": both_taken(arm),
        "svg": Markup(difference_svg(tree, label)),
        "legend": [colour_of(step) for step in steps],
        "least": points(-full),
        "most": points(full),
        "functions": [(short_name(s.function), s.function, *shares(s)) for s in arm.moved],
    }
