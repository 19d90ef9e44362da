"""The report as one page: no server, no other file, no request."""

from __future__ import annotations

from perfrunner.report.page.assemble import html_text

__all__ = ["html_text"]
