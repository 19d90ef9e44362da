"""Define a resolved source and the distance between two of them, and convert both to an experiment's facts.

A source has an interface number, in engine_src/INTERFACE: it covers the flags, the STAT keys, the output of the load
tools and the slices of a benchmark. Every change that breaks them increments it. A source without the file predates it
and has interface 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perfrunner.domain import known_fields
from perfrunner.errors import UsageError
from perfrunner.text import count_of

SOURCES_FACT = "sources"  # the key of Sources.record() in an experiment's facts
IN_USE = "engine source"  # the name of the source that a variant without `source` is built from
INTERFACE_FILE = "INTERFACE"
INTERFACE_BEFORE_FILE = 1
SUPPORTED = range(1, 4)  # interfaces of engines
TOOLS_FROM = 3  # least interface of load tools: pillowfight reads the CPU clocks of all variants, and takes --idle
MOST_LINES = 20  # at most, in a log, a diffstat or a list of files


@dataclass(frozen=True)
class ResolvedSource:
    """The source of a variant.

    `sha256` is the hash of its content. `directory` is the tree, or the repository of a revision. `commit` (with title
    and date) is the revision, or HEAD of the tree's repository; the files in `dirty` differ from it. `interface` is the
    version in engine_src/INTERFACE.
    """

    name: str
    sha256: str
    directory: str
    interface: int
    revision: bool  # the content of a commit (with a patch), as opposed to a tree
    commit: str | None = None
    title: str | None = None
    date: str | None = None
    dirty: tuple[str, ...] = ()
    patch: str | None = None
    patch_sha256: str | None = None

    @property
    def mark(self) -> str | None:
        """The abbreviated commit, with `-dirty` appended if the content differs from it; None without a commit."""
        if self.commit is None:
            return None
        return self.commit[:12] + ("-dirty" if self.dirty or self.patch else "")

    @property
    def text(self) -> str:
        """One line such as `main: 1a2b3c4d5e6f "checkpoint: one list" of 2026-01-02`, with patch or changes."""
        parts = [self.name]
        if self.commit is not None:
            parts.append(f'{self.commit[:12]} "{self.title}" of {(self.date or "")[:10]}')
        if self.patch is not None and self.patch_sha256 is not None:
            parts.append(f"with {Path(self.patch).name} (sha256 {self.patch_sha256[:12]})")
        if self.dirty:
            shown = ", ".join(self.dirty[:MOST_LINES])
            more = len(self.dirty) - MOST_LINES
            parts.append(f"changed: {shown}" + (f" and {more} more" if more > 0 else ""))
        return f"{parts[0]}: {', '.join([*parts[1:], f'content {self.sha256[:12]}'])}"


@dataclass(frozen=True)
class Distance:
    """The difference between the baseline's source and a variant's: commits ahead and behind, and changed files.

    `log` and `changed` (name, lines added, lines removed) are cut at MOST_LINES; the counts are complete.
    """

    ahead: int | None = None
    behind: int | None = None
    log: tuple[str, ...] = ()
    files: int = 0
    added: int = 0
    removed: int = 0
    changed: tuple[tuple[str, int, int], ...] = field(default=())
    shallow: bool = False  # the clone is shallow, so commits cannot be counted

    @property
    def text(self) -> str:
        """One line such as `3 commits ahead, 1 behind; 2 files, +10 -4 lines`."""
        parts = []
        if self.ahead is not None:
            parts.append(
                f"{count_of(self.ahead, 'commit')} ahead"
                + (f", {self.behind} behind" if self.behind else "")
            )
        elif self.shallow:
            parts.append("commits not counted (the clone is shallow)")
        if not self.files:
            parts.append("same content")
        else:
            parts.append(f"{count_of(self.files, 'file')}, +{self.added} -{self.removed} lines")
        return "; ".join(parts)


def as_record(piece: ResolvedSource | Distance) -> dict[str, Any]:
    """Convert to plain values, for JSON."""
    return asdict(piece)


def source_of(record: Mapping[str, Any]) -> ResolvedSource:
    """Convert the values of as_record back to a source."""
    given = known_fields(ResolvedSource, record)
    return ResolvedSource(**{**given, "dirty": tuple(given.get("dirty") or ())})


def commit_of(facts: Mapping[str, Any], variant: str) -> tuple[str | None, str | None]:
    """Return the mark and the title of the commit that a variant was built from; None if the facts have no commit."""
    recorded = facts.get(SOURCES_FACT)
    variants = recorded.get("variants") if isinstance(recorded, Mapping) else None
    record = variants.get(variant) if isinstance(variants, Mapping) else None
    if not isinstance(record, Mapping):
        servers = recorded.get("servers") if isinstance(recorded, Mapping) else None
        server = servers.get(variant) if isinstance(servers, Mapping) else None
        if not isinstance(server, Mapping):
            return None, None
        return str(server["sha"])[:12], str(server["title"])
    source = source_of(record)
    return source.mark, source.title


def distance_of(record: Mapping[str, Any]) -> Distance:
    """Convert the values of as_record back to a distance."""
    changed = tuple((str(n), int(a), int(r)) for n, a, r in record.get("changed") or ())
    rest = {k: v for k, v in record.items() if k not in ("changed", "log")}
    return Distance(**rest, log=tuple(record.get("log") or ()), changed=changed)


def interface_of(source: Path) -> int:
    """Return the interface number of a source. Raises UsageError when the file holds no number."""
    path = source / INTERFACE_FILE
    if not path.is_file():
        return INTERFACE_BEFORE_FILE
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
        f"{source.text} has interface {source.interface} ({INTERFACE_FILE}); this perfrunner drives {least} to {most}",
        "use the perfrunner version of that source" if older else "use a newer perfrunner",
    )


def check_tools(source: ResolvedSource) -> None:
    """Raise UsageError for a source whose load tools this perfrunner cannot use.

    The sources of variants may be older than that of the tools.
    """
    if source.interface < TOOLS_FROM:
        raise UsageError(
            f"{source.text} has interface {source.interface} ({INTERFACE_FILE}); "
            f"this perfrunner needs load tools of {TOOLS_FROM} or later",
            "build the tools from a newer --engine-src, and use this source as the `source` of a variant",
        )
