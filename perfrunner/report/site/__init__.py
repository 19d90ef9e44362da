"""Write a static site of stored experiments: an index, and a page for each spec, variant and host."""

from __future__ import annotations

from perfrunner.report.site.build import write_site

__all__ = ["write_site"]
