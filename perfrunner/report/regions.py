"""Generate the regions of a write-up from kept results: runs, findings and tables."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from perfrunner.domain import NO_BUCKET, Case
from perfrunner.errors import UsageError
from perfrunner.report.model import HOSTS
from perfrunner.report.numbers import change, mean_text, scale_for, scale_of, spread, verdict_text
from perfrunner.report.pages import lines_of, merged
from perfrunner.report.published import counts_text, plain, published_text, their_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from perfrunner.analysis import Row
    from perfrunner.analysis.published import PublishedLine
    from perfrunner.report.model import Report
    from perfrunner.report.pages import Page
    from perfrunner.results import ExperimentData, TrialRecord

MAY_BE_MISSING = "?"  # before a pattern


def shown_trials(page: Page) -> Iterator[tuple[Report, ExperimentData, list[TrialRecord], str]]:
    """Yield report, data, shown trials and their duration for each kept experiment that has any."""
    for report, data in zip(page.reports(), page.experiments, strict=True):
        cases = set(report.comparison.cases)
        trials = [t for t in data.trials if t.case in cases]
        if trials:
            first, last = (min(t.started_at for t in trials), max(t.finished_at for t in trials))
            yield report, data, trials, _minutes((last - first).total_seconds())


def runs(page: Page) -> Iterable[str]:
    """Yield a table with a column for each run (id, seed, hosts and size), and the warnings."""
    shown = [
        (_facts_of_run(page, report, data, trials, took), report.warnings)
        for report, data, trials, took in shown_trials(page)
    ]
    columns = [facts for facts, _ in shown]
    for n, label in enumerate(columns[0] if columns else ()):
        yield f"| {' | '.join((label, *(facts[label] for facts in columns)))} |"
        if n == 0:
            yield "|:--|" + ":--|" * len(columns)
    yield ""
    for warning in dict.fromkeys(warning for _, warnings in shown for warning in warnings):
        yield f"> {plain(warning)}"
        yield ""


def _facts_of_run(
    page: Page, report: Report, data: ExperimentData, trials: list[TrialRecord], took: str
) -> dict[str, str]:
    named = dict.fromkeys(_named_case(c, page) for c in report.comparison.cases)
    hosts = next((f.value for f in report.context if f.label == HOSTS), "unknown host")
    compilers = {_compiler(build.provenance) for build in data.builds}
    discarded = sum(t.status != "ok" for t in trials)
    return {
        "run": f"`{data.experiment.id}`",
        "workloads": ", ".join(named),
        "seed": str(data.experiment.seed),
        "hosts": plain(hosts),
        "built with": f"perfrunner {data.experiment.tool_version}, {', '.join(sorted(compilers))}",
        "blocks": str(report.comparison.blocks),
        "trials": f"{len(trials)}, {discarded or 'none'} discarded",
        "duration without builds": took,
    }


def _named_case(case: Case, page: Page) -> str:
    """Return the workload if one run measured all its shown cases, otherwise the case."""
    having = [
        r for r in page.reports() if any(c.workload == case.workload for c in r.comparison.cases)
    ]
    return case.workload if len(having) == 1 else str(case)


def _compiler(provenance: Mapping[str, Any]) -> str:
    compiler = provenance.get("compiler")
    return str(compiler.get("version", "")) if isinstance(compiler, dict) else str(compiler or "")


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def findings(page: Page) -> Iterable[str]:
    """Yield a table of the changes of the primary metrics, and a count of the published values that agree."""
    reports = page.reports()
    rows = [r for report in reports for r in report.comparison.rows if r.primary and r.effect]
    variants = list(dict.fromkeys(row.variant for row in rows))
    yield "| primary metric | case | " + " | ".join(f"`{v}`" for v in variants) + " |"
    yield "|:--|:--|" + "--:|" * len(variants)
    by_case: dict[tuple[str, Case], dict[str, Row]] = {}
    for row in rows:
        by_case.setdefault((row.metric.id, row.case), {})[row.variant] = row
    for (metric, case), by_variant in by_case.items():
        changes = (_changed(by_variant[v]) if v in by_variant else "" for v in variants)
        yield f"| `{metric}` | {case} | {' | '.join(changes)} |"
    if counts := counts_text(merged(reports, page)):
        yield ""
        yield f"Published changes: {counts}."


def _changed(row: Row) -> str:
    assert row.effect is not None
    text = change(row.effect, row.metric, scale_of(row.metric, row.summary.mean))
    return f"{text} {verdict_text(row)}".rstrip()


def table(
    page: Page,
    place: str,
    patterns: str,
    baseline: str | None = None,
    *,
    text: Callable[[Row, list[Row]], str] | None = None,
) -> Iterable[str]:
    """Yield a table with a line for each metric and a column for each variant."""
    workload, _, bucket = place.partition("/")
    case = Case(workload, bucket or NO_BUCKET)
    report = next((r for r in page.reports(baseline) if case in r.comparison.cases), None)
    if report is None:
        raise UsageError(f"{page.path}: no {case} among the kept results")
    groups: dict[str, list[Row]] = {}
    for pattern in patterns.split(","):
        glob = pattern.removeprefix(MAY_BE_MISSING)
        matching = {m: rows for m, rows in report.rows(case).items() if fnmatchcase(m, glob)}
        if not matching and glob == pattern:
            raise UsageError(
                f"{page.path}: no metric of {case} matches {glob}",
                f"write {MAY_BE_MISSING}{glob} if a kept run may lack it",
            )
        groups.update(matching)
    if not groups:
        raise UsageError(f"{page.path}: no metric of {case} matches {patterns}")
    yield "| | " + " | ".join(f"`{v}`" for v in report.comparison.variants) + " |"
    yield "|:--|" + "--:|" * len(report.comparison.variants)
    for metric, rows in groups.items():
        mine = {row.variant: row for row in rows}
        cases = [
            (text or _case)(mine[v], rows) if v in mine else "" for v in report.comparison.variants
        ]
        yield f"| `{metric}` | " + " | ".join(cases) + " |"


def deviation(row: Row, rows: list[Row]) -> str:
    """Return the largest distance of a block from the mean, as text."""
    del rows
    deviation = row.summary.max_deviation
    unit = scale_of(row.metric, deviation)
    return f"{unit.number(deviation, 3)} pt" if row.metric.unit == "%" else unit.text(deviation)


def _case(row: Row, rows: list[Row]) -> str:
    scale = scale_for(row, rows)
    text = f"{mean_text(row.summary, scale)} {spread(row.summary, row.metric, scale)}"
    if row.effect is None:
        return text
    return f"{text} · {change(row.effect, row.metric, scale)} {verdict_text(row)}".rstrip()


def theirs_alone(page: Page) -> Iterable[str]:
    """Yield the published tables without measured values, for a page without kept results."""
    lines = lines_of(page)
    for title in dict.fromkeys(line.table for line in lines):
        mine = [line for line in lines if line.table == title]
        variants = list(dict.fromkeys(line.variant for line in mine))
        yield f"| {plain(title)} | " + " | ".join(f"`{v}`" for v in variants) + " |"
        yield "|:--|" + "--:|" * len(variants)
        for label in dict.fromkeys(line.label for line in mine):
            by_variant = {line.variant: line for line in mine if line.label == label}
            cases = [
                " ".join(filter(None, (published_text(line.theirs, line), _parenthesis(line))))
                if (line := by_variant.get(v)) else ""
                for v in variants
            ]  # fmt: skip
            yield f"| {plain(label)} | " + " | ".join(cases) + " |"
        yield ""


def _parenthesis(line: PublishedLine) -> str:
    text = their_change(line)
    return f"({text})" if text else ""
