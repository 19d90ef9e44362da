"""Render a report for a terminal: sentences and one table, and with `--verbose` the method and environment."""

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

from perfrunner.report.account import TITLE, account_lines
from perfrunner.report.explain import changed_text
from perfrunner.report.method import NOISE_FLOOR
from perfrunner.report.model import HOSTS, LOAD, primary_rows, selected
from perfrunner.report.numbers import (
    ARROWS,
    MARKS,
    change,
    folded,
    mean_text,
    more_text,
    p_text,
    scale_for,
    scale_of,
    spread,
)
from perfrunner.report.published import terminal_section
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from perfrunner.analysis.model import Row
    from perfrunner.domain import Case
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale

STYLES = {
    "better": "bold green",
    "worse": "bold red",
    "same": "cyan",
    "unsure": "yellow",
    "not comparable": "bold magenta",
}
WIDTH_WITHOUT_TERMINAL = 120
MOST_FUNCTIONS = 3  # functions shown of an explanation; Markdown shows ten
ROOMY = 110  # columns from which a table shows the spread of means and the verdicts in full
GAP = 2
MOST_TABLES = 2  # tables of the same metrics; more variants than fit get one line each
LEAST_FOR_NAMES = 14
FOLDED_LABEL = 16  # columns of a label in the published values, on a narrow terminal
STAR = " ★"
PAIRED = ", paired by block"  # left out of the legend of two experiments
SHORT = (
    f"[95 % interval] of the change{PAIRED} · ✔ better ✘ worse = same ? unsure · "
    "↑ higher is better, ↓ lower"
)
LEGEND = (
    "★ primary · ↑ higher is better, ↓ lower · ± half of the 95 % interval · [95 % interval of the "
    f"change{PAIRED}] · q: p corrected for all tests · = same within the margin · "
    "? unsure (~ how many more blocks would settle it) · k, M are 1000"
)


@dataclass(frozen=True)
class _Line:
    """A line of a table. A heading has no rows; `scale` is set where the heading names the unit."""

    label: str
    base: Row | None = None
    variants: Mapping[str, Row] = field(default_factory=dict)
    scale: Scale | None = None

    @property
    def heading(self) -> bool:
        return self.base is None and not self.variants


def terminal_text(
    report: Report, console: Console | None, *, every: bool, verbose: bool = False
) -> str:
    """Return the report formatted for the console: its width, and its colours if it has any."""
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
    rows = report.comparison.rows
    if every or verbose:
        for case in report.comparison.cases:
            yield from _case(report, case, width, every=every)
    else:
        if rows:
            yield from _tables(report, _primary_lines(report), width)
        measured = {row.case for row in rows}
        for case in (c for c in report.comparison.cases if c not in measured):
            yield Text(f"{case}: no trial that counts", style="bold")
    if rows:
        legend = LEGEND if every or verbose else SHORT
        yield Text(legend if report.comparison.paired else legend.replace(PAIRED, ""), style="dim")
    yield from terminal_section(report, FOLDED_LABEL if width < ROOMY else width)
    if verbose:
        yield _context(report)
        yield from _lists(report)
    else:
        for fact in report.context:
            if fact.label in (HOSTS, LOAD, NOISE_FLOOR):
                yield Text(str(fact), style="dim")
        yield Text(_more(report), style="dim")
    yield Text(f"Reproduce: {report.reproduce}", style="dim", overflow="fold")


def _more(report: Report) -> str:
    """Return the line that lists what `--verbose` adds."""
    moved = sum(len(moved.rows) + moved.more for moved in report.moved)
    hidden = [f"{moved} changes of other metrics"] if moved else []
    if report.explanations:
        hidden.append("changes of functions' CPU time")
    if accounted := len(report.comparison.accounts):
        hidden.append(f"{count_of(accounted, 'account')} of the change")
    if notes := len(report.notes) + len(report.minor_notes):
        hidden.append(count_of(notes, "note"))
    return f"--verbose: {', '.join([*hidden, 'workloads, method'])}"


def _context(report: Report) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", overflow="fold")
    grid.add_column(overflow="fold")
    for fact in report.context:
        grid.add_row(fact.label, escape(fact.value))
    return Padding(grid, (1, 0, 0, 2))


def _primary_lines(report: Report) -> list[_Line]:
    """Return a heading for each primary metric (all metrics if none is primary) and a line for each case."""
    lines: list[_Line] = []
    for rows_by_case in primary_rows(report).values():
        cases = list(rows_by_case.values())
        if len(report.comparison.cases) == 1:
            lines.append(_line(_name(cases[0][0]), cases[0], report))
            continue
        largest = max((rows[0].summary.mean for rows in cases), key=abs)
        scale = scale_of(cases[0][0].metric, largest)
        lines.append(_Line(f"{_name(cases[0][0]).removesuffix(STAR)} ({scale.unit.strip()})"))
        lines += [_line(str(case), rows, report, scale) for case, rows in rows_by_case.items()]
    return lines


def _case(report: Report, case: Case, width: int, *, every: bool) -> Iterable[RenderableType]:
    groups, left_out = selected(report, case, every=every)
    if not groups:
        yield Text(f"\n{case}: no trial that counts", style="bold")
        return
    n = max((row.summary.n for rows in groups.values() for row in rows), default=0)
    yield Text(f"\n{case} · {count_of(n, 'block')}", style="bold")
    yield from _tables(
        report, [_line(_name(rows[0]), rows, report) for rows in groups.values()], width
    )
    if left_out:
        are = "is" if left_out == 1 else "are"
        yield Text(
            f"{count_of(left_out, 'metric')} without a clear change {are} hidden; show all with --all",
            style="dim",
        )


