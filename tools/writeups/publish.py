"""Publish an experiment: store its data next to its write-up, and regenerate page, charts and index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.errors import UsageError
from perfrunner.report.charts import draw_charts
from perfrunner.report.render import read_raw
from perfrunner.results.files import write_whole
from tools.writeups.archive import archive_bytes
from tools.writeups.pages import cases_of, charts_of, data_file, image_file, merged, read_page
from tools.writeups.regions import renewed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfrunner.domain import Case
    from perfrunner.report.charts import Chart
    from perfrunner.results import ExperimentData
    from tools.writeups.pages import Page

INDEX = "README.md"
OF_SERIES = ("series-", "rounds-")  # charts that need raw series, which are not kept


def publish(
    path: Path, experiment: ExperimentData | None = None, *, add: bool = False
) -> list[Path]:
    """Write the data, the charts and the text of a page and its index, and return their paths.

    With `add` the page keeps its other experiments, and the new one replaces the cases it measured.
    Without an experiment everything is regenerated from the kept data. Charts of raw series, which are
    not kept, stay as they are.
    """
    page = read_page(path)
    written: list[Path] = []
    if experiment is not None:
        if experiment.experiment.name != page.spec.name:
            raise UsageError(
                f"{path} is about {page.spec.name}, {experiment.experiment.id} is a run of"
                f" {experiment.experiment.name}"
            )
        kept = _still_shown([*(page.experiments if add else ()), experiment])
        written.append(write_whole(data_file(path), archive_bytes(kept)))
        page = read_page(path)
    if page.experiments:
        written += _draw(page, experiment)
    for text_file in (path, path.parent / INDEX):
        if text_file.exists():
            written.append(write_whole(text_file, renewed(text_file).encode()))
    return written


def _still_shown(experiments: Sequence[ExperimentData]) -> list[ExperimentData]:
    kept: list[ExperimentData] = []
    later: set[Case] = set()
    for data in reversed(experiments):
        mine = cases_of(data)
        if mine - later:
            kept.insert(0, data)
        later |= mine
    return kept


def _draw(page: Page, measured: ExperimentData | None) -> list[Path]:
    """Draw the charts that the page names; the first of several experiments draws the rows of all.

    `measured` is the experiment whose raw series are available.
    """
    wanted = charts_of(page.path)
    if not wanted:
        return []
    reports = page.reports()
    charts: dict[str, Chart] = {}
    for report, kept in zip([merged(reports, page), *reports[1:]], page.experiments, strict=True):
        whole = measured is not None and measured.experiment.id == kept.experiment.id
        data = measured if measured is not None and whole else kept
        for chart in draw_charts(report, data, read_raw(report, data), only=wanted):
            charts.setdefault(chart.name, chart)
    missing = [
        name
        for name in wanted
        if name not in charts
        and not (name.startswith(OF_SERIES) and image_file(page.path, name).exists())
    ]
    if missing:
        raise UsageError(
            f"{page.path} names charts that its results cannot produce: {', '.join(missing)}",
            "list the available charts with perfrunner report --charts DIR",
        )
    return [write_whole(image_file(page.path, name), chart.svg) for name, chart in charts.items()]
