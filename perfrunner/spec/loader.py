"""From a file to a Spec: read, include, override, expand, validate. Every error is found before any is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from perfrunner.errors import SpecError
from perfrunner.spec.cluster import LOCAL, LOCAL_CLUSTER, ClusterSpec, local_cluster
from perfrunner.spec.document import Mark, Node, describe, load_document, plain, tree
from perfrunner.spec.includes import Sources, absolute_paths, absolute_sources, shown
from perfrunner.spec.matrix import expand
from perfrunner.spec.model import Spec
from perfrunner.spec.overrides import apply_override, parse_override
from perfrunner.spec.problems import Problems
from perfrunner.spec.profiles import with_profile
from perfrunner.spec.validate import note_errors


def load_spec(
    path: Path,
    overrides: Sequence[str] = (),
    cluster: Path | None = None,
    profile: str | None = None,
) -> Spec:
    """The experiment in `path`, overlaid by one of its profiles, then by `--set` overrides. Raises SpecError.

    `cluster` is another cluster file.
    """
    problems = Problems()
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
    return _validated(_with_names(root), problems)


def load_cluster(path: Path) -> ClusterSpec:
    """A cluster file by itself, or `local`. Raises SpecError."""
    if str(path) == LOCAL:
        return local_cluster()
    problems = Problems()
    node = Sources(problems).load(path)
    if node is not None:
        node = absolute_paths(node)
        try:
            cluster = ClusterSpec.model_validate(plain(node))
        except ValidationError as error:
            note_errors(error, node, ClusterSpec, problems)
        else:
            problems.raise_if_any()
            return cluster
    problems.raise_if_any()
    raise SpecError(f"{shown(path)}: empty")


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


def _validated(root: Node, problems: Problems) -> Spec:
    variants = root.get("variants")
    names = tuple(variants.value) if variants is not None and variants.is_mapping else ()
    _check_names_match(variants, problems)
    spec = None
    unknown = variants is not None and problems.is_incomplete(variants.mark)
    context = {"variant_names": names, "variants_unknown": unknown, "files": True}
    try:
        spec = Spec.model_validate(plain(root), context=context)
    except ValidationError as error:
        note_errors(error, root, Spec, problems)
    problems.raise_if_any()
    if spec is None:
        raise AssertionError("a validation error that says nothing")
    return spec


def _check_names_match(variants: Node | None, problems: Problems) -> None:
    if variants is None or not isinstance(variants.value, dict):
        return
    for key, node in variants.value.items():
        name = node.get("name")
        if name is not None and name.value != key:
            problems.add(
                name.mark,
                "",
                f"expected no name here (the variant's key is its name), got {describe(name.value)}",
            )
