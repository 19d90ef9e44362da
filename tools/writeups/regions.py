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

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from perfrunner.domain import NO_BUCKET, Case
from perfrunner.errors import UsageError
from perfrunner.report.model import HOSTS
from perfrunner.report.numbers import (
    change,
    change_of,
    mean_text,
    scale_for,
    scale_of,
    spread,
    verdict_text,
)
from perfrunner.report.published import (
    MARKS,
    counts_text,
    measured_change,
    plain,
    published_change,
    published_tables,
    published_text,
)
from tools.writeups.pages import IMAGES, REGION, SPEC_LINE, lines_of, merged, read_page

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from perfrunner.analysis.model import Row
    from perfrunner.analysis.published import PublishedLine
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData, TrialRecord
    from tools.writeups.pages import Page


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
    of_an_index = {"contents": contents, "overview": overview}
    if what in of_an_index:
        return of_an_index[what]([read_page(path.parent / name) for name in words])
    if page is None:
        raise UsageError(f"{path} names no spec", "add <!-- spec: PATH --> to its first lines")
    if what == "published" and not page.experiments:
        return published_alone(page)
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
    compilers = filter(None, {_compiler(build.provenance) for build in data.builds})
    discarded = sum(t.status != "ok" for t in trials)
    return {
        "run": f"`{data.experiment.id}`",
        "workloads": ", ".join(named),
        "seed": str(data.experiment.seed),
        "hosts": plain(hosts),
        "built with": ", ".join([f"perfrunner {data.experiment.tool_version}", *sorted(compilers)]),
        **({"servers": servers} if (servers := _servers(data)) else {}),
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


def _servers(data: ExperimentData) -> str:
    """Return kind and version of each server other than the engine."""
    known = [build.settings for build in data.builds if "server.kind" in build.settings]
    named = {f"{s['server.kind']} {s.get('server.version', '')}".rstrip() for s in known}
    return ", ".join(sorted(named))


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
    text = change_of(row)
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


def published_alone(page: Page) -> Iterable[str]:
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
                " ".join(filter(None, (published_text(line.published, line), _parenthesis(line))))
                if (line := by_variant.get(v)) else ""
                for v in variants
            ]  # fmt: skip
            yield f"| {plain(label)} | " + " | ".join(cases) + " |"
        yield ""


def _parenthesis(line: PublishedLine) -> str:
    text = published_change(line)
    return f"({text})" if text else ""


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
            measured = measured_change(line) if kept else "on its page, not kept as data"
            yield f"|  | {what} | {published_change(line)} | {measured} | {_word(line) if kept else ''} |  |"


def _is_shown(line: PublishedLine, headline: bool) -> bool:
    return line.measured is not None and (headline or line.agreement == "disagrees")


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
    missing = sum(line.measured is None for line in lines)
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
