"""Write-ups: pages of Markdown whose tables are made from kept results, so that text and data cannot part.

A page NAME.md lies beside `data/NAME.json.gz` (see `results.archive`) and says of which spec it is:

    <!-- spec: ../../specs/experiments/NAME.yaml -->

What stands between `<!-- generated: WHAT -->` and `<!-- end -->` is made anew by `renewed`. WHAT is one of

    run                                which runs, when, where, from which seed
    findings                           the verdicts of the primary metrics, and what agrees with the reference
    beside                             the reference's tables, ours beside them
    table WORKLOAD METRICS [BASELINE]  ours: a line a metric (glob patterns joined by commas), a column a variant;
                                       WORKLOAD may be NAME/BUCKET
    deviations WORKLOAD METRICS        the same metrics: the largest distance of a block from the mean
    chart NAME                         the report's chart of that name, an image of its own
    overview PAGE...                   (of an index) a line a page: claim, theirs, ours, verdict, why

Without kept results a region stays as it is, but for `beside`, which then shows theirs alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis import Cell, Comparison
from perfrunner.analysis.reference import beside
from perfrunner.errors import UsageError
from perfrunner.report.beside import MARKS, our_change, published_text, their_change
from perfrunner.report.beside_markdown import beside_tables, plain
from perfrunner.report.build import build_report
from perfrunner.report.numbers import change, mean_text, scale_for, scale_of, spread, verdict_text
from perfrunner.results.archive import read_archive
from perfrunner.spec import Spec, load_spec
from perfrunner.spec.cell import NO_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfrunner.analysis import Row
    from perfrunner.analysis.reference import BesideLine
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData
    from perfrunner.spec.reference import Reference

DATA = "data"
VERDICTS = ("better", "worse", "same", "unsure", "invalid")
IMAGES = Path("..") / "images"
_SPEC = re.compile(r"<!-- spec: (\S+) -->")
_REGION = re.compile(r"(<!-- generated: ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A write-up: its spec, and the kept experiments, each with the workloads that it is shown for."""

    path: Path
    spec: Spec
    experiments: tuple[ExperimentData, ...]

    @property
    def reference(self) -> Reference | None:
        return self.spec.reference

    def reports(self, baseline: str | None = None) -> list[Report]:
        """Of each kept experiment; a workload that several measured is the last one's."""
        if baseline not in self._reports:
            self._reports[baseline] = self._made(baseline)
        return self._reports[baseline]

    @cached_property
    def _reports(self) -> dict[str | None, list[Report]]:
        return {}

    def _made(self, baseline: str | None) -> list[Report]:
        found: list[Report] = []
        later: set[str] = set()
        for data in reversed(self.experiments):
            mine = {t.workload for t in data.trials} - later
            later |= mine
            found.insert(0, _only(build_report(data, baseline, self.reference), mine))
        return found


def read_page(path: Path) -> Page:
    """Raises UsageError for a page that names no spec."""
    named = _SPEC.search(path.read_text(encoding="utf-8"))
    if named is None:
        raise UsageError(f"{path} names no spec", "its first lines hold <!-- spec: PATH -->")
    spec = load_spec(path.parent / named.group(1), [], None)
    data = data_file(path)
    return Page(path, spec, read_archive(data) if data.exists() else ())


def data_file(page: Path) -> Path:
    """Where the results of a page are kept."""
    return page.parent / DATA / f"{page.stem}.json.gz"


def renewed(path: Path) -> str:
    """The page's text with every region made anew from its kept results."""
    text = path.read_text(encoding="utf-8")
    page = read_page(path) if _SPEC.search(text) else None

    def region(match: re.Match[str]) -> str:
        what, *words = match.group(2).split()
        lines = _region(page, path, what, words)
        body = match.group(3) if lines is None else _joined(lines)
        return f"{match.group(1)}{body}{match.group(4)}"

    return _REGION.sub(region, text)


def charts_of(path: Path) -> list[str]:
    """The names of the charts that a page shows."""
    found = _REGION.findall(path.read_text(encoding="utf-8"))
    return [what.split()[1] for _, what, _, _ in found if what.startswith("chart ")]


def image_file(page: Path, chart: str) -> Path:
    """Where a page's chart lies."""
    return page.parent / IMAGES / f"{page.stem}-{chart}.svg"


def _joined(lines: Iterable[str]) -> str:
    text = "\n".join(lines).strip("\n")
    return f"\n{text}\n\n" if text else "\n"


def _region(page: Page | None, path: Path, what: str, words: list[str]) -> Iterable[str] | None:
    """The lines; None: leave what is there."""
    if what == "overview":
        return _overview([read_page(path.parent / name) for name in words])
    if page is None:
        raise UsageError(f"{path} names no spec", "its first lines hold <!-- spec: PATH -->")
    if what == "beside" and not page.experiments:
        return _theirs_alone(page)
    if not page.experiments:
        return None
    if what == "run":
        return _runs(page)
    if what == "findings":
        return _findings(page)
    if what == "beside":
        return beside_tables(merged(page.reports(), page))
    if what == "table" and len(words) in (2, 3):
        return _table(page, *words)
    if what == "deviations" and len(words) == 2:
        return _table(page, words[0], words[1], text=_deviation)
    if what == "chart" and len(words) == 1:
        image = IMAGES / f"{path.stem}-{words[0]}.svg"
        return [f"![{words[0].replace('-', ' ')}]({image.as_posix()})"]
    raise UsageError(f"{path}: unknown region {' '.join([what, *words])!r}")


