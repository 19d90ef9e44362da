"""Report a bisection: its finding, its steps as a table, and a chart of all steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfrunner.report.charts.style import (
    FAINT,
    INK,
    VERDICT,
    drawing,
    new_figure,
    png_bytes,
    svg_bytes,
)
from perfrunner.report.numbers import minus, significant
from perfrunner.report.published import plain
from perfrunner.report.redact import hidden

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.bisect.search import BisectState, Step

COLOURS = {"good": VERDICT["same"], "bad": VERDICT["worse"], "skip": FAINT}
MARKS = {"good": "o", "bad": "s", "skip": "x"}


def redacted_state(state: BisectState) -> BisectState:
    """Redact the reasons of skipped commits, which often contain paths and addresses."""
    return replace(state, steps=[replace(step, why=hidden(step.why)) for step in state.steps])


def finding(
    state: BisectState, culprits: Sequence[str], titles: dict[str, str], *, left: int
) -> str:
    """Return the finding as a sentence."""
    end = next((s for s in state.steps if s.outcome == "bad"), None)
    whole = "" if end is None else f" ({effect_text(state, end)} in total)"
    if left:
        return f"{state.metric}: not found yet, about {left} steps remain"
    if len(culprits) == 1:
        return f"{state.metric} changed{whole} at {culprits[0][:12]} {titles[culprits[0]]}"
    names = ", ".join(f"{commit[:12]} {titles[commit]}" for commit in culprits)
    return (
        f"{state.metric} changed{whole} at one of {len(culprits)} commits"
        f" (all but the newest were skipped): {names}"
    )


def effect_text(state: BisectState, step: Step) -> str:
    """Return the effect of a step: `-3.0 % [-3.2, -2.8]`; empty if nothing was measured."""
    if step.estimate is None:
        return ""
    ends = [bound for bound in (step.low, step.high) if bound is not None]
    if state.kind == "ratio":
        shown = [f"{100 * (value - 1):+.2f}" for value in (step.estimate, *ends)]
        unit = " %"
    else:
        shown = [f"{'+' if v >= 0 else ''}{significant(v, 3)}" for v in (step.estimate, *ends)]
        unit = ""
    interval = f" [{', '.join(shown[1:])}]" if ends else ""
    return minus(f"{shown[0]}{unit}{interval}")


def markdown(state: BisectState, sentence: str, chart: str) -> str:
    """Return a Markdown page: the finding, the chart (a file name), and the steps in their order."""
    lines = [
        f"# Bisection of {state.metric}",
        "",
        f"**{plain(sentence)}**",
        "",
        f"good {state.good[:12]}, bad {state.bad[:12]}, spec {state.spec}",
        "",
        f"![{state.metric} against the good end, commit by commit]({chart})",
        "",
        "| step | commit | title | outcome | change | verdict | blocks | experiment, or reason |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for number, step in enumerate(state.steps, start=1):
        entries = (
            str(number), f"`{step.commit[:12]}`", plain(step.title), step.outcome, effect_text(state, step),
            step.verdict or "", str(step.blocks or ""), plain(step.why or step.experiment or ""),
        )  # fmt: skip
        lines.append(f"| {' | '.join(entries)} |")
    return "\n".join(lines) + "\n"


def draw(state: BisectState, order: Sequence[str]) -> tuple[bytes, bytes]:
    """Draw the change of every step with its interval, oldest commit first; return SVG and PNG."""
    with drawing():
        steps = sorted(state.steps, key=lambda step: order.index(step.commit))
        figure = new_figure(1.2 + 0.3 * len(steps))
        axes = figure.subplots()
        for index, step in enumerate(steps):
            _draw_step(axes, state, step, len(steps) - 1 - index)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(
            range(len(steps)),
            [f"{s.commit[:7]} {s.title[:44]}" for s in reversed(steps)],
        )
        unit = ", %" if state.kind == "ratio" else ""
        axes.set_xlabel(
            f"{state.metric} against {state.good[:7]} (good){unit}, with 95 % intervals"
        )
        axes.set_title("oldest commit first")
        for outcome, colour in COLOURS.items():
            axes.plot([], [], MARKS[outcome], color=colour, label=outcome)
        axes.legend(loc="best")
        return svg_bytes(figure), png_bytes(figure)


def _draw_step(axes: Any, state: BisectState, step: Step, y: int) -> None:
    def position(value: float) -> float:
        return 100 * (value - 1) if state.kind == "ratio" else value

    colour = COLOURS[step.outcome]
    if step.estimate is None:
        axes.plot([0], [y], MARKS[step.outcome], color=colour)
        return
    if step.low is not None and step.high is not None:
        axes.plot([position(step.low), position(step.high)], [y, y], color=colour, linewidth=1.6)
    axes.plot([position(step.estimate)], [y], MARKS[step.outcome], color=colour)
