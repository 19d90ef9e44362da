"""Show a running experiment in a browser on this machine, read-only, with the standard library's server."""

from __future__ import annotations

from perfrunner.report.live.server import LiveServer

__all__ = ["LiveServer"]
