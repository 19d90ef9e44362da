"""The reference's tables whole, ours beside them, for a commit message: a column a variant, at most 72 wide.

No number and no interval is cut: columns are as wide as they need, and a table has as many as fit.
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from perfrunner.report.beside import (
    counts_text,
    our_change,
    published_text,
    their_change,
    value_text,
)
from perfrunner.report.names import short_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfrunner.analysis.reference import BesideLine
    from perfrunner.report.model import Report

WIDTH = 72
LABEL, COLUMN = 15, 14


def commit_beside(report: Report) -> list[str]:
    """Lines, or none without a reference."""
    if report.reference is None or not report.beside:
        return []
    lines = textwrap.wrap(f"beside the reference: {counts_text(report)}", WIDTH)
    lines += textwrap.wrap(f"theirs: {report.reference.source}", WIDTH, subsequent_indent="  ")
    for title, of_table in groupby(report.beside, lambda line: line.table):
        rows = [list(of_row) for _, of_row in groupby(of_table, _row)]
        variants = list(dict.fromkeys(line.variant for row in rows for line in row))
        texts = [text(line) for row in rows for line in row for _, text in _KINDS]
        column = max(COLUMN, 1 + max(map(len, texts)))
        columns = max(1, (WIDTH - LABEL) // column)
        for start in range(0, len(variants), columns):
            chunk = variants[start : start + columns]
            lines += ["", *_table(title, rows, chunk, column)]
    return [*lines, ""]


def _table(
    title: str, rows: list[list[BesideLine]], variants: list[str], column: int
) -> Iterable[str]:
    yield from textwrap.wrap(title, WIDTH, subsequent_indent="  ")
    named = short_names(variants, column - 1, ".")
    yield _columns("", [named[variant] for variant in variants], column)
    for row in rows:
        found = {line.variant: line for line in row if line.variant in variants}
        if not found:
            continue
        yield from textwrap.wrap(row[0].label, WIDTH, subsequent_indent="  ")
        for name, text in _KINDS:
            cells = [text(found[v]) if v in found else "" for v in variants]
            if any(cells):
                yield _columns(name, cells, column)


def _columns(label: str, cells: list[str], column: int) -> str:
    """Right-aligned."""
    return f"{label:<{LABEL}}{''.join(f'{cell:>{column}}' for cell in cells)}".rstrip()


def _ours(line: BesideLine) -> str:
    return "-" if line.ours is None else value_text(line.ours.summary.mean, line)


def _change(line: BesideLine) -> str:
    return our_change(line).partition(" [")[0]


def _interval(line: BesideLine) -> str:
    _, bracket, rest = our_change(line).partition(" [")
    return f"[{rest}".replace(", ", ",") if bracket else ""


_KINDS: tuple[tuple[str, Callable[[BesideLine], str]], ...] = (
    ("  theirs", lambda line: published_text(line.theirs, line)),
    ("  ours", _ours),
    ("  their change", their_change),
    ("  our change", _change),
    ("    95 %", _interval),
    ("", lambda line: line.agreement or ""),
)


def _row(line: BesideLine) -> tuple[object, ...]:
    return line.label, line.cell, line.metric.id