def merged(reports: Sequence[Report], page: Page) -> Report:
    """One report of several experiments, for `beside`: the rows stand side by side, each with its own verdict."""
    first = reports[0]
    comparison = replace(
        first.comparison,
        cells=tuple(cell for report in reports for cell in report.comparison.cells),
        rows=tuple(row for report in reports for row in report.comparison.rows),
    )
    lines = () if page.reference is None else beside(page.reference, comparison)
    return replace(first, comparison=comparison, beside=lines)


def _only(report: Report, workloads: set[str]) -> Report:
    comparison = report.comparison
    kept = replace(
        comparison,
        cells=tuple(c for c in comparison.cells if c.workload in workloads),
        rows=tuple(r for r in comparison.rows if r.cell.workload in workloads),
    )
    return replace(report, comparison=kept)


def _runs(page: Page) -> Iterable[str]:
    for report, data in zip(page.reports(), page.experiments, strict=True):
        workloads = list(dict.fromkeys(c.workload for c in report.comparison.cells))
        trials = [t for t in data.trials if t.workload in workloads]
        if not trials:
            continue
        seconds = (
            max(t.finished_at for t in trials) - min(t.started_at for t in trials)
        ).total_seconds()
        hosts = next((f.value for f in report.context if f.label == "hosts"), "unknown host")
        compilers = {_compiler(build.provenance) for build in data.builds}
        spoiled = sum(t.status != "ok" for t in trials)
        n = report.comparison.blocks
        yield (
            f"{', '.join(workloads)}: run `{data.experiment.id}`, seed {data.experiment.seed}, perfrunner"
            f" {data.experiment.tool_version}, {', '.join(sorted(compilers))}; {plain(hosts)}."
            f" {n} block{'' if n == 1 else 's'}, {len(trials)} trials, {spoiled or 'none'} void, in"
            f" {_minutes(seconds)} without the builds."
        )
        yield ""
        for warning in report.warnings:
            yield f"> {plain(warning)}"
            yield ""


def _compiler(provenance: Mapping[str, Any]) -> str:
    compiler = provenance.get("compiler")
    return str(compiler.get("version", "")) if isinstance(compiler, dict) else str(compiler or "")


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def _findings(page: Page) -> Iterable[str]:
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


def _table(
    page: Page,
    place: str,
    patterns: str,
    baseline: str | None = None,
    *,
    text: Callable[[Row, list[Row]], str] | None = None,
) -> Iterable[str]:
    workload, _, bucket = place.partition("/")
    cell = Cell(workload, bucket or NO_BUCKET)
    report = next((r for r in page.reports(baseline) if cell in r.comparison.cells), None)
    if report is None:
        raise UsageError(f"{page.path}: no {cell} among the kept results")
    globs = patterns.split(",")
    groups = {
        metric: rows
        for glob in globs
        for metric, rows in report.rows(cell).items()
        if fnmatchcase(metric, glob)
    }
    if not groups:
        raise UsageError(f"{page.path}: no metric of {cell} matches {patterns}")
    yield "| | " + " | ".join(f"`{v}`" for v in report.comparison.variants) + " |"
    yield "|:--|" + "--:|" * len(report.comparison.variants)
    for metric, rows in groups.items():
        found = {row.variant: row for row in rows}
        cells = [
            (text or _cell)(found[v], rows) if v in found else ""
            for v in report.comparison.variants
        ]
        yield f"| `{metric}` | " + " | ".join(cells) + " |"


def _deviation(row: Row, rows: list[Row]) -> str:
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


def _theirs_alone(page: Page) -> Iterable[str]:
    lines = _lines_of(page)
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


def _overview(pages: Sequence[Page]) -> Iterable[str]:
    yield "| experiment, claim | of it | theirs | ours [95 %] | verdict | why they may differ |"
    yield "|:--|:--|--:|--:|:--|:--|"
    for page in pages:
        reference = page.reference
        if reference is None:
            continue
        kept = bool(page.experiments)
        lines = headline_lines(_lines_of(page), page.spec.primary)
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


def _lines_of(page: Page) -> Sequence[BesideLine]:
    if page.experiments:
        return merged(page.reports(), page).beside
    nothing = Comparison(page.spec.baseline, tuple(page.spec.variants), (), (), (), 0, 0)
    return () if page.reference is None else beside(page.reference, nothing)


def headline_lines(lines: Sequence[BesideLine], primary: Sequence[str]) -> list[BesideLine]:
    """The compared lines of primary metrics, each once; all compared ones where no primary metric was published."""
    compared = [line for line in lines if line.effect is not None]
    first = [line for line in compared if line.metric.id in primary] or compared
    return list({(ln.metric.id, ln.cell, ln.variant): ln for ln in reversed(first)}.values())[::-1]


def _word(line: BesideLine) -> str:
    return f"{MARKS[line.agreement]} {line.agreement}" if line.agreement else ""
