"""Draw charts with matplotlib, which is imported on first use. The same data gives the same bytes."""

from __future__ import annotations

from perfrunner.report.charts.gallery import Chart, draw_charts, main_charts

__all__ = ["Chart", "draw_charts", "main_charts"]
