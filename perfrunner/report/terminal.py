"""The report on a terminal: the sentences, then one table; the why and the circumstances when asked for."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from perfrunner.report.beside_terminal import beside_section
from perfrunner.report.names import folded
from perfrunner.report.noise import NOISE_FLOOR
from perfrunner.report.numbers import (
    ARROWS,
    MARKS,
    change,
    mean_text,
    more_text,
    p_text,
    scale_for,
    scale_of,
    spread,
)
from perfrunner.report.profiles import points, short_name
from perfrunner.report.selection import primary_rows, selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from perfrunner.analysis import Cell, Row
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale

STYLES = {
    "better": "bold green",
    "worse": "bold red",
    "same": "cyan",
    "unsure": "yellow",
    "invalid": "bold magenta",
}
WIDTH_WITHOUT_TERMINAL = 120
MOST_FUNCTIONS = 3  # of a profile; Markdown and the page have ten
ROOMY = 110  # columns from which a table has the spread of means and the verdicts as words
GAP = 2
MOST_TABLES = 2  # of the same metrics; with more arms than those hold, each arm has a line
LEAST_FOR_NAMES = 14
FOLDED_LABEL = 16  # columns of a line's label beside the reference, where there is little room
STAR = " ★"
SHORT = (
    "[95 % interval] of the change, paired by block · ✔ better ✘ worse = same ? unsure · "
    "↑ higher is better, ↓ lower"
)
LEGEND = (
    "★ primary · ↑ higher is better, ↓ lower · ± half of the 95 % interval · [95 % interval of the "
    "change, paired by block] · q: p corrected for all tests · = same within the margin · "
    "? unsure (~ how many more blocks would settle it) · k, M are 1000"
)


@dataclass(frozen=True)
class _Line:
    """Of a table. A heading has no rows; `scale` is the heading's, where that has the unit."""

    label: str
    base: Row | None = None
    arms: Mapping[str, Row] = field(default_factory=dict)
    scale: Scale | None = None

    @property
    def heading(self) -> bool:
        return self.base is None and not self.arms


def terminal_text(
    report: Report, console: Console | None, *, every: bool, verbose: bool = False
) -> str:
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
    for part in _parts(report, width, every=every, verbose=verbose):
        target.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(report: Report, width: int, *, every: bool, verbose: bool) -> Iterable[RenderableType]:
    yield Text(report.experiment.name, style="bold")
    if report.preface:
        yield Padding(Text(report.preface, style="bold"), (0, 0, 0, 2))
    for sentence in report.sentences:
        text = Text.assemble((sentence.variant, "bold"), f"{sentence.lead}: ")
        for index, clause in enumerate(sentence.clauses):
            text.append("; " if index else "")
            text.append(f"{clause.text}, " if clause.word else clause.text)
            text.append(clause.word, style=STYLES.get(clause.verdict or "", ""))
        yield Padding(text.append("."), (0, 0, 0, 2))
    for warning in report.warnings:
        yield Padding(Text(f"! {warning}", style="yellow"), (0, 0, 0, 2))
    if every or verbose:
        for cell in report.comparison.cells:
            yield from _cell(report, cell, width, every=every)
        yield Text(LEGEND, style="dim")
    else:
        yield from _tables(report, _primary_lines(report), width)
        measured = {row.cell for row in report.comparison.rows}
        for cell in (c for c in report.comparison.cells if c not in measured):
            yield Text(f"{cell}: no trial counts", style="bold")
        yield Text(SHORT, style="dim")
    yield from beside_section(report, FOLDED_LABEL if width < ROOMY else width)
    if verbose:
        yield _context(report)
        yield from _lists(report)
    else:
        for fact in report.context:
            if fact.label == NOISE_FLOOR:
                yield Text(f"{fact.label}: {fact.value}", style="dim")
        yield Text(_more(report), style="dim")
    yield Text(f"reproduce: {report.reproduce}", style="dim", overflow="fold")


def _more(report: Report) -> str:
    """What is not shown."""
    moved = sum(len(moved.rows) + moved.more for moved in report.moved)
    found = [f"{moved} changes of other metrics"] if moved else []
    if profiled := sum(len(cell.arms) for cell in report.profiles):
        found.append(f"{profiled} profile{'' if profiled == 1 else 's'}")
    if notes := len(report.notes) + len(report.minor_notes):
        found.append(f"{notes} note{'' if notes == 1 else 's'}")
    return f"--verbose: {', '.join([*found, 'hosts, workloads, how it was measured'])}"


