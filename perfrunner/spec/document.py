"""Read YAML files as trees whose values record where and how they were written.

Values follow the core schema of YAML 1.2 (yaml_core.py). Duplicate keys and keys that are not strings
are errors. Anchors make nodes shared, so nodes are never changed in place: edits create new nodes.

Problems are collected, so that one call reports all errors of a spec, as `file:line: field: expected ..., got ...`.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from perfrunner.errors import SpecError
from perfrunner.spec.suggest import did_you_mean
from perfrunner.spec.yaml_core import (
    MAX_BYTES,
    CoreLoader,
    Expansion,
    is_merge_key,
    scalar_value,
)

Path_: TypeAlias = tuple["str | int", ...]


@dataclass(frozen=True)
class Mark:
    """The position at which a value was written.

    `source` is a path as shown to the user, or the text of an override. `line` counts from 1; an
    override has line 0.
    """

    source: str
    line: int
    path: Path_

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True)
class Node:
    """A scalar, a dict of Nodes or a list of Nodes, with its position.

    `written` is the source text of a number, a boolean or a null; None for every other value.
    """

    value: Any
    mark: Mark
    written: str | None = None

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    def get(self, key: str) -> Node | None:
        """Return the child of a mapping; None if the key is missing or this is not a mapping."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def with_child(self, key: str | int, child: Node) -> Node:
        """Return a copy in which one child is replaced or added."""
        if isinstance(self.value, list):
            items = list(self.value)
            items[int(key)] = child
            return Node(items, self.mark)
        return Node({**self.value, key: child}, self.mark)

    def without(self, *keys: str) -> Node:
        """Return a copy of a mapping without these keys."""
        return Node({k: v for k, v in self.value.items() if k not in keys}, self.mark)


def plain(node: Node) -> Any:
    """Convert a tree to plain Python values."""
    if isinstance(node.value, dict):
        return {k: plain(v) for k, v in node.value.items()}
    if isinstance(node.value, list):
        return [plain(v) for v in node.value]
    return node.value


def size(node: Node) -> int:
    """Return the number of values of a tree."""
    below = node.value.values() if isinstance(node.value, dict) else node.value
    return 1 + (sum(map(size, below)) if isinstance(node.value, dict | list) else 0)


def tree(value: Any, mark: Mark) -> Node:
    """Convert plain Python values to a tree positioned at `mark`; the inverse of `plain`."""
    if isinstance(value, dict):
        below = {
            str(k): tree(v, replace(mark, path=(*mark.path, str(k)))) for k, v in value.items()
        }
        return Node(below, mark)
    if isinstance(value, list):
        items = [tree(v, replace(mark, path=(*mark.path, i))) for i, v in enumerate(value)]
        return Node(items, mark)
    return Node(value, mark)


def load_document(path: Path, shown: str, problems: Problems) -> Node | None:
    """Load the single document of a file, which must be a mapping.

    Returns None after adding a problem.
    """
    text = read_text(path, shown, problems)
    if text is None:
        return None
    try:
        node = parse(text, shown, problems)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        line = at.line + 1 if at else 1
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        reason = reason.replace("'<stream end>'", "the end of the file")
        problems.add(Mark(shown, line, ()), "", f"not valid YAML: {reason}")
        return None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.add(Mark(shown, 1, ()), "", f"not valid YAML: {error}")
        return None
    if node is None:
        problems.add(Mark(shown, 1, ()), "", "expected a mapping, got an empty file")
        return None
    if not node.is_mapping:
        problems.add(node.mark, "", f"expected a mapping, got {describe(node.value)}")
        return None
    return node


def parse(text: str, shown: str, problems: Problems, override: Path_ | None = None) -> Node | None:
    """Parse the single document of a text; None when it is empty. Raises yaml.YAMLError.

    `override` is the path of the value when the text comes from `--set`, which has no line numbers.
    """
    loader = CoreLoader(text)
    try:
        root = loader.get_single_node()
    finally:
        loader.dispose()
    if root is None:
        return None
    builder = _Builder(shown, problems, has_lines=override is None)
    return builder.build_document(root, override or ())


