"""A static site over stored experiments: an index, and a page a spec, a variant and a host."""

from __future__ import annotations

from perfrunner.report.site.build import write_site

__all__ = ["write_site"]