def _context(report: Report) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", overflow="fold")
    grid.add_column(overflow="fold")
    for fact in report.context:
        grid.add_row(fact.label, escape(fact.value))
    return Padding(grid, (1, 0, 0, 2))


def _primary_lines(report: Report) -> list[_Line]:
    """The primary metrics (or where none was measured all): a heading each, and a line a cell."""
    lines: list[_Line] = []
    for rows_by_cell in primary_rows(report).values():
        cells = list(rows_by_cell.values())
        if len(report.comparison.cells) == 1:
            lines.append(_line(_name(cells[0][0]), cells[0], report))
            continue
        largest = max((rows[0].summary.mean for rows in cells), key=abs)
        scale = scale_of(cells[0][0].metric, largest)
        lines.append(_Line(f"{_name(cells[0][0]).removesuffix(STAR)} ({scale.unit.strip()})"))
        lines += [_line(str(cell), rows, report, scale) for cell, rows in rows_by_cell.items()]
    return lines


def _cell(report: Report, cell: Cell, width: int, *, every: bool) -> Iterable[RenderableType]:
    groups, left_out = selected(report, cell, every=every)
    if not groups:
        yield Text(f"\n{cell}: no trial counts", style="bold")
        return
    n = max((row.summary.n for rows in groups.values() for row in rows), default=0)
    yield Text(f"\n{cell} · {n} block{'' if n == 1 else 's'}", style="bold")
    yield from _tables(
        report, [_line(_name(rows[0]), rows, report) for rows in groups.values()], width
    )
    if left_out:
        yield Text(f"{left_out} metrics without a clear change are not shown: --all", style="dim")


def _line(label: str, rows: Sequence[Row], report: Report, scale: Scale | None = None) -> _Line:
    found = {row.variant: row for row in rows}
    return _Line(label, found.pop(report.comparison.baseline, None), found, scale)


def _tables(report: Report, lines: Sequence[_Line], width: int) -> Iterable[RenderableType]:
    """One table, or two where the arms do not fit beside each other; where that would take more, a line an arm."""
    comparison = report.comparison
    arms = [v for v in comparison.variants[1:] if any(v in line.arms for line in lines)]
    roomy = width >= ROOMY
    room = width - sum(_widths(lines, [], roomy=roomy)) - GAP
    chunks: list[list[str]] = [[]]
    left = room
    for arm in arms:
        need = GAP + _widths(lines, [arm], roomy=roomy)[-1]
        if chunks[-1] and need > left:
            chunks.append([])
            left = room
        chunks[-1].append(arm)
        left -= need
    if len(chunks) > MOST_TABLES:
        yield from _by_arm(lines, (comparison.baseline, *arms), width, roomy=roomy)
        return
    for chunk in chunks:
        yield from _table(lines, comparison.baseline, chunk, width, roomy=roomy)


