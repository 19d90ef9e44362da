"""The report on a terminal: verdict first, then a table a cell, then the why and the circumstances."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfrunner.report.beside_terminal import beside_section
from perfrunner.report.numbers import (
    ARROWS,
    change,
    more_text,
    p_text,
    scale_for,
    scale_of,
    spread,
    verdict_text,
)
from perfrunner.report.selection import selected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from perfrunner.analysis import Cell, Row
    from perfrunner.report.model import Report

STYLES = {
    "better": "bold green",
    "worse": "bold red",
    "same": "cyan",
    "unsure": "yellow",
    "invalid": "bold magenta",
}
WIDTH_WITHOUT_TERMINAL = 120
METRIC_WIDTH, BASE_WIDTH, ARM_WIDTH = 29, 24, 33
LEGEND = (
    "★ primary · ↑ higher is better, ↓ lower · ± half of the 95 % interval · [95 % interval of the "
    "change, paired by block] · q: p corrected for all tests · = same within the margin · "
    "? unsure (~ how many more blocks would settle it) · k, M are 1000"
)


def terminal_text(report: Report, console: Console | None, *, every: bool) -> str:
    """As the console would show it: its width, and its colours if it has any."""
    width = console.width if console is not None else WIDTH_WITHOUT_TERMINAL
    colours = console is not None and console.is_terminal and not console.no_color
    out = io.StringIO()
    target = Console(
        file=out,
        width=width,
        force_terminal=colours,
        no_color=not colours,
        color_system="auto" if colours else None,
        highlight=False,
        legacy_windows=False,
    )
    for part in _parts(report, width, every=every):
        target.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(report: Report, width: int, *, every: bool) -> Iterable[RenderableType]:
    yield Text(report.experiment.name, style="bold")
    for sentence in report.headline:
        yield Padding(Text(sentence, style="bold"), (0, 0, 0, 2))
    for warning in report.warnings:
        yield Padding(Text(f"! {warning}", style="yellow"), (0, 0, 0, 2))
    yield _context(report)
    for cell in report.comparison.cells:
        yield from _cell_tables(report, cell, width, every=every)
    yield Text(LEGEND, style="dim")
    yield from beside_section(report)
    yield from _lists(report)
    yield Text(f"reproduce: {report.reproduce}", style="dim", overflow="fold")


def _context(report: Report) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for fact in report.context:
        grid.add_row(fact.label, escape(fact.value))
    return Padding(grid, (1, 0, 0, 2))


def _cell_tables(
    report: Report, cell: Cell, width: int, *, every: bool
) -> Iterable[RenderableType]:
    groups, left_out = selected(report, cell, every=every)
    if not groups:
        yield Text(f"\n{cell}: no trial counts", style="bold")
        return
    comparison = report.comparison
    others = [
        v
        for v in comparison.variants[1:]
        if any(r.variant == v for g in groups.values() for r in g)
    ]
    fit = max(1, (width - METRIC_WIDTH - BASE_WIDTH) // ARM_WIDTH)
    chunks = [others[i : i + fit] for i in range(0, len(others), fit)] or [[]]
    n = max((row.summary.n for g in groups.values() for row in g), default=0)
    for index, chunk in enumerate(chunks):
        title = f"{cell} · {n} block{'' if n == 1 else 's'}"
        if len(chunks) > 1:
            title += f" ({index + 1}/{len(chunks)})"
        yield Text()
        yield Text(title, style="bold")
        yield _table(groups, comparison.baseline, chunk)
    if left_out:
        yield Text(f"{left_out} metrics without a clear change are not shown: --all", style="dim")


def _table(groups: dict[str, list[Row]], baseline: str, arms: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("metric", overflow="fold")
    table.add_column(escape(baseline), overflow="fold")
    for arm in arms:
        table.add_column(escape(arm), overflow="fold")
    for rows in groups.values():
        found = {row.variant: row for row in rows}
        if not found.keys() & {baseline, *arms}:
            continue
        arms_found = (_arm(found.get(v), rows) for v in (baseline, *arms))
        table.add_row(_name(rows[0]), *arms_found)
    return table


def _name(row: Row) -> Text:
    text = Text(f"{row.metric.id} {ARROWS[row.metric.direction]}")
    if row.primary:
        text.append(" ★", style="yellow")
    return text


def _arm(row: Row | None, rows: list[Row]) -> RenderableType:
    if row is None:
        return Text("not given", style="dim")
    scale = scale_for(row, rows)
    value = Text(f"{scale.text(row.summary.mean)} ")
    value.append(spread(row.summary, row.metric, scale), style="dim")
    if row.effect is None:
        return Group(value, Text(row.reason, style="magenta")) if row.reason else value
    style = STYLES.get(row.verdict or "", "")
    second = Text(change(row.effect, row.metric, scale), style=style)
    if row.verdict is not None:
        value.append(f" {verdict_text(row)}", style=style)
    if row.verdict == "unsure":
        second.append(f" {more_text(row)}", style="dim")
    elif row.effect.q is not None and row.verdict in ("better", "worse"):
        second.append(f" {p_text('q', row.effect.q)}", style="dim")
    return Group(value, second)


def _lists(report: Report) -> Iterable[RenderableType]:
    if report.moved:
        yield Text("\nwhat moved with it (clearest first)", style="bold")
        for moved in report.moved:
            changes = [
                f"{r.metric.id} {change(r.effect, r.metric, scale_of(r.metric, r.summary.mean))}"
                for r in moved.rows
                if r.effect is not None
            ]
            more = f"; {moved.more} more" if moved.more else ""
            yield Padding(
                Text(f"{moved.variant} · {moved.cell}: {'; '.join(changes)}{more}"), (0, 0, 0, 2)
            )
    for title, lines in (
        ("what was built", [f"{fact.label}: {fact.value}" for fact in report.sources]),
        ("how it was measured", [f"{fact.label}: {fact.value}" for fact in report.method]),
        ("not the same for all arms", report.differing),
        ("notes", report.notes),
        ("void trials (their blocks were redone or left out, all arms alike)", _voids(report)),
    ):
        if lines:
            yield Text(f"\n{title}", style="bold")
            for line in lines:
                yield Padding(Text(line), (0, 0, 0, 2))
    if report.minor_notes:
        yield Text(
            f"\n{len(report.minor_notes)} notes on exploratory metrics: --format json", style="dim"
        )
    yield Text()


def _voids(report: Report) -> list[str]:
    return [
        f"block {v.block}{f' attempt {v.attempt}' if v.attempt > 1 else ''}, {v.cell}, {v.variant}: "
        f"{v.status}: {v.reason}"
        for v in report.comparison.voids
    ]
