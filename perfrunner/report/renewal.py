"""Write-ups made anew from their kept results.

What stands between `<!-- generated: WHAT -->` and `<!-- end -->` is made by `renewed`. WHAT is one of

    run                                which runs, when, where, from which seed
    findings                           the verdicts of the primary metrics, and what agrees with the reference
    beside                             the reference's tables, ours beside them
    table WORKLOAD METRICS [BASELINE]  ours: a line a metric (glob patterns joined by commas), a column a variant;
                                       WORKLOAD may be NAME/BUCKET; a pattern that matches nothing is an error, but
                                       for one behind a `?`
    deviations WORKLOAD METRICS        the same metrics: the largest distance of a block from the mean
    chart NAME                         the report's chart of that name, an image of its own
    contents PAGE...                   (of an index) a line a page: what is compared, by which spec, how large
    overview PAGE...                   (of an index) each published change: claim, theirs, ours, verdict, why

Without kept results a region stays as it is, but for `run`, which says so, and `beside`, which then shows theirs
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.errors import UsageError
from perfrunner.report.beside_markdown import beside_tables
from perfrunner.report.overview import contents, overview
from perfrunner.report.pages import IMAGES, REGION, SPEC_LINE, merged, read_page
from perfrunner.report.regions import deviation, findings, runs, table, theirs_alone

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from pathlib import Path

    from perfrunner.report.pages import Page

OF_AN_INDEX = {"contents": contents, "overview": overview}


def renewed(path: Path) -> str:
    """The page's text with every region made anew from its kept results."""
    text = path.read_text(encoding="utf-8")
    page = read_page(path) if SPEC_LINE.search(text) else None

    def region(match: re.Match[str]) -> str:
        what, *words = match.group(2).split()
        lines = _region(page, path, what, words)
        body = match.group(3) if lines is None else _joined(lines)
        return f"{match.group(1)}{body}{match.group(4)}"

    return REGION.sub(region, text)


def _joined(lines: Iterable[str]) -> str:
    text = "\n".join(lines).strip("\n")
    return f"\n{text}\n\n" if text else "\n"


def _region(page: Page | None, path: Path, what: str, words: list[str]) -> Iterable[str] | None:
    """The lines; None: leave what is there."""
    if what in OF_AN_INDEX:
        return OF_AN_INDEX[what]([read_page(path.parent / name) for name in words])
    if page is None:
        raise UsageError(f"{path} names no spec", "its first lines hold <!-- spec: PATH -->")
    if what == "beside" and not page.experiments:
        return theirs_alone(page)
    if what == "run" and not page.experiments:
        return [f"No run is kept yet: `scripts/publish {path.stem}` measures one."]
    if not page.experiments:
        return None
    if what == "run":
        return runs(page)
    if what == "findings":
        return findings(page)
    if what == "beside":
        return beside_tables(merged(page.reports(), page))
    if what == "table" and len(words) in (2, 3):
        return table(page, *words)
    if what == "deviations" and len(words) == 2:
        return table(page, words[0], words[1], text=deviation)
    if what == "chart" and len(words) == 1:
        image = IMAGES / f"{path.stem}-{words[0]}.svg"
        return [f"![{words[0].replace('-', ' ')}]({image.as_posix()})"]
    raise UsageError(f"{path}: unknown region {' '.join([what, *words])!r}")
