"""The index of the write-ups: what there is, and theirs beside ours in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.beside import MARKS, our_change, their_change
from perfrunner.report.beside_markdown import plain
from perfrunner.report.pages import lines_of
from perfrunner.report.regions import shown_trials

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.reference import BesideLine
    from perfrunner.report.pages import Page


def contents(pages: Sequence[Page]) -> Iterable[str]:
    """A line a page: its spec, what that compares, and how large the kept runs are."""
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
    """The published changes: how many agree, those of primary metrics, and each that disagrees."""
    yield "| experiment, claim | of it | theirs | ours [95 %] | verdict | why they may differ |"
    yield "|:--|:--|--:|--:|:--|:--|"
    for page in pages:
        reference = page.reference
        if reference is None:
            continue
        kept = bool(page.experiments)
        compared = _compared(lines_of(page))
        lines = headline_lines(compared, page.spec.primary)
        if kept:
            lines = [ln for ln in compared if _is_shown(ln, ln in lines)]
        name = f"[{page.path.stem}]({page.path.name}): {plain(reference.claim)}"
        counts = _counts(compared) if kept else ""
        yield f"| {name} | all {len(compared)} published changes | | | {counts} | {plain(reference.why)} |"
        for line in lines:
            what = plain(f"{line.table}: {line.label}, {line.variant}")
            ours = our_change(line) if kept else "on its page, not kept as data"
            yield f"|  | {what} | {their_change(line)} | {ours} | {_word(line) if kept else ''} |  |"


def _is_shown(line: BesideLine, headline: bool) -> bool:
    return line.ours is not None and (headline or line.agreement == "disagrees")


def _counts(lines: Sequence[BesideLine]) -> str:
    """`12 agree, 1 disagree, 3 cannot be judged (2 not measured)`."""
    words = [line.agreement for line in lines]
    text = (
        f"{words.count('agrees')} agree, {words.count('disagrees')} disagree,"
        f" {words.count('cannot tell')} cannot be judged"
    )
    missing = sum(line.ours is None for line in lines)
    return f"{text} ({missing} not measured)" if missing else text


def _compared(lines: Sequence[BesideLine]) -> list[BesideLine]:
    """Those that have a published change, each once."""
    found = [line for line in lines if line.effect is not None]
    return list({(ln.metric.id, ln.cell, ln.variant): ln for ln in reversed(found)}.values())[::-1]


def headline_lines(lines: Sequence[BesideLine], primary: Sequence[str]) -> list[BesideLine]:
    """Those of primary metrics; all where no primary metric was published."""
    return [line for line in lines if line.metric.id in primary] or list(lines)


def _word(line: BesideLine) -> str:
    return f"{MARKS[line.agreement]} {line.agreement}" if line.agreement else ""
