"""The raw files of the trials that a report is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.analysis.cells import clean_blocks
from perfrunner.results.raw import RawSeries, read_series

if TYPE_CHECKING:
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData


def read_raw(report: Report, data: ExperimentData) -> RawSeries:
    """Of the cells of a report; nothing of two experiments: the series of one would mislead."""
    if not report.comparison.paired:
        return RawSeries()
    clean = clean_blocks(data.trials)
    return read_series(data, [clean[cell] for cell in report.comparison.cells if cell in clean])
