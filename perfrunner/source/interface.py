"""Which engines this perfrunner can drive: a number in engine_src/INTERFACE, raised with every change that breaks it.

It covers what perfrunner asks of an engine and its tools: flags, STAT keys, what a load tool prints, the slices of a
benchmark. A source without the file is of the time before it, which is interface 1.
"""

from __future__ import annotations

from pathlib import Path

from perfrunner.errors import UsageError
from perfrunner.source.model import ResolvedSource

FILE = "INTERFACE"
BEFORE_IT = 1
SUPPORTED = range(1, 3)
TOOLS_FROM = 2  # since then pillowfight fills the arms of an ensemble itself


def interface_of(source: Path) -> int:
    """The number. UsageError when the file holds none."""
    path = source / FILE
    if not path.is_file():
        return BEFORE_IT
    text = path.read_text(encoding="utf-8").split("\n", maxsplit=1)[0].strip()
    if not text.isdigit():
        raise UsageError(f"{path} holds no number, but {text[:40]!r}")
    return int(text)


def check_interface(source: ResolvedSource) -> None:
    """UsageError for an engine that this perfrunner cannot drive."""
    if source.interface in SUPPORTED:
        return
    least, most = SUPPORTED.start, SUPPORTED.stop - 1
    older = source.interface < least
    raise UsageError(
        f"{source.text} has interface {source.interface} ({FILE}); this perfrunner drives {least} to {most}",
        "compare it with the perfrunner of its own time" if older else "use a newer perfrunner",
    )


def check_tools(source: ResolvedSource) -> None:
    """UsageError for a source whose load tools this perfrunner cannot use. Arms may be older than the tools."""
    if source.interface < TOOLS_FROM:
        raise UsageError(
            f"{source.text} has interface {source.interface} ({FILE}); "
            f"this perfrunner needs load tools of {TOOLS_FROM} or later",
            "give a newer --engine-src, from which the tools are built, and name this one as an arm's `source`",
        )
