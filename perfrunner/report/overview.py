"""Generate the index of the write-ups: a list of pages, and published next to measured changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.pages import lines_of
from perfrunner.report.published import MARKS, our_change, plain, their_change
from perfrunner.report.regions import shown_trials

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.published import PublishedLine
    from perfrunner.report.pages import Page


def contents(pages: Sequence[Page]) -> Iterable[str]:
    """Yield a line for each page: its spec, what it compares, and the size of the kept runs."""
    yield "| page | what is compared | spec | trials kept | they took |"
    yield "|:--|:--|:--|--:|--:|"
    for page in pages:
        kept = [(str(len(trials)), took) for _, _, trials, took in shown_trials(page)]
        size = (
            (" and ".join(column) for column in zip(*kept, strict=True)) if kept else ("none", "")
        )
        name = f"[{plain(page.title)}]({page.path.name})"
        yield f"| {' | '.join((name, plain(page.spec.description), f'`{page.spec_path.name}`', *size))} |"


def overview(pages: Sequence[Page]) -> Iterable[str]:
    """Yield the published changes: how many agree, those of primary metrics, and all that disagree."""
    yield "| experiment, claim | change | published | measured [95 %] | agreement | why they may differ |"
    yield "|:--|:--|--:|--:|:--|:--|"
    for page in pages:
        published = page.published
        if published is None:
            continue
        kept = bool(page.experiments)
        compared = _compared(lines_of(page))
        lines = headline_lines(compared, page.spec.primary)
        if kept:
            lines = [ln for ln in compared if _is_shown(ln, ln in lines)]
        name = f"[{page.path.stem}]({page.path.name}): {plain(published.claim)}"
        counts = _counts(compared) if kept else ""
        yield f"| {name} | all {len(compared)} published changes | | | {counts} | {plain(published.why)} |"
        for line in lines:
            what = plain(f"{line.table}: {line.label}, {line.variant}")
            ours = our_change(line) if kept else "on its page, not kept as data"
            yield f"|  | {what} | {their_change(line)} | {ours} | {_word(line) if kept else ''} |  |"


def _is_shown(line: PublishedLine, headline: bool) -> bool:
    return line.ours is not None and (headline or line.agreement == "disagrees")


def _counts(lines: Sequence[PublishedLine]) -> str:
    """Count agreements: `12 agree (5 in size), 1 disagree, 3 cannot be judged (2 not measured)`."""
    words = [line.likeness for line in lines]
    sizes, agree = (
        words.count("same size"),
        words.count("same size") + words.count("same direction"),
    )
    text = (
        f"{agree} agree{f' ({sizes} in size)' if agree else ''}, {words.count('disagrees')} disagree,"
        f" {words.count('cannot tell')} cannot be judged"
    )
    missing = sum(line.ours is None for line in lines)
    return f"{text} ({missing} not measured)" if missing else text


def _compared(lines: Sequence[PublishedLine]) -> list[PublishedLine]:
    """Return the lines that have a published change, each once."""
    changes = [line for line in lines if line.effect is not None]
    by_place = {(ln.metric.id, ln.case, ln.variant): ln for ln in reversed(changes)}
    return list(by_place.values())[::-1]


def headline_lines(lines: Sequence[PublishedLine], primary: Sequence[str]) -> list[PublishedLine]:
    """Return the lines of primary metrics, or all if no primary metric was published."""
    return [line for line in lines if line.metric.id in primary] or list(lines)


def _word(line: PublishedLine) -> str:
    return f"{MARKS[line.agreement]} {line.agreement}" if line.agreement else ""
