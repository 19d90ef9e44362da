"""Render a report as one self-contained HTML page: no server, no other file, no request."""

from __future__ import annotations

from perfrunner.report.page.assemble import html_text

__all__ = ["html_text"]
