"""Names in little room: never cut so that two of them look alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.report.model import Report

LEAST = 5  # columns that a shortened name needs: two ends, a gap and a number


def main_charts(report: Report) -> tuple[str, ...]:
    """The one that shows at a glance what came out, as `--charts` names it (without its suffix); none without effects.

    The comparison; where nothing has an interval yet, the forest of the first primary metric.
    """
    from perfrunner.report.charts.comparison import compared_metrics
    from perfrunner.report.selection import primary_rows

    if compared_metrics(report.comparison):
        return ("comparison",)
    return tuple(
        f"forest-{re.sub(r'[^A-Za-z0-9]+', '-', metric).strip('-').lower()}"
        for metric in list(primary_rows(report))[:1]
    )


WORDS = re.compile(r"(?<=[^\d\s] )|(?<=\d )(?!\d)")  # `10 000` is one
SEAMS = re.compile(
    r"(?<=[/_,=+-])|(?<=[a-z])(?=[A-Z])"
)  # of a metric's id or a name, where it may be broken


def folded(text: str, width: int) -> str:
    """On as many lines as it takes, of at most `width` columns where words or their seams allow it."""
    lines, line = [], ""
    for word in WORDS.split(text):
        for piece in [word] if cell_len(word.rstrip()) <= width else SEAMS.split(word):
            if line and cell_len((line + piece).rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
    return "\n".join([*lines, line])


def short_names(names: Sequence[str], room: int, gap: str = "…") -> dict[str, str]:
    """Each name in at most `room` columns (5 at least), all different.

    The middle goes first, for variants differ at their ends: `jemalloc-5.1.0,metadata_thp=always` is
    `jemal…always`. Those that would still look alike are numbered.
    """
    room = max(room, LEAST)
    found: dict[str, str] = {}
    taken = {name for name in names if len(name) <= room}
    for number, name in enumerate(names, 1):
        if name in taken:
            found[name] = name
            continue
        for text in (*_cut(name, room, gap), _numbered(name, room, gap, number)):
            if text not in taken:
                break
        found[name] = text
        taken.add(text)
    return found


def _cut(name: str, room: int, gap: str) -> list[str]:
    """In the order of preference: half of each end, then more of the tail, then more of the head."""
    kept = room - len(gap)
    heads = (kept // 2, kept // 4, kept * 3 // 4)
    return [f"{name[:head]}{gap}{name[len(name) - (kept - head) :]}" for head in heads]


def _numbered(name: str, room: int, gap: str, number: int) -> str:
    mark = f"{gap}{number}"
    return f"{name[: room - len(mark)]}{mark}"
