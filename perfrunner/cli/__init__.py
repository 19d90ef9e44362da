"""The command line: one module for each command, which parses options, calls a package and prints."""

from __future__ import annotations

from perfrunner.cli.group import main

__all__ = ["main"]
