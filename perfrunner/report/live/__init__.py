"""A running experiment in a browser of this machine: read-only, by the standard library's server."""

from __future__ import annotations

from perfrunner.report.live.server import LiveServer

__all__ = ["LiveServer"]
