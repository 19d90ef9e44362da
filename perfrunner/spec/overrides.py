"""Change single values of a spec from the command line with `--set a.b=c`.

The path consists of keys and list indices: `engine.threads`, `buckets[0]` or `buckets.0`. A key with
dots is quoted: `variants."jemalloc-5.1.0".params.ht_size`. The value is YAML: `5`, `true`, `null`,
`[256, 1024]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from perfrunner.spec.document import Mark, Node, Path_, describe, parse
from perfrunner.spec.problems import Problems, field_name
from perfrunner.spec.suggest import expected_name

_STEP = re.compile(
    r"""\[(?P<index>\d+)\]|(?P<dot>\.)?(?:"(?P<quoted>[^"]+)"|(?P<bare>[^.\[\]"=]+))"""
)
# Mappings whose keys the spec chooses: an override of one field cannot create a whole new entry.
_NAMED = {("workloads",), ("variants",), ("cluster", "hosts"), ("matrix", "axes")}
_SYNTAX = "expected KEY=VALUE, such as engine.threads=4"


@dataclass(frozen=True)
class Override:
    """One parsed `--set` option."""

    text: str
    path: Path_
    value: Node

    @property
    def names_a_file(self) -> bool:
        """Tell whether it names a file to include: it is then applied before files are included."""
        return self.path == ("cluster",) or self.path[-1] == "use"


def parse_override(text: str, problems: Problems) -> Override | None:
    """Parse the argument of `--set`; None after adding a problem."""
    place = Mark(f"--set {text}", 0, ())
    path, rest = _parse_path(text)
    if not path or not rest.startswith("="):
        problems.add(place, "", f"{_SYNTAX}; got {text!r}")
        return None
    try:
        value = parse(rest[1:], place.source, problems, override=path)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or error
        problems.add(place, "", f"expected a YAML value after '=', got {rest[1:]!r}: {problem}")
        return None
    return Override(text, path, value or Node(None, Mark(place.source, 0, path), ""))


def _parse_path(text: str) -> tuple[Path_, str]:
    path: list[str | int] = []
    position = 0
    while position < len(text) and text[position] != "=":
        match = _STEP.match(text, position)
        if match is None:
            return (), text
        is_index = match["index"] is not None
        # A key follows a dot, unless it is the first; an index in brackets follows its list.
        if bool(match["dot"]) != (bool(path) and not is_index) or (is_index and not path):
            return (), text
        if is_index:
            path.append(int(match["index"]))
        else:
            path.append((match["quoted"] or match["bare"]).strip())
        position = match.end()
    return tuple(path), text[position:]


def apply_override(root: Node, override: Override, problems: Problems) -> Node:
    """Return the tree with the value replaced; the unchanged tree after adding a problem."""
    changed = _set(root, override.path, (), override.value, problems)
    return root if changed is None else changed


def _set(node: Node, path: Path_, done: Path_, value: Node, problems: Problems) -> Node | None:
    if not path:
        return value
    step, rest = path[0], path[1:]
    here = value.mark
    if isinstance(node.value, list):
        index = int(step) if isinstance(step, int) or step.isdigit() else None
        if index is None or index >= len(node.value):
            wanted = (
                f"an index from 0 to {len(node.value) - 1}"
                if node.value
                else "no index (the list is empty)"
            )
            problems.add(here, "", f"expected {wanted} into {field_name(done)}, got {step}")
            return None
        child = _set(node.value[index], rest, (*done, index), value, problems)
        return None if child is None else node.with_child(index, child)
    if not isinstance(node.value, dict):
        problems.add(
            here, "", f"expected a mapping at {field_name(done)}, got {describe(node.value)}"
        )
        return None
    key = str(step)
    known = node.value.get(key)
    if known is None and done in _NAMED and not (done == ("variants",) and not rest):
        problems.add(here, "", expected_name(f"a name in {field_name(done)}", key, node.value))
        return None
    if known is None or (known.value is None and rest):
        known = Node({}, Mark(here.source, 0, (*done, key)))
    child = _set(known, rest, (*done, key), value, problems)
    return None if child is None else node.with_child(key, child)
