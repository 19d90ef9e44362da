"""Write-ups: pages of Markdown whose tables are made from kept results, so that text and data cannot part.

A page NAME.md lies beside `data/NAME.json.gz` (see `results.archive`) and says of which spec it is:

    <!-- spec: ../../specs/experiments/NAME.yaml -->

What it shows of its results stands in regions, which `renewal` makes anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.analysis import Cell, Comparison
from perfrunner.analysis.reference import beside
from perfrunner.errors import UsageError
from perfrunner.report.build import build_report
from perfrunner.results.archive import read_archive
from perfrunner.spec import Spec, load_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.analysis.reference import BesideLine
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData
    from perfrunner.spec.reference import Reference

DATA = "data"
IMAGES = Path("..") / "images"
SPEC_LINE = re.compile(r"<!-- spec: (\S+) -->")
REGION = re.compile(r"(<!-- generated: ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A write-up: its spec, and the kept experiments, each with the cells that it is shown for."""

    path: Path
    spec_path: Path
    spec: Spec
    experiments: tuple[ExperimentData, ...]

    @property
    def title(self) -> str:
        found = _TITLE.search(self.path.read_text(encoding="utf-8"))
        return self.path.stem if found is None else found.group(1)

    @property
    def reference(self) -> Reference | None:
        return self.spec.reference

    def reports(self, baseline: str | None = None) -> list[Report]:
        """Of each kept experiment; a cell that several measured is the last one's."""
        if baseline not in self._reports:
            self._reports[baseline] = self._made(baseline)
        return self._reports[baseline]

    @cached_property
    def _reports(self) -> dict[str | None, list[Report]]:
        return {}

    def _made(self, baseline: str | None) -> list[Report]:
        found: list[Report] = []
        later: set[Cell] = set()
        for data in reversed(self.experiments):
            mine = cells_of(data) - later
            later |= mine
            found.insert(0, _only(build_report(data, baseline, self.reference), mine))
        return found


def read_page(path: Path) -> Page:
    """Raises UsageError for a page that names no spec."""
    named = SPEC_LINE.search(path.read_text(encoding="utf-8"))
    if named is None:
        raise UsageError(f"{path} names no spec", "its first lines hold <!-- spec: PATH -->")
    spec_path = path.parent / named.group(1)
    spec = load_spec(spec_path, [], None)
    data = data_file(path)
    return Page(path, spec_path, spec, read_archive(data) if data.exists() else ())


def data_file(page: Path) -> Path:
    """Where the results of a page are kept."""
    return page.parent / DATA / f"{page.stem}.json.gz"


def charts_of(path: Path) -> list[str]:
    """The names of the charts that a page shows."""
    found = REGION.findall(path.read_text(encoding="utf-8"))
    return [what.split()[1] for _, what, _, _ in found if what.startswith("chart ")]


def image_file(page: Path, chart: str) -> Path:
    """Where a page's chart lies."""
    return page.parent / IMAGES / f"{page.stem}-{chart}.svg"


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


def lines_of(page: Page) -> Sequence[BesideLine]:
    """Every published value, with ours where they are kept."""
    if page.experiments:
        return merged(page.reports(), page).beside
    nothing = Comparison(page.spec.baseline, tuple(page.spec.variants), (), (), (), 0, 0)
    return () if page.reference is None else beside(page.reference, nothing)


def cells_of(data: ExperimentData) -> set[Cell]:
    """What an experiment measured."""
    return {Cell(trial.workload, trial.bucket) for trial in data.trials}


def _only(report: Report, cells: set[Cell]) -> Report:
    comparison = report.comparison
    kept = replace(
        comparison,
        cells=tuple(c for c in comparison.cells if c in cells),
        rows=tuple(r for r in comparison.rows if r.cell in cells),
    )
    return replace(report, comparison=kept)
