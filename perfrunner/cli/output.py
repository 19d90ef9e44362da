"""Printing: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_A_PIPE = 200


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, default=str, allow_nan=False))


def result_console() -> Console:
    """stdout, for tables. In a pipe without colour, and as wide as COLUMNS says, else wide so that nothing is cut."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        told = os.environ.get("COLUMNS", "").isdigit()
        width = console.width if told else WIDTH_OF_A_PIPE
        console = Console(highlight=False, soft_wrap=False, width=width, no_color=True)
    return console


def result(text: str) -> None:
    """The result, on stdout. A reader that has gone (`| head`) is no error; a full disk is one."""
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()


def abandon_stdout() -> None:
    """Nothing more is written there, not at the interpreter's end either."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)


def hold_standard_streams() -> None:
    """Where one is closed (`>&-`), the next file opened would take its place and get what is written there."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115


def note(text: str) -> None:
    """A line on stderr."""
    with contextlib.suppress(OSError):  # a terminal that has gone
        click.echo(text, err=True)


def duration(seconds: float) -> str:
    """`8 s`, `4 min`, `2 h 40 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(number: float) -> str:
    """Bytes for people, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
