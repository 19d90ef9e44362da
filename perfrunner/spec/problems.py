"""Collect all errors of a spec before reporting them as `file:line: field: expected ..., got ...`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfrunner.errors import SpecError

if TYPE_CHECKING:
    from perfrunner.spec.document import Mark

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Problem:
    """One error in a spec, with its file, line and field."""

    place: str
    line: int
    field: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.place}: {self.field}: {self.text}"
            if self.field
            else f"{self.place}: {self.text}"
        )


@dataclass
class Problems:
    """The list of errors of one spec, without repetitions: an error in a shared piece appears once."""

    entries: list[Problem] = field(default_factory=list)
    _incomplete: set[Mark] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def add(self, mark: Mark, below: str | tuple[str | int, ...], text: str) -> None:
        """Add an error at `mark`.

        `below` is the key, or the path to it, of a missing or unknown field inside the marked value.
        """
        steps = (below,) if isinstance(below, str) else below
        path = (*mark.path, *steps) if below else mark.path
        problem = Problem(
            _printable(str(mark)), mark.line, _printable(field_name(path)), _printable(text)
        )
        if problem not in self.entries:
            self.entries.append(problem)

    def incomplete(self, mark: Mark) -> None:
        """Mark a mapping as incomplete: a piece or matrix with a reported error would have added keys."""
        self._incomplete.add(mark)

    def is_incomplete(self, mark: Mark) -> bool:
        """Tell whether keys missing from the mapping at `mark` only follow from a reported error."""
        return mark in self._incomplete

    def has_problem_at(self, mark: Mark) -> bool:
        """Tell whether an error was added for the value at `mark`."""
        return any(
            p.place == _printable(str(mark)) and p.field == _printable(field_name(mark.path))
            for p in self.entries
        )

    def raise_if_any(self) -> None:
        """Raise a SpecError with every problem, sorted by file and line."""
        if not self.entries:
            return
        order = {place: i for i, place in enumerate(dict.fromkeys(_file(p) for p in self.entries))}
        ordered = sorted(self.entries, key=lambda p: (order[_file(p)], p.line))
        lines = tuple(str(p) for p in ordered)
        raise SpecError("\n".join(lines), problems=lines)


def field_name(path: tuple[str | int, ...]) -> str:
    """Format a path as `a.b[0]."c.d"`, the spelling that `--set` accepts."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def _printable(text: str) -> str:
    """Reduce arbitrary input to one line of printable characters."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def _file(problem: Problem) -> str:
    return problem.place.removesuffix(f":{problem.line}")
