"""From a file to the tree of a spec: read, include, overlay, override, expand. No model is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfrunner.errors import SpecError
from perfrunner.spec.document import Mark, Node, load_document, tree
from perfrunner.spec.includes import Sources, absolute_paths, absolute_sources, shown
from perfrunner.spec.local import LOCAL, LOCAL_CLUSTER
from perfrunner.spec.matrix import expand
from perfrunner.spec.overrides import apply_override, parse_override
from perfrunner.spec.problems import Problems
from perfrunner.spec.profiles import with_profile


def spec_tree(
    path: Path,
    problems: Problems,
    overrides: Sequence[str] = (),
    cluster: Path | None = None,
    profile: str | None = None,
) -> Node:
    """The whole mapping as it is validated, or as far as it could be made: what is wrong is in `problems`.

    SpecError for a file without a mapping.
    """
    root = load_document(path, shown(path), problems)
    parsed = [o for text in overrides if (o := parse_override(text, problems)) is not None]
    if root is None:
        problems.raise_if_any()
        raise SpecError(f"{shown(path)}: empty")
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
    return _with_names(root)


def _with_cluster(root: Node, path: Path, other: Path | None, sources: Sources) -> Node:
    """`cluster` as a mapping: from --cluster, from the file it names, as it is written, or this machine's."""
    if other is not None:
        text = LOCAL if str(other) == LOCAL else str(other.resolve())
        name = Node(text, Mark(f"--cluster {other}", 0, ("cluster",)))
    elif (written := root.get("cluster")) is not None and not written.is_mapping:
        name = written
    else:
        return root
    if name.value == LOCAL:
        return root.with_child("cluster", tree(LOCAL_CLUSTER, name.mark))
    found = sources.include(name, path.resolve().parent, words=(LOCAL,))
    return root if found is None else root.with_child("cluster", found)


def _with_variants(root: Node, problems: Problems) -> Node:
    """`variants` written out: those of the spec, then the combinations of its matrix."""
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
                known[name].mark, "", "expected a name of its own, got that of a matrix combination"
            )
        known[name] = node
    return root.without("matrix").with_child("variants", Node(known, mark))


def _with_names(root: Node) -> Node:
    """Each variant's key as its `name`."""
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