def _by_arm(
    lines: Sequence[_Line], names: Sequence[str], width: int, *, roomy: bool
) -> Iterable[RenderableType]:
    """A line an arm, the baseline first, and a column a metric and cell: as many as fit, then another table."""
    columns: list[tuple[str, list[Text]]] = []
    metric = ""
    for line in lines:
        if line.heading:
            metric = f"{line.label} "
            continue
        cells = [_baseline(line, roomy), *(_arm(line, arm, roomy) for arm in names[1:])]
        columns.append((f"{metric}{line.label}", cells))
    widest = max(cell_len(name) for name in names)
    first = min(widest, max(LEAST_FOR_NAMES, width // 3))
    while columns:
        room = width - first
        names_column = Column(overflow="fold")
        table = Table(
            names_column, box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold"
        )
        taken: list[list[Text]] = []
        while columns:
            label, cells = columns[0]
            need = GAP + max(cell_len(text.plain) for text in cells)
            if taken and need > room:
                break
            wide = min(need, room) - GAP
            table.add_column(escape(folded(label, wide)), overflow="fold", width=wide)
            taken.append(cells)
            room -= need
            columns.pop(0)
        names_column.width = min(widest, first + room)
        for name, *row in zip(names, *taken, strict=True):
            table.add_row(Text(name), *row)
        yield Text()
        yield table


def _widths(lines: Sequence[_Line], arms: Sequence[str], *, roomy: bool) -> list[int]:
    """Of the columns: label, baseline, arms."""
    columns = [[line.label for line in lines]]
    columns.append([_baseline(line, roomy).plain for line in lines])
    columns += [[_arm(line, arm, roomy).plain for line in lines] for arm in arms]
    return [max((cell_len(text) for text in texts), default=0) for texts in columns]


def _table(
    lines: Sequence[_Line], baseline: str, arms: Sequence[str], width: int, *, roomy: bool
) -> Iterable[RenderableType]:
    names = (baseline, *arms)
    widths = _widths(lines, arms, roomy=roomy)
    spare = width - sum(widths) - GAP * len(names)
    fits = spare >= 0
    labels = widths[0]
    if not fits and labels + spare >= LEAST_FOR_NAMES:  # values stay whole, labels are broken
        room, fits = labels + spare, True
        labels = max(LEAST_FOR_NAMES, room * 2 // 3)
        spare = room - labels
    for place, name in enumerate(names, 1):
        wider = min(max(0, cell_len(name) - widths[place]), max(0, spare))
        widths[place], spare = widths[place] + wider, spare - wider
    labels += spare
    yield Text()
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    headed = any(line.heading for line in lines)
    table.add_column("" if headed else "metric", overflow="fold")
    for name, wide in zip(names, widths[1:], strict=True):
        table.add_column(escape(name), overflow="fold", width=wide if fits else None)
    for line in lines:
        if line.heading:
            table.add_row(Text(folded(line.label, labels), style="bold"))
        elif line.base is not None or line.arms.keys() & set(arms):
            cells = (_arm(line, arm, roomy) for arm in arms)
            table.add_row(Text(folded(line.label, labels)), _baseline(line, roomy), *cells)
    yield table


def _name(row: Row) -> str:
    return f"{row.metric.id} {ARROWS[row.metric.direction]}{STAR if row.primary else ''}"


def _baseline(line: _Line, roomy: bool) -> Text:
    row = line.base
    if row is None:
        return Text()
    text = Text(_mean(row, line))
    if roomy:
        scale = line.scale or scale_for(row, [row])
        text.append(f" {spread(row.summary, row.metric, scale)}", style="dim")
    return text


def _mean(row: Row, line: _Line) -> str:
    """With its unit, unless the heading has it."""
    if line.scale is not None:
        return mean_text(row.summary, replace(line.scale, unit="", joint=""))
    return mean_text(row.summary, scale_for(row, [line.base or row]))


def _arm(line: _Line, variant: str, roomy: bool) -> Text:
    row = line.arms.get(variant)
    if row is None:
        return Text()
    if row.effect is None:
        text = Text(_mean(row, line))
        return text.append(f" {row.reason}", style="magenta") if row.reason else text
    scale = line.scale or scale_for(row, [line.base or row])
    style = STYLES.get(row.verdict or "", "")
    text = Text(change(row.effect, row.metric, scale), style=style)
    if row.verdict is None:
        return text.append(row.qualifier)
    text.append(f" {MARKS[row.verdict]}", style=style)
    if not roomy and row.marks:
        text.append(f" {', '.join(row.marks)}", style=style)
    if roomy:
        text.append(f" {row.verdict}{row.qualifier}", style=style)
        if row.verdict == "unsure":
            text.append(f", {more_text(row)}", style="dim")
        elif row.effect.q is not None and row.verdict in ("better", "worse"):
            text.append(f" {p_text('q', row.effect.q)}", style="dim")
    return text


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
        ("profiles: the functions whose own share moved most (one sample each)", _profiles(report)),
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


def _profiles(report: Report) -> list[str]:
    found = []
    for arm in (arm for cell in report.profiles for arm in cell.arms):
        moved = (
            f"{short_name(share.function)} {points(share.difference)}"
            for share in arm.moved[:MOST_FUNCTIONS]
        )
        text = "; ".join(moved) or "no function's share differs"
        found.append(f"{arm.arm.taken.variant} · {arm.cell}, in percentage points: {text}")
    return found


def _voids(report: Report) -> list[str]:
    return [
        f"block {v.block}{f' attempt {v.attempt}' if v.attempt > 1 else ''}, {v.cell}, {v.variant}: "
        f"{v.status}: {v.reason}"
        for v in report.comparison.voids
    ]
