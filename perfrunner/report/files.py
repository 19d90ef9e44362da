"""Reports that are files: charts as PNG and SVG, and the HTML page. Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.errors import StoreError

if TYPE_CHECKING:
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData


# What a page has as pictures, for readers without scripts: its comparison is of HTML anyway.
STATIC = ("reference", "trials", "fragmentation", "heap", "series")


def write_charts(
    report: Report, data: ExperimentData, directory: Path, *, png: bool = False, every: bool = False
) -> tuple[list[Path], list[str]]:
    """The main charts (`every`: all) as NAME.svg, the one to attach (`png`: all) also as NAME.png; the paths, and
    notes on what could not be drawn.
    """
    from perfrunner.report.charts import draw_charts
    from perfrunner.report.names import main_charts
    from perfrunner.report.raw import read_raw

    raw = read_raw(report, data)
    charts = draw_charts(report, data, raw, png=png or main_charts(report), every=every)
    written: list[Path] = []
    for chart in charts:
        for suffix, content in ((".svg", chart.svg), (".png", chart.png)):
            if content is not None:
                written.append(write_whole(directory / f"{chart.name}{suffix}", content))
    return written, list(raw.notes)


def write_html(report: Report, data: ExperimentData, path: Path) -> Path:
    """One self-contained page."""
    from perfrunner.report.charts import draw_charts
    from perfrunner.report.page import html_text
    from perfrunner.report.raw import read_raw

    raw = read_raw(report, data)
    charts = draw_charts(report, data, raw, names=STATIC)
    return write_whole(path, html_text(report, data, raw, charts, path).encode())


def write_whole(path: Path, content: bytes) -> Path:
    """Write beside it and rename, so that a full disk leaves the old file."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return path
