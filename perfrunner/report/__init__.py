"""Turn the analysis of an experiment into reports for people and programs.

`build_report` makes one model, and every renderer shows that model. Reports only read the store, so
they run on a laptop without an engine.
"""

from __future__ import annotations

from perfrunner.report.build import build_report, report_of
from perfrunner.report.model import Report
from perfrunner.report.render import render, write_charts, write_html

__all__ = ["Report", "build_report", "render", "report_of", "write_charts", "write_html"]
