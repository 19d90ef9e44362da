"""Collecting everything that is wrong before saying it: `place: field: expected ..., got ...`."""

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
    """One error in a spec."""

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
    """A growing list without repetitions (an error in a shared piece is said once)."""

    found: list[Problem] = field(default_factory=list)
    _incomplete: set[Mark] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, mark: Mark, below: str | tuple[str | int, ...], text: str) -> None:
        """Note an error at `mark`; `below` names a field inside it (or the way to it) that is missing or unknown."""
        way = (below,) if isinstance(below, str) else below
        path = (*mark.path, *way) if below else mark.path
        problem = Problem(
            _printable(str(mark)), mark.line, _printable(field_name(path)), _printable(text)
        )
        if problem not in self.found:
            self.found.append(problem)

    def incomplete(self, mark: Mark) -> None:
        """The mapping at `mark` lacks what a piece or a matrix would have brought; that was said already."""
        self._incomplete.add(mark)

    def is_incomplete(self, mark: Mark) -> bool:
        """Whether what is missing in the mapping at `mark` is only a consequence."""
        return mark in self._incomplete

    def has_one_at(self, mark: Mark) -> bool:
        """Whether the value at `mark` was complained about."""
        return any(
            p.place == _printable(str(mark)) and p.field == _printable(field_name(mark.path))
            for p in self.found
        )

    def raise_if_any(self) -> None:
        """SpecError with every problem, in the order of the files' lines."""
        if not self.found:
            return
        order = {place: i for i, place in enumerate(dict.fromkeys(_file(p) for p in self.found))}
        ordered = sorted(self.found, key=lambda p: (order[_file(p)], p.line))
        lines = tuple(str(p) for p in ordered)
        raise SpecError("\n".join(lines), problems=lines)


def field_name(path: tuple[str | int, ...]) -> str:
    """`a.b[0]."c.d"`: the spelling that `--set` understands."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def _printable(text: str) -> str:
    """One line: what a file or a command line holds may be anything."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)


def _file(problem: Problem) -> str:
    return problem.place.removesuffix(f":{problem.line}")