def _line(label: str, rows: Sequence[Row], report: Report, scale: Scale | None = None) -> _Line:
    by_variant = {row.variant: row for row in rows}
    return _Line(label, by_variant.pop(report.comparison.baseline, None), by_variant, scale)


def _tables(report: Report, lines: Sequence[_Line], width: int) -> Iterable[RenderableType]:
    """Yield one table, or two if the variants do not fit into one; if two are too few, one line per variant."""
    comparison = report.comparison
    variants = [v for v in comparison.variants[1:] if any(v in line.variants for line in lines)]
    roomy = width >= ROOMY
    room = width - sum(_widths(lines, [], roomy=roomy)) - GAP
    chunks: list[list[str]] = [[]]
    left = room
    for variant in variants:
        need = GAP + _widths(lines, [variant], roomy=roomy)[-1]
        if chunks[-1] and need > left:
            chunks.append([])
            left = room
        chunks[-1].append(variant)
        left -= need
    if len(chunks) > MOST_TABLES:
        yield from _by_variant(lines, (comparison.baseline, *variants), width, roomy=roomy)
        return
    for chunk in chunks:
        yield from _table(lines, comparison.baseline, chunk, width, roomy=roomy)


def _by_variant(
    lines: Sequence[_Line], names: Sequence[str], width: int, *, roomy: bool
) -> Iterable[RenderableType]:
    """Yield tables with one line per variant, baseline first, and as many metric columns as fit in each."""
    columns: list[tuple[str, list[Text]]] = []
    metric = ""
    for line in lines:
        if line.heading:
            metric = f"{line.label} "
            continue
        entries = [
            _baseline(line, roomy),
            *(_variant(line, variant, roomy) for variant in names[1:]),
        ]
        columns.append((f"{metric}{line.label}", entries))
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
            label, entries = columns[0]
            need = GAP + max(cell_len(text.plain) for text in entries)
            if taken and need > room:
                break
            wide = min(need, room) - GAP
            table.add_column(escape(folded(label, wide)), overflow="fold", width=wide)
            taken.append(entries)
            room -= need
            columns.pop(0)
        names_column.width = min(widest, first + room)
        for name, *row in zip(names, *taken, strict=True):
            table.add_row(Text(name), *row)
        yield Text()
        yield table


def _widths(lines: Sequence[_Line], variants: Sequence[str], *, roomy: bool) -> list[int]:
    """Return the widths of the columns: label, baseline, variants."""
    columns = [[line.label for line in lines]]
    columns.append([_baseline(line, roomy).plain for line in lines])
    columns += [[_variant(line, variant, roomy).plain for line in lines] for variant in variants]
    return [max((cell_len(text) for text in texts), default=0) for texts in columns]


def _table(
    lines: Sequence[_Line], baseline: str, variants: Sequence[str], width: int, *, roomy: bool
) -> Iterable[RenderableType]:
    names = (baseline, *variants)
    widths = _widths(lines, variants, roomy=roomy)
    spare = width - sum(widths) - GAP * len(names)
    fits = spare >= 0
    labels = widths[0]
    if not fits and labels + spare >= LEAST_FOR_NAMES:  # break labels, never values
        room, fits = labels + spare, True
        labels = max(LEAST_FOR_NAMES, room * 2 // 3)
        spare = room - labels
    for index, name in enumerate(names, 1):
        wider = min(max(0, cell_len(name) - widths[index]), max(0, spare))
        widths[index], spare = widths[index] + wider, spare - wider
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
        elif line.base is not None or line.variants.keys() & set(variants):
            entries = (_variant(line, variant, roomy) for variant in variants)
            table.add_row(Text(folded(line.label, labels)), _baseline(line, roomy), *entries)
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
    """Return the mean, with its unit unless the heading has it."""
    if line.scale is not None:
        return mean_text(row.summary, replace(line.scale, unit="", joint=""))
    return mean_text(row.summary, scale_for(row, [line.base or row]))


def _variant(line: _Line, variant: str, roomy: bool) -> Text:
    row = line.variants.get(variant)
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
    sections: tuple[tuple[str, Sequence[object]], ...] = (
        ("Other metrics that changed (most significant first)", report.moved),
        ("Sources", report.sources),
        (TITLE, account_lines(report.comparison.accounts)),
        ("Method", report.method),
        (
            "Functions whose CPU time per operation changed (perfrunner explain)",
            [changed_text(pair, MOST_FUNCTIONS) for pair in report.explanations],
        ),
        ("Differences between builds", report.differing),
        ("Notes", report.notes),
        (
            "Discarded trials (each block was repeated or excluded, for all variants)",
            report.discarded,
        ),
    )
    for title, lines in sections:
        if lines:
            yield Text(f"\n{title}", style="bold")
            for line in lines:
                yield Padding(Text(str(line)), (0, 0, 0, 2))
    if report.minor_notes:
        yield Text(
            f"\n{len(report.minor_notes)} notes on exploratory metrics: see --format json",
            style="dim",
        )
    yield Text()
