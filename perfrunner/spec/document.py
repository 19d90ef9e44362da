"""YAML files as trees in which every value knows where it was written.

The values are those of yaml.safe_load; beside it, a key that is written twice is an error, and so is a key that is no
string. A Node may be shared (anchors): nodes are never changed in place, edits make new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from perfrunner.spec.problems import Problems
from perfrunner.spec.suggest import did_you_mean

Path_: TypeAlias = tuple["str | int", ...]
MAX_NODES = 100_000  # anchors can make a small file expand without bound


@dataclass(frozen=True)
class Mark:
    """Where a value was written.

    `source` is a path as shown to people, or an override. `line` counts from 1; an override has line 0.
    """

    source: str
    line: int
    path: Path_

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True)
class Node:
    """A scalar, a dict of Nodes or a list of Nodes, and its place."""

    value: Any
    mark: Mark

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    def get(self, key: str) -> Node | None:
        """The child of a mapping; None without it, or when this is no mapping."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def with_child(self, key: str | int, child: Node) -> Node:
        """A copy in which one child is replaced or added."""
        if isinstance(self.value, list):
            items = list(self.value)
            items[int(key)] = child
            return Node(items, self.mark)
        return Node({**self.value, key: child}, self.mark)

    def without(self, *keys: str) -> Node:
        """A copy of a mapping that lacks these keys."""
        return Node({k: v for k, v in self.value.items() if k not in keys}, self.mark)


def plain(node: Node) -> Any:
    """The tree as Python values."""
    if isinstance(node.value, dict):
        return {k: plain(v) for k, v in node.value.items()}
    if isinstance(node.value, list):
        return [plain(v) for v in node.value]
    return node.value


def tree(value: Any, mark: Mark) -> Node:
    """Plain Python values as a tree, all of them written at `mark`; the inverse of plain."""
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
    """The file's one document, which must be a mapping; None after the problems were noted."""
    text = read_text(path, Mark(shown, 0, ()), problems)
    if text is None:
        return None
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            problems.add(Mark(shown, 1, ()), "", "expected a mapping, got an empty file")
            return None
        node = _Builder(loader, shown, problems).build(root, ())
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        line = at.line + 1 if at else 1
        said = ", ".join(part for part in (error.context, error.problem) if part)
        said = said.replace("'<stream end>'", "the end of the file")
        problems.add(Mark(shown, line, ()), "", f"not valid YAML: {said}")
        return None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.add(Mark(shown, 1, ()), "", f"not valid YAML: {error}")
        return None
    finally:
        if loader is not None:
            loader.dispose()
    if not node.is_mapping:
        problems.add(node.mark, "", f"expected a mapping, got {describe(node.value)}")
        return None
    return node


def read_text(path: Path, mark: Mark, problems: Problems) -> str | None:
    """A file's text; None after a problem at `mark` was noted."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        problems.add(mark, "", f"expected UTF-8 text, got other bytes in {path}")
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        what = "cannot be read" if mark == Mark(mark.source, 0, ()) else f"cannot read {path}"
        near = ""
        if isinstance(error, FileNotFoundError):
            near = did_you_mean(path.name, (other.name for other in path.parent.glob("*.yaml")))
        problems.add(mark, "", f"{what}: {reason}{near}")
    return None


def describe(value: Any) -> str:
    """A value as it is named in an error: its kind, and the value where it is short."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the truth value {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a {type(value).__name__}"


class _Builder:
    """Turns composed YAML nodes into Nodes; one builder a file."""

    def __init__(self, loader: yaml.SafeLoader, shown: str, problems: Problems) -> None:
        self._loader = loader
        self._shown = shown
        self._problems = problems
        self._open: set[int] = set()
        self._count = 0

    def build(self, node: yaml.Node, path: Path_) -> Node:
        mark = Mark(self._shown, node.start_mark.line + 1, path)
        self._count += 1
        if id(node) in self._open:
            raise ValueError("an anchor that contains itself")
        if self._count > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} values (anchors inside anchors?)")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return Node(self._mapping(node, path), mark)
            if isinstance(node, yaml.SequenceNode):
                items = [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
                return Node(items, mark)
            return Node(self._loader.construct_object(node, deep=True), mark)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path_) -> dict[str, Node]:
        self._check_keys(node, path)
        # Resolves `<<: *anchor`: merged pairs come first, so that the mapping's own keys win below.
        self._loader.flatten_mapping(node)
        children: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key = self._loader.construct_object(key_node, deep=True)
            if isinstance(key, str):
                children[key] = self.build(value_node, (*path, key))
        return children

    def _check_keys(self, node: yaml.MappingNode, path: Path_) -> None:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.add(
                    Mark(self._shown, line, path), "", "expected a text key, got a collection"
                )
                continue
            key = self._loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                self._problems.add(
                    Mark(self._shown, line, (*path, key_node.value)), "",
                    f"expected a text key, got {describe(key)} (put it in quotes)",
                )  # fmt: skip
            elif key in seen:
                self._problems.add(
                    Mark(self._shown, line, (*path, key)), "",
                    f"expected each key once, got a second one (the first is in line {seen[key]})",
                )  # fmt: skip
            seen[key] = line
