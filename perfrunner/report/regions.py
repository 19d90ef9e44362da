"""What stands in the regions of a write-up: its runs, findings and tables, from the kept results."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from perfrunner.analysis import Cell
from perfrunner.errors import UsageError
from perfrunner.report.beside import MARKS, our_change, published_text, their_change
from perfrunner.report.beside_markdown import plain
from perfrunner.report.numbers import change, mean_text, scale_for, scale_of, spread, verdict_text
from perfrunner.report.pages import lines_of, merged
from perfrunner.spec.cell import NO_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from perfrunner.analysis import Row
    from perfrunner.analysis.reference import BesideLine
    from perfrunner.report.model import Report
    from perfrunner.report.pages import Page
    from perfrunner.results import ExperimentData, TrialRecord

MAY_BE_MISSING = "?"  # before a pattern
VERDICTS = ("better", "worse", "same", "unsure", "invalid")


def shown_trials(page: Page) -> Iterator[tuple[Report, ExperimentData, list[TrialRecord], str]]:
    """Of each kept experiment that has any: its report and data, the trials that the page shows, how long they took."""
    for report, data in zip(page.reports(), page.experiments, strict=True):
        cells = set(report.comparison.cells)
        trials = [t for t in data.trials if Cell(t.workload, t.bucket) in cells]
        if trials:
            first, last = (min(t.started_at for t in trials), max(t.finished_at for t in trials))
            yield report, data, trials, _minutes((last - first).total_seconds())


def runs(page: Page) -> Iterable[str]:
    """Which runs, when, where, from which seed."""
    for report, data, trials, took in shown_trials(page):
        named = dict.fromkeys(_named_cell(c, page) for c in report.comparison.cells)
        hosts = next((f.value for f in report.context if f.label == "hosts"), "unknown host")
        compilers = {_compiler(build.provenance) for build in data.builds}
        spoiled = sum(t.status != "ok" for t in trials)
        n = report.comparison.blocks
        yield (
            f"{', '.join(named)}: run `{data.experiment.id}`, seed {data.experiment.seed}, perfrunner"
            f" {data.experiment.tool_version}, {', '.join(sorted(compilers))}; {plain(hosts)}."
            f" {n} block{'' if n == 1 else 's'}, {len(trials)} trials, {spoiled or 'none'} void, in"
            f" {took} without the builds."
        )
        yield ""
        for warning in report.warnings:
            yield f"> {plain(warning)}"
            yield ""


def _named_cell(cell: Cell, page: Page) -> str:
    """Its workload, where one run measured all that the page shows of it."""
    having = [
        r for r in page.reports() if any(c.workload == cell.workload for c in r.comparison.cells)
    ]
    return cell.workload if len(having) == 1 else str(cell)


def _compiler(provenance: Mapping[str, Any]) -> str:
    compiler = provenance.get("compiler")
    return str(compiler.get("version", "")) if isinstance(compiler, dict) else str(compiler or "")


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def findings(page: Page) -> Iterable[str]:
    """The verdicts of the primary metrics, and what agrees with the reference."""
    reports = page.reports()
    rows = [r for report in reports for r in report.comparison.rows if r.primary and r.effect]
    for variant in dict.fromkeys(row.variant for row in rows):
        for verdict in VERDICTS:
            found = [row for row in rows if row.variant == variant and row.verdict == verdict]
            if found:
                yield f"- `{variant}`, *{verdict}*: {', '.join(map(_changed, found))}."
    lines = merged(reports, page).beside
    for word in MARKS:
        named = [line for line in lines if line.agreement == word]
        if named:
            yield (
                f"- Of the published changes {len(named)} {_verb(word, len(named))}:"
                f" {'; '.join(map(_named, named))}."
            )


def _changed(row: Row) -> str:
    assert row.effect is not None
    text = change(row.effect, row.metric, scale_of(row.metric, row.summary.mean))
    return f"`{row.metric.id}` {row.cell} {text}"


def _verb(word: str, count: int) -> str:
    if word == "cannot tell":
        return "cannot be judged"
    return word.removesuffix("s") if count > 1 else word


def _named(line: BesideLine) -> str:
    text = plain(f"{line.label}, {line.variant}") + f" (theirs {their_change(line)}"
    ours = our_change(line)
    return f"{text}, ours {ours})" if ours else f"{text}; {line.why})"


def table(
    page: Page,
    place: str,
    patterns: str,
    baseline: str | None = None,
    *,
    text: Callable[[Row, list[Row]], str] | None = None,
) -> Iterable[str]:
    """A line a metric, a column a variant."""
    workload, _, bucket = place.partition("/")
    cell = Cell(workload, bucket or NO_BUCKET)
    report = next((r for r in page.reports(baseline) if cell in r.comparison.cells), None)
    if report is None:
        raise UsageError(f"{page.path}: no {cell} among the kept results")
    groups: dict[str, list[Row]] = {}
    for pattern in patterns.split(","):
        glob = pattern.removeprefix(MAY_BE_MISSING)
        found = {m: rows for m, rows in report.rows(cell).items() if fnmatchcase(m, glob)}
        if not found and glob == pattern:
            raise UsageError(
                f"{page.path}: no metric of {cell} matches {glob}",
                f"{MAY_BE_MISSING}{glob} where a kept run may lack it",
            )
        groups.update(found)
    if not groups:
        raise UsageError(f"{page.path}: no metric of {cell} matches {patterns}")
    yield "| | " + " | ".join(f"`{v}`" for v in report.comparison.variants) + " |"
    yield "|:--|" + "--:|" * len(report.comparison.variants)
    for metric, rows in groups.items():
        mine = {row.variant: row for row in rows}
        cells = [
            (text or _cell)(mine[v], rows) if v in mine else "" for v in report.comparison.variants
        ]
        yield f"| `{metric}` | " + " | ".join(cells) + " |"


def deviation(row: Row, rows: list[Row]) -> str:
    """The text of a cell: the largest distance of a block from the mean."""
    del rows
    deviation = row.summary.max_deviation
    unit = scale_of(row.metric, deviation)
    return f"{unit.number(deviation, 3)} pt" if row.metric.unit == "%" else unit.text(deviation)


def _cell(row: Row, rows: list[Row]) -> str:
    scale = scale_for(row, rows)
    text = f"{mean_text(row.summary, scale)} {spread(row.summary, row.metric, scale)}"
    if row.effect is None:
        return text
    return f"{text} · {change(row.effect, row.metric, scale)} {verdict_text(row)}".rstrip()


def theirs_alone(page: Page) -> Iterable[str]:
    """The reference's tables without ours: nothing is kept yet."""
    lines = lines_of(page)
    for title in dict.fromkeys(line.table for line in lines):
        mine = [line for line in lines if line.table == title]
        variants = list(dict.fromkeys(line.variant for line in mine))
        yield f"| {plain(title)} | " + " | ".join(f"`{v}`" for v in variants) + " |"
        yield "|:--|" + "--:|" * len(variants)
        for label in dict.fromkeys(line.label for line in mine):
            found = {line.variant: line for line in mine if line.label == label}
            cells = [
                " ".join(filter(None, (published_text(found[v].theirs, found[v]), _parenthesis(found[v]))))
                if v in found else ""
                for v in variants
            ]  # fmt: skip
            yield f"| {plain(label)} | " + " | ".join(cells) + " |"
        yield ""


def _parenthesis(line: BesideLine) -> str:
    text = their_change(line)
    return f"({text})" if text else ""
