"""Read write-ups: Markdown pages whose tables are generated from kept results.

A page NAME.md has its data in `data/NAME.json.gz` (see archive.py) and names its spec:

    <!-- spec: ../../specs/experiments/NAME.yaml -->

Its results are in generated regions, which regions.py updates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.analysis.model import Comparison
from perfrunner.analysis.published import published_lines
from perfrunner.domain import Case
from perfrunner.errors import UsageError
from perfrunner.report.build import build_report
from perfrunner.spec.loader import load_spec
from perfrunner.spec.model import Spec
from tools.writeups.archive import read_archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.analysis.published import PublishedLine
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData
    from perfrunner.spec.expectations import PublishedValues

DATA = "data"
IMAGES = Path("..") / "images"
SPEC_LINE = re.compile(r"<!-- spec: (\S+) -->")
REGION = re.compile(r"(<!-- generated: ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A write-up: its spec and its kept experiments."""

    path: Path
    spec_path: Path
    spec: Spec
    experiments: tuple[ExperimentData, ...]

    @property
    def title(self) -> str:
        match = _TITLE.search(self.path.read_text(encoding="utf-8"))
        return self.path.stem if match is None else match.group(1)

    @property
    def published(self) -> PublishedValues | None:
        return self.spec.published

    def reports(self, baseline: str | None = None) -> list[Report]:
        """Return a report of each kept experiment; a case that several measured belongs to the last one."""
        if baseline not in self._reports:
            self._reports[baseline] = self._made(baseline)
        return self._reports[baseline]

    @cached_property
    def _reports(self) -> dict[str | None, list[Report]]:
        return {}

    def _made(self, baseline: str | None) -> list[Report]:
        reports: list[Report] = []
        later: set[Case] = set()
        for data in reversed(self.experiments):
            mine = cases_of(data) - later
            later |= mine
            reports.insert(0, _only(build_report(data, baseline, self.published), mine))
        return reports


def read_page(path: Path) -> Page:
    """Read a page. Raises UsageError if it names no spec."""
    named = SPEC_LINE.search(path.read_text(encoding="utf-8"))
    if named is None:
        raise UsageError(f"{path} names no spec", "add <!-- spec: PATH --> to its first lines")
    spec_path = path.parent / named.group(1)
    spec = load_spec(spec_path, [], None)
    data = data_file(path)
    return Page(path, spec_path, spec, read_archive(data) if data.exists() else ())


def data_file(page: Path) -> Path:
    """Return the path of the kept results of a page."""
    return page.parent / DATA / f"{page.stem}.json.gz"


def charts_of(path: Path) -> list[str]:
    """Return the names of the charts that a page shows."""
    regions = REGION.findall(path.read_text(encoding="utf-8"))
    return [what.split()[1] for _, what, _, _ in regions if what.startswith("chart ")]


def image_file(page: Path, chart: str) -> Path:
    """Return the path of a page's chart."""
    return page.parent / IMAGES / f"{page.stem}-{chart}.svg"


def merged(reports: Sequence[Report], page: Page) -> Report:
    """Merge reports of several experiments into one; each row keeps its verdict."""
    first = reports[0]
    comparison = replace(
        first.comparison,
        cases=tuple(case for report in reports for case in report.comparison.cases),
        rows=tuple(row for report in reports for row in report.comparison.rows),
    )
    lines = () if page.published is None else published_lines(page.published, comparison)
    return replace(first, comparison=comparison, published_lines=lines)


def lines_of(page: Page) -> Sequence[PublishedLine]:
    """Return every published value, with the measured one if kept."""
    if page.experiments:
        return merged(page.reports(), page).published_lines
    nothing = Comparison(page.spec.baseline, tuple(page.spec.variants), (), (), (), 0, 0)
    return () if page.published is None else published_lines(page.published, nothing)


def cases_of(data: ExperimentData) -> set[Case]:
    """Return the cases that an experiment measured."""
    return {trial.case for trial in data.trials}


def _only(report: Report, cases: set[Case]) -> Report:
    comparison = report.comparison
    kept = replace(
        comparison,
        cases=tuple(c for c in comparison.cases if c in cases),
        rows=tuple(r for r in comparison.rows if r.case in cases),
    )
    return replace(report, comparison=kept)
