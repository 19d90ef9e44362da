"""From a file to a Spec: assemble its tree, validate it. Every error is found before any is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from perfrunner.errors import SpecError
from perfrunner.spec.assemble import spec_tree
from perfrunner.spec.cluster import ClusterSpec, local_cluster
from perfrunner.spec.document import Node, describe, load_document, plain
from perfrunner.spec.includes import Sources, absolute_paths, shown
from perfrunner.spec.local import LOCAL
from perfrunner.spec.model import Spec
from perfrunner.spec.problems import Problems
from perfrunner.spec.switches import Tables, own_tables
from perfrunner.spec.validate import note_errors


def load_spec(
    path: Path,
    overrides: Sequence[str] = (),
    cluster: Path | None = None,
    profile: str | None = None,
    switches: Tables = own_tables,
) -> Spec:
    """The experiment in `path`, overlaid by one of its profiles, then by `--set` overrides. Raises SpecError.

    `cluster` is another cluster file; `switches` knows the build switches of the variants' sources.
    """
    problems = Problems()
    return _validated(spec_tree(path, problems, overrides, cluster, profile), problems, switches)


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


def is_cluster(path: Path) -> bool:
    """Whether a file is of hosts rather than of an experiment; a file that cannot be read is neither."""
    node = load_document(path, shown(path), Problems())
    return node is not None and node.get("hosts") is not None and node.get("variants") is None


def _validated(root: Node, problems: Problems, switches: Tables) -> Spec:
    variants = root.get("variants")
    names = tuple(variants.value) if variants is not None and variants.is_mapping else ()
    _check_names_match(variants, problems)
    spec = None
    unknown = variants is not None and problems.is_incomplete(variants.mark)
    context = {
        "variant_names": names,
        "variants_unknown": unknown,
        "files": True,
        "switches": switches,
    }
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
