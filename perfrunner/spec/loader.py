"""Load spec and cluster files: assemble the tree, validate it, and report all errors together, with file and line.

An error is `file:line: field: expected ..., got ... (did you mean X?)`, also one of pydantic (`note_errors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from perfrunner.errors import SpecError
from perfrunner.spec.assemble import spec_tree
from perfrunner.spec.cluster import ClusterSpec, local_cluster
from perfrunner.spec.document import Node, Problems, describe, load_document, plain
from perfrunner.spec.includes import USE, Sources, absolute_paths, shown
from perfrunner.spec.model import Spec
from perfrunner.spec.server import ServerChecks
from perfrunner.spec.small import LOCAL
from perfrunner.spec.suggest import did_you_mean, expected_name
from perfrunner.spec.switches import Tables, own_tables
from perfrunner.spec.workloads import WORKLOAD_TYPES


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


Loc: TypeAlias = tuple["int | str", ...]

_KINDS = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "finite_number": "a finite number",
}
_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def note_errors(
    error: ValidationError, root: Node, model: type[BaseModel], problems: Problems
) -> None:
    """Add every error of a validation to `problems`, at the position where the value was written."""
    for detail in error.errors(include_url=False):
        items = detail.get("ctx", {}).get("items") if detail["type"] == "items" else None
        if isinstance(items, dict):
            for key, text in items.items():
                loc = (*detail["loc"], *(key if isinstance(key, tuple) else (str(key),)))
                _note(root, loc, _with_got(str(text), root, loc), problems)
            continue
        _note_detail(detail, root, model, problems)


def _note_detail(
    detail: ErrorDetails, root: Node, model: type[BaseModel], problems: Problems
) -> None:
    loc: Loc = detail["loc"]
    kind = detail["type"]
    node, left = _find(root, loc)
    if left and kind != "extra_forbidden" and problems.is_incomplete(node.mark):
        return
    if not left and (
        problems.has_problem_at(node.mark)
        or (kind in _ABSENCE and problems.is_incomplete(node.mark))
    ):
        return
    if kind == "extra_forbidden":
        parent, key = _find(root, loc[:-1])[0], str(loc[-1])
        known = _field_names(model, loc[:-1], parent)
        _note(
            root,
            loc,
            f"unknown key{did_you_mean(key, known)}; expected one of {', '.join(known)}",
            problems,
        )
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = node.get("type")
        _note(root, (*loc, "type"), _workload_type_error(tag), problems)
    else:
        _note(root, loc, _text(detail, root), problems)


def _workload_type_error(tag: Node | None) -> str:
    if tag is None:
        return f"required key is missing; expected a workload type: {', '.join(WORKLOAD_TYPES)}"
    name = tag.value if isinstance(tag.value, str) else describe(tag.value)
    return expected_name("a workload type", name, WORKLOAD_TYPES)


def _text(detail: ErrorDetails, root: Node) -> str:
    kind, ctx = detail["type"], detail.get("ctx", {})
    got = _got(root, detail["loc"], detail["input"])
    if kind == "missing":
        return "required key is missing"
    if kind in _KINDS:
        return f"expected {_KINDS[kind]}, got {got}"
    if kind in _LIMITS:
        key, relation = _LIMITS[kind]
        return f"expected {relation} {ctx[key]}, got {got}"
    if kind == "literal_error":
        return f"expected {ctx['expected']}, got {got}{did_you_mean(str(detail['input']), _quoted(ctx['expected']))}"
    if kind == "too_short":
        return f"expected {ctx['min_length']} or more entries, got {ctx['actual_length']}"
    if kind == "too_long":
        return f"expected at most {ctx['max_length']} entries, got {ctx['actual_length']}"
    if kind == "value_error":
        return _with_got(str(ctx["error"]), root, detail["loc"], detail["input"])
    return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, got {got}"


_ABSENCE = ("union_tag_not_found", "too_short")
_UNSET = object()


def _with_got(text: str, root: Node, loc: Loc, value: Any = _UNSET) -> str:
    if "got " in text or "unknown" in text:
        return text
    if value is _UNSET:
        node, left = _find(root, loc)
        value = None if left else node.value
    if isinstance(value, dict | BaseModel):
        return text
    return f"{text}, got {_got(root, loc, value)}"


def _got(root: Node, loc: Loc, value: Any) -> str:
    """Return a value as it is written in the spec, where it is a number there: `1e3` instead of 1000.0."""
    node, left = _find(root, loc)
    is_number = not left and isinstance(value, float) and node.value is value
    return node.written if is_number and node.written is not None else describe(value)


def _quoted(expected: str) -> list[str]:
    return [part.strip(" '") for part in expected.replace(" or ", ",").split(",")]


def _note(root: Node, loc: Loc, text: str, problems: Problems) -> None:
    node, left = _find(root, loc)
    problems.add(node.mark, left, text)


def _find(root: Node, loc: Loc) -> tuple[Node, Loc]:
    """Return the deepest existing node on a path, and the rest of the path below it."""
    node, left = root, list(loc)
    while left:
        child = _child(node, left[0])
        if child is None and not _is_pydantics_own(node, left[0]):
            break
        node = node if child is None else child
        left.pop(0)
    return node, tuple(left)


def _child(node: Node, step: int | str) -> Node | None:
    child: Node | None = None
    if isinstance(node.value, dict):
        child = node.value.get(step)
    elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
        child = node.value[step]
    return child


def _is_pydantics_own(node: Node, step: int | str) -> bool:
    """Tell whether pydantic added this step: a key marker, a union tag, or an index into a scalar."""
    if isinstance(step, int):
        return not isinstance(node.value, dict | list)
    return step == "[key]" or (step in WORKLOAD_TYPES and _type_of(node) == step)


def _type_of(node: Node) -> object:
    tag = node.get("type")
    return None if tag is None else tag.value


def _field_names(model: type[BaseModel], loc: Loc, parent: Node) -> list[str]:
    """Return the keys that the mapping at `loc` may have."""
    tag = _type_of(parent)
    if len(loc) >= 2 and loc[0] == "workloads" and tag in WORKLOAD_TYPES:
        return [*WORKLOAD_TYPES[str(tag)].model_fields, USE]
    current: Any = model
    for step in loc:
        current = _bare(_child_type(current, step))
    if not (isinstance(current, type) and issubclass(current, BaseModel)):
        return []
    names = list(current.model_fields)
    if current is model and "variants" in names:
        names.insert(names.index("variants") + 1, "matrix")
        names[names.index("profile")] = "profiles"
    if len(loc) == 2 and loc[0] == "variants":
        names.remove("name")  # the variant's key is its name
    return names


def _child_type(current: Any, step: int | str) -> Any:
    if isinstance(current, type) and issubclass(current, BaseModel):
        field = current.model_fields.get(str(step))
        return field.annotation if field else None
    arguments = [a for a in get_args(current) if a is not Ellipsis]
    return arguments[-1] if arguments else None


def _bare(kind: Any) -> Any:
    """Strip the validators and `| None` from a type."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        some = [a for a in get_args(kind) if a is not type(None)]
        return _bare(some[0]) if len(some) == 1 else kind
    return kind
