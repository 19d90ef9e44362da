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
    """The published changes of primary metrics: claim, theirs, ours, verdict, and why they may differ."""
    yield "| experiment, claim | of it | theirs | ours [95 %] | verdict | why they may differ |"
    yield "|:--|:--|--:|--:|:--|:--|"
    for page in pages:
        reference = page.reference
        if reference is None:
            continue
        kept = bool(page.experiments)
        lines = headline_lines(lines_of(page), page.spec.primary)
        if kept:
            lines = [line for line in lines if line.ours is not None]
        for line in lines:
            first = line is lines[0]
            name = (
                f"[{page.path.stem}]({page.path.name}): {plain(reference.claim)}" if first else ""
            )
            what = plain(f"{line.table}: {line.label}, {line.variant}")
            ours = our_change(line) if kept else "on its page, not kept as data"
            why = plain(reference.why) if first else ""
            yield f"| {name} | {what} | {their_change(line)} | {ours} | {_word(line) if kept else ''} | {why} |"


def headline_lines(lines: Sequence[BesideLine], primary: Sequence[str]) -> list[BesideLine]:
    """The compared lines of primary metrics, each once; all compared ones where no primary metric was published."""
    compared = [line for line in lines if line.effect is not None]
    first = [line for line in compared if line.metric.id in primary] or compared
    return list({(ln.metric.id, ln.cell, ln.variant): ln for ln in reversed(first)}.values())[::-1]


def _word(line: BesideLine) -> str:
    return f"{MARKS[line.agreement]} {line.agreement}" if line.agreement else ""
