"""Regenerate the regions of a write-up from its kept results.

`renewed` replaces the text between `<!-- generated: WHAT -->` and `<!-- end -->`. WHAT is one of

    run                                the runs: id, seed, hosts and size
    findings                           the changes of the primary metrics with their verdicts, and a count of the
                                       published values that agree
    published                          the published tables with the measured values
    table WORKLOAD METRICS [BASELINE]  measured values: a line for each metric (glob patterns joined by commas), a
                                       column for each variant; WORKLOAD may be NAME/BUCKET; a pattern that matches
                                       nothing is an error unless it starts with `?`
    deviations WORKLOAD METRICS        for the same metrics the largest distance of a block from the mean
    chart NAME                         the report's chart of that name, as an image
    contents PAGE...                   (index only) a line for each page: what it compares, its spec and its size
    overview PAGE...                   (index only) each published change: claim, published, measured, verdict, reason

Without kept results a region is unchanged, except `run`, which says so, and `published`, which shows only
the published values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.errors import UsageError
from perfrunner.report.overview import contents, overview
from perfrunner.report.pages import IMAGES, REGION, SPEC_LINE, merged, read_page
from perfrunner.report.published import published_tables
from perfrunner.report.regions import deviation, findings, runs, table, theirs_alone

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from pathlib import Path

    from perfrunner.report.pages import Page

OF_AN_INDEX = {"contents": contents, "overview": overview}


def renewed(path: Path) -> str:
    """Return the page's text with every region regenerated from its kept results."""
    text = path.read_text(encoding="utf-8")
    page = read_page(path) if SPEC_LINE.search(text) else None

    def region(match: re.Match[str]) -> str:
        what, *arguments = match.group(2).split()
        lines = _region(page, path, what, arguments)
        body = match.group(3) if lines is None else _joined(lines)
        return f"{match.group(1)}{body}{match.group(4)}"

    return REGION.sub(region, text)


def _joined(lines: Iterable[str]) -> str:
    text = "\n".join(lines).strip("\n")
    return f"\n{text}\n\n" if text else "\n"


def _region(page: Page | None, path: Path, what: str, words: list[str]) -> Iterable[str] | None:
    """Return the lines of a region; None leaves it unchanged."""
    if what in OF_AN_INDEX:
        return OF_AN_INDEX[what]([read_page(path.parent / name) for name in words])
    if page is None:
        raise UsageError(f"{path} names no spec", "add <!-- spec: PATH --> to its first lines")
    if what == "published" and not page.experiments:
        return theirs_alone(page)
    if what == "run" and not page.experiments:
        return [f"No run is kept yet: `scripts/publish {path.stem}` measures one."]
    if not page.experiments:
        return None
    if what == "run":
        return runs(page)
    if what == "findings":
        return findings(page)
    if what == "published":
        return published_tables(merged(page.reports(), page))
    if what == "table" and len(words) in (2, 3):
        return table(page, *words)
    if what == "deviations" and len(words) == 2:
        return table(page, words[0], words[1], text=deviation)
    if what == "chart" and len(words) == 1:
        image = IMAGES / f"{path.stem}-{words[0]}.svg"
        return [f"![{words[0].replace('-', ' ')}]({image.as_posix()})"]
    raise UsageError(f"{path}: unknown region {' '.join([what, *words])!r}")
