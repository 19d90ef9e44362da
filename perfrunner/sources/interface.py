"""Check that this perfrunner can drive an engine: the version number in engine_src/INTERFACE.

The number covers the flags, the STAT keys, the output of the load tools and the slices of a benchmark. Every change
that breaks them increments it. A source without the file predates it and has interface 1.
"""

from __future__ import annotations

from pathlib import Path

from perfrunner.errors import UsageError
from perfrunner.sources.model import ResolvedSource

FILE = "INTERFACE"
BEFORE_IT = 1
SUPPORTED = range(1, 4)
TOOLS_FROM = (
    3  # from this version on, pillowfight reads the CPU clocks of all variants, and takes --idle
)


def interface_of(source: Path) -> int:
    """Return the interface number of a source. Raises UsageError when the file holds no number."""
    path = source / FILE
    if not path.is_file():
        return BEFORE_IT
    text = path.read_text(encoding="utf-8").split("\n", maxsplit=1)[0].strip()
    if not text.isdigit():
        raise UsageError(f"{path}: expected a number, got {text[:40]!r}")
    return int(text)


def check_interface(source: ResolvedSource) -> None:
    """Raise UsageError for an engine that this perfrunner cannot drive."""
    if source.interface in SUPPORTED:
        return
    least, most = SUPPORTED.start, SUPPORTED.stop - 1
    older = source.interface < least
    raise UsageError(
        f"{source.text} has interface {source.interface} ({FILE}); this perfrunner drives {least} to {most}",
        "use the perfrunner version of that source" if older else "use a newer perfrunner",
    )


def check_tools(source: ResolvedSource) -> None:
    """Raise UsageError for a source whose load tools this perfrunner cannot use.

    The sources of variants may be older than that of the tools.
    """
    if source.interface < TOOLS_FROM:
        raise UsageError(
            f"{source.text} has interface {source.interface} ({FILE}); "
            f"this perfrunner needs load tools of {TOOLS_FROM} or later",
            "build the tools from a newer --engine-src, and use this source as the `source` of a variant",
        )
