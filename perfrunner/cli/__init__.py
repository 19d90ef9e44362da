"""The command line: one module a command, each of them parses, calls and prints."""

from __future__ import annotations

from perfrunner.cli.group import main

__all__ = ["main"]
