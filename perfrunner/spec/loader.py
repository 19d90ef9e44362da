"""Load spec and cluster files: assemble the tree, validate it, and report all errors together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from perfrunner.errors import SpecError
from perfrunner.spec.assemble import spec_tree
from perfrunner.spec.cluster import ClusterSpec, local_cluster
from perfrunner.spec.document import Node, Problems, describe, load_document, plain
from perfrunner.spec.includes import Sources, absolute_paths, shown
from perfrunner.spec.model import Spec
from perfrunner.spec.server import ServerChecks
from perfrunner.spec.small import LOCAL
from perfrunner.spec.switches import Tables, own_tables
from perfrunner.spec.validate import note_errors


def load_spec(
    path: Path,
    overrides: Sequence[str] = (),
    cluster: Path | None = None,
    profile: str | None = None,
    switches: Tables = own_tables,
    servers: ServerChecks | None = None,
) -> Spec:
    """Return the experiment in `path`, with one of its profiles and then `--set` overrides applied.

    `cluster` replaces the cluster file that the spec names. `switches` returns the build switches of
    a variant's source. `servers` checks the commands of other servers on this machine. Raises SpecError
    with every problem of the file.
    """
    problems = Problems()
    root = spec_tree(path, problems, overrides, cluster, profile)
    return _validated(root, problems, switches, servers)


def load_cluster(path: Path) -> ClusterSpec:
    """Load a cluster file on its own, or the built-in cluster `local`. Raises SpecError."""
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
    raise SpecError(f"{shown(path)}: expected a mapping, got an empty file")


def is_cluster(path: Path) -> bool:
    """Tell whether a file describes a cluster rather than an experiment; False if unreadable."""
    node = load_document(path, shown(path), Problems())
    return node is not None and node.get("hosts") is not None and node.get("variants") is None


def _validated(
    root: Node, problems: Problems, switches: Tables, servers: ServerChecks | None
) -> Spec:
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
        "servers": servers,
        "remote": _is_remote(root.get("cluster")),
    }
    try:
        spec = Spec.model_validate(plain(root), context=context)
    except ValidationError as error:
        note_errors(error, root, Spec, problems)
    problems.raise_if_any()
    if spec is None:
        raise AssertionError("the validation failed without reporting an error")
    return spec


def _is_remote(cluster: Node | None) -> bool:
    transport = cluster.get("transport") if cluster is not None and cluster.is_mapping else None
    return transport is not None and transport.value == "ssh"


def _check_names_match(variants: Node | None, problems: Problems) -> None:
    if variants is None or not isinstance(variants.value, dict):
        return
    for key, node in variants.value.items():
        name = node.get("name")
        if name is not None and name.value != key:
            problems.add(
                name.mark,
                "",
                f"expected no name here (a variant is named by its key), got {describe(name.value)}",
            )
