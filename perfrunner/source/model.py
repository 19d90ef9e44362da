"""A source that is found out, and how far two of them are apart; as plain values they are an experiment's facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

FACT = "sources"  # of an experiment: Sources.record()
IN_USE = "engine source"  # the name of the source that a variant without `source` is built from
MOST_LINES = 20  # of a log, a diffstat, a list of files


@dataclass(frozen=True)
class ResolvedSource:
    """An arm's source. `sha256` is that of its content; `directory` the tree, or the repository of a revision.

    `commit` (with title and date) is the revision's, or HEAD of the tree's repository, from which `dirty` files of the
    tree differ. `interface` says which perfrunner it can work with (engine_src/INTERFACE).
    """

    name: str
    sha256: str
    directory: str
    interface: int
    revision: bool  # whether it is a commit's content (and a patch's), not a tree's
    commit: str | None = None
    title: str | None = None
    date: str | None = None
    dirty: tuple[str, ...] = ()
    patch: str | None = None
    patch_sha256: str | None = None

    @property
    def mark(self) -> str | None:
        """The commit in short, with git describe's `-dirty` where its content was changed; None without a commit."""
        if self.commit is None:
            return None
        return self.commit[:12] + ("-dirty" if self.dirty or self.patch else "")

    @property
    def text(self) -> str:
        """`main: 1a2b3c4d5e6f "checkpoint: one list" of 2026-01-02`, and what is on top of it."""
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
    """From the baseline's source to an arm's: commits one way and the other, and the files that differ.

    `log` and `changed` (name, lines added, lines removed) are at most MOST_LINES long; the counts are whole.
    """

    ahead: int | None = None
    behind: int | None = None
    log: tuple[str, ...] = ()
    files: int = 0
    added: int = 0
    removed: int = 0
    changed: tuple[tuple[str, int, int], ...] = field(default=())
    shallow: bool = False  # the clone: what it lacks cannot be counted

    @property
    def text(self) -> str:
        """`3 commits ahead, 1 behind; 2 files, +10 -4 lines`."""
        parts = []
        if self.ahead is not None:
            n = "1 commit" if self.ahead == 1 else f"{self.ahead} commits"
            parts.append(f"{n} ahead" + (f", {self.behind} behind" if self.behind else ""))
        elif self.shallow:
            parts.append("commits not counted (the clone is shallow)")
        if not self.files:
            parts.append("the same content")
        else:
            n = "1 file" if self.files == 1 else f"{self.files} files"
            parts.append(f"{n}, +{self.added} -{self.removed} lines")
        return "; ".join(parts)


def as_record(piece: ResolvedSource | Distance) -> dict[str, Any]:
    """Plain values, for JSON."""
    return asdict(piece)


def source_of(record: Mapping[str, Any]) -> ResolvedSource:
    """From as_record's values."""
    known = {one.name for one in fields(ResolvedSource)}
    given = {key: value for key, value in record.items() if key in known}
    return ResolvedSource(**{**given, "dirty": tuple(given.get("dirty") or ())})


def commit_of(facts: Mapping[str, Any], variant: str) -> tuple[str | None, str | None]:
    """From an experiment's facts, the mark and the title of the commit an arm was built from; None where unknown."""
    recorded = facts.get(FACT)
    arms = recorded.get("arms") if isinstance(recorded, Mapping) else None
    record = arms.get(variant) if isinstance(arms, Mapping) else None
    if not isinstance(record, Mapping):
        return None, None
    source = source_of(record)
    return source.mark, source.title


def distance_of(record: Mapping[str, Any]) -> Distance:
    """From as_record's values."""
    changed = tuple((str(n), int(a), int(r)) for n, a, r in record.get("changed") or ())
    rest = {k: v for k, v in record.items() if k not in ("changed", "log")}
    return Distance(**rest, log=tuple(record.get("log") or ()), changed=changed)
