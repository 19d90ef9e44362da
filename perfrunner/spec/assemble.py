"""Assemble the tree of a spec: read, include, apply profile and overrides, expand the matrix.

This step comes before validation and needs no pydantic model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfrunner.errors import SpecError
from perfrunner.spec.document import Mark, Node, load_document, tree
from perfrunner.spec.includes import Sources, absolute_paths, absolute_sources, shown
from perfrunner.spec.matrix import expand
from perfrunner.spec.overrides import apply_override, parse_override
from perfrunner.spec.problems import Problems
from perfrunner.spec.profiles import with_profile
from perfrunner.spec.small import LOCAL, LOCAL_CLUSTER

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
    root = sources.resolve(root, path.resolve().parent, (path.resolve(),))
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
        text = LOCAL if str(other) == LOCAL else str(other.resolve())
        name = Node(text, Mark(f"--cluster {other}", 0, ("cluster",)))
    elif (written := root.get("cluster")) is not None and not written.is_mapping:
        name = written
    else:
        return root
    if name.value == LOCAL:
        return root.with_child("cluster", tree(LOCAL_CLUSTER, name.mark))
    included = sources.include(name, path.resolve().parent, alternatives=(LOCAL,))
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
