"""Print results to stdout and everything else to stderr."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from perfrunner.errors import StoreError
from perfrunner.text import never_refuse, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import ReadableBuffer
    from rich.console import Console

WIDTH_OF_A_PIPE = 200
# Of $COLUMNS. Other numbers come from programs that do not know the width.
_WIDTHS = range(20, 10_001)
NOTIFY_S = 300.0  # of a command that delivers a mail
REPEATED = "it will be included in the next run's summary"


class _Stderr(io.FileIO):
    """The file descriptor of stderr. A lost message (a full disk, a closed pipe) does not change the result."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


class LostOutput(OSError):  # noqa: N818
    """Stdout cannot be written, as opposed to a file: its disk is full, or its terminal has gone."""


class _Stdout(io.FileIO):
    """The file descriptor of stdout; an error of a write is a LostOutput, unless only the reader has gone."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise LostOutput(error.errno, error.strerror) from error


def print_json(document: Any) -> None:
    """Print one JSON document to stdout."""
    click.echo(json.dumps(document, indent=2, default=str, allow_nan=False))


def new_console(**options: Any) -> Console:
    """Return a rich console that ignores an absurd $COLUMNS, and whose reader may go without ending the program.

    Rich itself would end the program with 1, also if it is only the reader of the progress that has gone.
    """
    from rich.console import Console

    class LastingConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    environment = dict(os.environ)
    columns = environment.get("COLUMNS", "")
    if not (columns.isdecimal() and int(columns[:9]) in _WIDTHS):
        environment.pop("COLUMNS", None)
    return LastingConsole(highlight=False, soft_wrap=False, _environ=environment, **options)


def result_console() -> Console:
    """Return a console for tables on stdout.

    In a pipe it has no colour. Its width is then $COLUMNS, or a large one so that nothing is cut.
    """
    console = new_console()
    if not console.is_terminal:
        width = console.width if "COLUMNS" in console._environ else WIDTH_OF_A_PIPE  # noqa: SLF001
        console = new_console(width=width, no_color=True)
    return console


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout. A cell that is too wide is folded, so that an id can be copied."""
    from rich.markup import escape
    from rich.table import Column, Table

    table = Table(*(Column(name, overflow="fold") for name in columns), box=None)
    for row in rows:
        table.add_row(*map(escape, row))
    result_console().print(table)


def result(text: str) -> None:
    """Print a result to stdout. A reader that has gone (`| head`) is not an error; a full disk is."""
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()


def abandon_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's final flush does not fail either."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)


def hold_standard_streams() -> None:
    """Make stdin, stdout and stderr usable even if the caller closed them.

    If one is closed (`>&-`), the next file opened would get its number and receive its output. If
    an encoding lacks a character, the nearest one is written.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
    sys.stdout = _with_file(sys.stdout, 1, _Stdout)
    sys.stderr = _with_file(sys.stderr, 2, _Stderr)
    never_refuse(sys.stdout)
    never_refuse(sys.stderr)


def _with_file(old: TextIO, descriptor: int, kind: type[io.FileIO]) -> TextIO:
    """Return a stream like `old` that writes with `kind`; `old` itself unless it is the process's own."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor: of a test
        if old.fileno() == descriptor and isinstance(old, io.TextIOWrapper):
            raw = kind(descriptor, "w", closefd=False)
            return io.TextIOWrapper(
                raw if old.write_through else io.BufferedWriter(raw),
                encoding=old.encoding,
                errors=old.errors,
                line_buffering=old.line_buffering,
                write_through=old.write_through,
            )
    return old


def deliver(mail: str, command: str | None) -> None:
    """Print a mail, or give it to a shell command. Raises StoreError if nobody got it.

    The mail is the input of the command and never a part of it, because it quotes names and logs.
    """
    if command is None:
        _print_mail(mail)
        return
    if not mail:
        return
    mail = readable(mail)
    subject = mail.partition("\n")[0].removeprefix("Subject: ")
    # As bytes: a locale that is not UTF-8 has no code for some characters.
    environment = {**os.environb, b"PERFRUNNER_SUBJECT": subject.encode()}
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=2, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        process.communicate(mail.encode(), timeout=NOTIFY_S)
        why = f"ended with {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        why = f"took longer than {NOTIFY_S:.0f} s"
    if why:
        raise StoreError(f"the --notify command {why}: {command}", REPEATED)


def _print_mail(mail: str) -> None:
    """Print a mail. The command group handles a full disk."""
    try:
        click.echo(mail, nl=False)
        sys.stdout.flush()
    except BrokenPipeError as error:
        abandon_stdout()
        raise StoreError("cannot write the summary: stdout is closed", REPEATED) from error


def note(text: str) -> None:
    """Print a line to stderr."""
    with contextlib.suppress(OSError):  # the terminal may be closed
        click.echo(text, err=True)


def duration(seconds: float) -> str:
    """Format a duration as `8 s`, `4 min` or `2 h 40 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(number: float) -> str:
    """Format a number of bytes with a unit in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
