"""Shorten and wrap names for narrow output; shortened names stay distinct."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.report.model import Report

LEAST = 5  # minimum columns of a shortened name: two ends, a gap and a number


def main_charts(report: Report) -> tuple[str, ...]:
    """Return the names of the charts that summarize the report, without suffixes; none without effects.

    These are the comparison, or the forest plot of the first primary metric if nothing has an interval yet, and the
    course of memory if items were deleted and stored again.
    """
    from perfrunner.report.charts.comparison import compared_metrics
    from perfrunner.report.model import primary_rows
    from perfrunner.spec.metrics import OF_CHURN

    churn = any(row.metric.id in OF_CHURN for row in report.comparison.rows)
    course = ("series-churn",) if churn and report.comparison.paired else ()
    if compared_metrics(report.comparison):
        return ("comparison", *course)
    forests = tuple(
        f"forest-{re.sub(r'[^A-Za-z0-9]+', '-', metric).strip('-').lower()}"
        for metric in list(primary_rows(report))[:1]
    )
    return (*forests, *course)


WORDS = re.compile(r"(?<=[^\d\s] )|(?<=\d )(?!\d)")  # `10 000` is not split
# Where a metric id or a name may be broken.
SEAMS = re.compile(r"(?<=[/_,=+-])|(?<=[a-z])(?=[A-Z])")


def folded(text: str, width: int) -> str:
    """Wrap text to lines of at most `width` columns, where spaces and seams allow it."""
    lines, line = [], ""
    for word in WORDS.split(text):
        for piece in [word] if cell_len(word.rstrip()) <= width else SEAMS.split(word):
            if line and cell_len((line + piece).rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
    return "\n".join([*lines, line])


def short_names(names: Sequence[str], room: int, gap: str = "…") -> dict[str, str]:
    """Shorten each name to at most `room` columns (at least 5); all results differ.

    The middle is cut first, because variants differ at their ends: `jemalloc-5.1.0,metadata_thp=always`
    becomes `jemal…always`. Names that would still be equal are numbered.
    """
    room = max(room, LEAST)
    shortened: dict[str, str] = {}
    taken = {name for name in names if len(name) <= room}
    for number, name in enumerate(names, 1):
        if name in taken:
            shortened[name] = name
            continue
        for text in (*_cut(name, room, gap), _numbered(name, room, gap, number)):
            if text not in taken:
                break
        shortened[name] = text
        taken.add(text)
    return shortened


def _cut(name: str, room: int, gap: str) -> list[str]:
    """Return candidates in order of preference: equal ends, a longer tail, a longer head."""
    letters = room - len(gap)
    heads = (letters // 2, letters // 4, letters * 3 // 4)
    return [f"{name[:head]}{gap}{name[len(name) - (letters - head) :]}" for head in heads]


def _numbered(name: str, room: int, gap: str, number: int) -> str:
    mark = f"{gap}{number}"
    return f"{name[: room - len(mark)]}{mark}"
