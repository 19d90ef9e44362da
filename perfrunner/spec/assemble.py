"""Assemble the tree of a spec: read, include, apply profile and overrides, expand the matrix.

This step comes before validation and needs no pydantic model.

A profile is a named overlay under `profiles:`; `--profile NAME` merges it over the spec. Mappings are merged key by
key, everything else is replaced. The experiment keeps its name and records the name of the profile:

    profiles:
      historic:
        blocks: 20
        workloads: {append: {items: 5M}}

`--set a.b=c` changes a single value. The path consists of keys and list indices: `engine.threads`, `buckets[0]` or
`buckets.0`. A key with dots is quoted: `variants."jemalloc-5.1.0".params.ht_size`. The value is YAML: `5`, `true`,
`null`, `[256, 1024]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from perfrunner.errors import SpecError
from perfrunner.paths import real_path
from perfrunner.spec.document import (
    Mark,
    Node,
    Path_,
    Problems,
    describe,
    field_name,
    load_document,
    parse,
    tree,
)
from perfrunner.spec.includes import Sources, absolute_paths, absolute_sources, merged, shown
from perfrunner.spec.matrix import expand
from perfrunner.spec.small import LOCAL, LOCAL_CLUSTER
from perfrunner.spec.suggest import expected_name
from perfrunner.spec.yaml_core import MAX_DEPTH

# Mappings whose values are passed to other programs exactly as written: 1.10 stays 1.10.
_TEXTS = (
    ("engine", "params"),
    ("variants", "*", "params"),
    ("variants", "*", "env"),
    ("variants", "*", "options"),
    ("variants", "*", "allocator", "options"),
    ("variants", "*", "server", "command"),
    ("variants", "*", "server", "build", "*"),
)


def spec_tree(
    path: Path,
    problems: Problems,
    overrides: Sequence[str] = (),
    cluster: Path | None = None,
    profile: str | None = None,
) -> Node:
    """Return the complete mapping for validation, as far as it could be assembled.

    Adds errors to `problems`. Raises SpecError for a file without a mapping.
    """
    root = load_document(path, shown(path), problems)
    parsed = [o for text in overrides if (o := parse_override(text, problems)) is not None]
    if root is None:
        problems.raise_if_any()
        raise SpecError(f"{shown(path)}: expected a mapping, got an empty file")
    sources = Sources(problems)

    for override in parsed:
        if override.names_a_file:
            root = apply_override(root, override, problems)
    root = _with_cluster(root, path, cluster, sources)
    root = sources.resolve(root, real_path(path).parent, (real_path(path),))
    root = with_profile(root, profile, problems)
    for override in parsed:
        if not override.names_a_file and override.path[0] != "variants":
            root = apply_override(root, override, problems)
    root = _with_variants(root, problems)
    for override in parsed:  # these may name a variant of the matrix
        if override.path[0] == "variants":
            root = apply_override(root, override, problems)
    written = root.get("cluster")
    if written is not None:
        root = root.with_child("cluster", absolute_paths(written))
    variants = root.get("variants")
    if variants is not None:
        root = root.with_child("variants", absolute_sources(variants))
    for steps in _TEXTS:
        root = _as_written(root, (*steps, "*"))
    return _with_names(root)


def _as_written(node: Node, steps: tuple[str, ...]) -> Node:
    """Return the tree with the numbers and booleans at `steps` replaced by their source text."""
    if not steps:
        is_text = node.written is not None and node.value is not None
        return Node(node.written, node.mark) if is_text else node
    if isinstance(node.value, list) and steps[0] == "*":
        for index, child in enumerate(node.value):
            node = node.with_child(index, _as_written(child, steps[1:]))
        return node
    if not isinstance(node.value, dict):
        return node
    for key in tuple(node.value) if steps[0] == "*" else (steps[0],):
        if (child := node.get(key)) is not None:
            node = node.with_child(key, _as_written(child, steps[1:]))
    return node


def _with_cluster(root: Node, path: Path, other: Path | None, sources: Sources) -> Node:
    """Replace `cluster` by a mapping: from --cluster, from the file it names, or this machine's."""
    if other is not None:
        text = LOCAL if str(other) == LOCAL else str(real_path(other))
        name = Node(text, Mark(f"--cluster {other}", 0, ("cluster",)))
    elif (written := root.get("cluster")) is not None and not written.is_mapping:
        name = written
    else:
        return root
    if name.value == LOCAL:
        return root.with_child("cluster", tree(LOCAL_CLUSTER, name.mark))
    included = sources.include(name, real_path(path).parent, alternatives=(LOCAL,))
    return root.with_child("cluster", name if included is None else included)