def read_text(path: Path, shown: str, problems: Problems) -> str | None:
    """Read a UTF-8 file; None after adding a problem."""
    place = Mark(shown, 0, ())
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            # A command reads its spec several times, and a pipe has its text only once.
            problems.add(place, "", "expected a regular file, got a pipe or a device")
            return None
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)  # more than is accepted
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        near = ""
        if isinstance(error, FileNotFoundError):
            near = did_you_mean(path.name, (other.name for other in path.parent.glob("*.yaml")))
        problems.add(place, "", f"cannot be read: {reason}{near}")
        return None
    if len(content) > MAX_BYTES:
        problems.add(place, "", f"more than {MAX_BYTES >> 20} MiB")
        return None
    content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        text = f"expected UTF-8 text, got the byte 0x{content[error.start]:02x}"
        problems.add(Mark(shown, line, ()), "", text)
        return None


def describe(value: Any) -> str:
    """Format a value for an error message, in YAML spelling; only the kind of a collection."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return repr(value[:60])
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a {type(value).__name__}"


_MERGE = object()  # stands for the merge key `<<`, as opposed to a quoted string "<<"


class _Builder:
    """Converts the composed YAML nodes of one document into Nodes."""

    def __init__(self, shown: str, problems: Problems, *, has_lines: bool) -> None:
        self._shown = shown
        self._problems = problems
        self._has_lines = has_lines
        self._expansion = Expansion()
        self._checked: set[int] = set()  # mappings whose keys were checked, by id

    def build_document(self, root: yaml.Node, path: Path_) -> Node:
        """Return the tree, after checking that its expansion stays within the limits."""
        self._expansion.check(root)
        return self._build(root, path)

    def _build(self, node: yaml.Node, path: Path_) -> Node:
        mark = self._mark(node, path)
        if isinstance(node, yaml.MappingNode):
            return Node(self._mapping(node, path), mark)
        if isinstance(node, yaml.SequenceNode):
            items = [self._build(child, (*path, i)) for i, child in enumerate(node.value)]
            return Node(items, mark)
        assert isinstance(node, yaml.ScalarNode)
        value = scalar_value(node)
        return Node(value, mark, None if isinstance(value, str) else node.value)

    def _mapping(self, node: yaml.MappingNode, path: Path_) -> dict[str, Node]:
        self._check_keys(node, path)
        pairs = self._expansion.pairs(node)
        return {key: self._build(value, (*path, key)) for key, (_, value) in pairs.items()}

    def _check_keys(self, node: yaml.MappingNode, path: Path_) -> None:
        """Add a problem for each key that is no string or occurs twice, also in mappings that are merged."""
        if id(node) in self._checked:
            return
        self._checked.add(id(node))
        seen: dict[Any, int] = {}
        for key_node, value_node in node.value:
            if is_merge_key(key_node):
                for base in self._expansion.bases(value_node):
                    self._check_keys(base, path)
            if not isinstance(key_node, yaml.ScalarNode):
                text = "expected a string as key, got a collection"
                self._problems.add(self._mark(key_node, path), "", text)
                continue
            mark = self._mark(key_node, (*path, key_node.value))
            key: Any = _MERGE if is_merge_key(key_node) else scalar_value(key_node)
            if not isinstance(key, str) and key is not _MERGE:
                text = f"expected a string as key, got {describe(key)} (put it in quotes)"
                self._problems.add(mark, "", text)
            elif key in seen:
                first = f" (first defined in line {seen[key]})" if self._has_lines else ""
                text = f"duplicate key{first}"
                self._problems.add(mark, "", text)
            seen[key] = mark.line

    def _mark(self, node: yaml.Node, path: Path_) -> Mark:
        return Mark(self._shown, node.start_mark.line + 1 if self._has_lines else 0, path)


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