def _with_variants(root: Node, problems: Problems) -> Node:
    """Expand the matrix into `variants`, after the variants that the spec lists."""
    matrix = root.get("matrix")
    if matrix is None:
        return root
    explicit = root.get("variants")
    known = (
        dict(explicit.value) if explicit is not None and isinstance(explicit.value, dict) else {}
    )
    expanded = expand(matrix, problems)
    mark = matrix.mark if explicit is None else explicit.mark
    if not expanded:
        problems.incomplete(mark)
    for name, node in expanded.items():
        if name in known:
            problems.add(
                known[name].mark,
                "",
                "expected a name that differs from all matrix combinations, got that of one",
            )
        known[name] = node
    return root.without("matrix").with_child("variants", Node(known, mark))


def _with_names(root: Node) -> Node:
    """Set each variant's `name` to its key."""
    variants = root.get("variants")
    if variants is None or not isinstance(variants.value, dict):
        return root
    named = {
        key: node.with_child("name", Node(key, node.mark))
        if node.is_mapping and not node.get("name")
        else node
        for key, node in variants.value.items()
    }
    return root.with_child("variants", Node(named, variants.mark))


_STEP = re.compile(
    r"""\[(?P<index>[0-9]{1,9})\]|(?P<dot>\.)?(?:"(?P<quoted>[^"]+)"|(?P<bare>[^.\[\]"=]+))"""
)
# Mappings whose keys the spec chooses: an override of one field cannot create a whole new entry.
_NAMED = {("workloads",), ("variants",), ("cluster", "hosts"), ("matrix", "axes")}
KEY, CHOSEN = "profiles", "profile"
_NOT_IN_A_PROFILE = {
    "name": "the experiment keeps its name",
    KEY: "profiles are not nested",
    CHOSEN: "choose one with --profile",
    "cluster": "choose another cluster file with --cluster",
}
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
    if not path or len(path) > MAX_DEPTH or not rest.startswith("="):
        problems.add(place, "", f"{_SYNTAX}; got {text!r}")
        return None
    if path[0] in (KEY, CHOSEN):
        remedy = "choose a profile with --profile NAME, and change its values by their own keys"
        problems.add(place, "", f"expected no profile in --set: {remedy}")
        return None
    # Behind a blank, as behind a key in a file: `...` and `---` at the start of a line end a document.
    written = rest[1:] if "\n" in rest else f" {rest[1:]}"
    try:
        value = parse(written, place.source, problems, override=path)
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
        index = int(step) if re.fullmatch(r"[0-9]{1,9}", str(step)) else None
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


def with_profile(root: Node, name: str | None, problems: Problems) -> Node:
    """Return the spec without its profiles, and with the named one merged over it."""
    profiles = root.get(KEY)
    chosen = root.get(CHOSEN)
    if chosen is not None:
        remedy = "set it in a workload" if chosen.value == "perf" else "choose one with --profile"
        text = f"expected no profile at the top level of a spec ({remedy}); got {chosen.value}"
        problems.add(chosen.mark, "", text)
    root = root.without(KEY, CHOSEN)
    if profiles is not None:
        _check(profiles, problems)
    if name is None:
        return root
    known = profiles.value if profiles is not None and isinstance(profiles.value, dict) else {}
    overlay = known.get(name)
    if overlay is None:
        mark = root.mark if profiles is None else profiles.mark
        text = f"the spec has no `profiles`; omit --profile {name}, or add a profile of that name"
        problems.add(
            mark, "", expected_name("a profile of the spec", name, known) if known else text
        )
        return root
    if not overlay.is_mapping:
        return root
    whole = merged(root, overlay.without("name"))
    return Node({**whole.value, CHOSEN: Node(name, overlay.mark)}, root.mark)


def _check(profiles: Node, problems: Problems) -> None:
    if not isinstance(profiles.value, dict):
        problems.add(profiles.mark, "", f"expected a mapping, got {describe(profiles.value)}")
        return
    for overlay in profiles.value.values():
        if not overlay.is_mapping:
            problems.add(overlay.mark, "", f"expected a mapping, got {describe(overlay.value)}")
            continue
        for key, why in _NOT_IN_A_PROFILE.items():
            child = overlay.get(key)
            if child is not None and not (key == "cluster" and child.is_mapping):
                problems.add(child.mark, "", f"expected no {key} in a profile ({why})")


def profile_names(path: Path) -> tuple[str, ...]:
    """Return the names of a spec file's profiles; empty if unreadable (loading reports why)."""
    root = load_document(path, shown(path), Problems())
    profiles = None if root is None else root.get(KEY)
    return tuple(profiles.value) if profiles is not None and profiles.is_mapping else ()
