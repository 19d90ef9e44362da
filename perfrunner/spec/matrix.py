"""Expand `matrix` into one variant for every combination of settings.

    matrix:
      base: {allocator: {name: jemalloc-5.1.0}}
      axes: {allocator.name: [jemalloc-5.1.0, jemalloc-5.3.1], allocator.options.metadata_thp: [null, auto, always]}
      exclude: [{allocator.name: jemalloc-5.3.1, allocator.options.metadata_thp: always}]

An axis is a path inside a variant. null omits the setting, also if the base has it. The name of a combination is its
values joined by commas ("default" for null), in the order of the axes. Combinations follow the listed variants.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod

from perfrunner.spec.document import Mark, Node, Problems, describe, size
from perfrunner.spec.suggest import NAME, NAME_WANTED, did_you_mean, expected_name
from perfrunner.spec.yaml_core import MAX_NODES

MAX_VARIANTS = 1000
_KEYS = ("base", "axes", "exclude")


def expand(matrix: Node, problems: Problems) -> dict[str, Node]:
    """Return the variants by name, with the marks of the axes and of the base.

    Returns an empty dict after adding a problem.
    """
    if not isinstance(matrix.value, dict):
        problems.add(
            matrix.mark,
            "",
            f"expected a mapping of {', '.join(_KEYS)}, got {describe(matrix.value)}",
        )
        return {}
    for key, child in matrix.value.items():
        if key not in _KEYS:
            text = f"unknown key{did_you_mean(key, _KEYS)}; expected one of {', '.join(_KEYS)}"
            problems.add(child.mark, "", text)
    axes = _axes(matrix, problems)
    base = matrix.get("base") or Node({}, matrix.mark)
    if not isinstance(base.value, dict):
        problems.add(base.mark, "", f"expected a mapping, got {describe(base.value)}")
        return {}
    if not axes:
        return {}
    combinations = prod(len(values) for values in axes.values())
    if combinations > MAX_VARIANTS:
        text = f"expected at most {MAX_VARIANTS} combinations, got {combinations}"
        problems.add(matrix.mark, "", text)
        return {}
    if (values := combinations * (size(base) + len(axes))) > MAX_NODES:
        text = f"expected at most {MAX_NODES} values in all combinations, got {values}"
        problems.add(matrix.mark, "", text)
        return {}
    return _combined(base, axes, _excluded(matrix, axes, problems), matrix.mark, problems)


def _combined(
    base: Node,
    axes: dict[str, list[Node]],
    excluded: list[tuple[Mark, dict[str, str]]],
    mark: Mark,
    problems: Problems,
) -> dict[str, Node]:
    used: set[int] = set()
    variants: dict[str, Node] = {}
    for combination in product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        matches = [i for i, (_, rule) in enumerate(excluded) if _matches(rule, chosen)]
        used.update(matches)
        if matches:
            continue
        name = ",".join(_named(axis, node) for axis, node in chosen.items())
        if name in variants:
            text = f"expected distinct values, got {name} twice"
            problems.add(combination[-1].mark, "", text)
        if not re.fullmatch(NAME, name):
            wrong = next((v for v in combination if not _may_be_in_a_name(v)), combination[0])
            text = f"expected values that make {NAME_WANTED}, got {name!r}"
            problems.add(wrong.mark, "", text)
            return {}
        variants[name] = _variant(base, chosen)
    for i, (rule_mark, _) in enumerate(excluded):
        if i not in used:
            problems.add(
                rule_mark, "", "expected a combination of the axes; this rule matches none"
            )
    if not variants:
        problems.add(
            mark, "exclude", "expected at least one remaining combination; all are excluded"
        )
    return variants


def _may_be_in_a_name(value: Node) -> bool:
    return re.fullmatch(NAME, f"x{label(value)}") is not None


def label(node: Node) -> str:
    """Return an axis value, as it was written, for use in a variant's name."""
    if node.value is None:
        return "default"
    return str(node.value) if node.written is None else node.written


def variant_name(text: str) -> str:
    """Turn a revision or path into a variant's name.

    `origin/main` becomes origin-main, `HEAD~1` and `HEAD^` become HEAD-1, `.` becomes here. A name in another alphabet
    becomes revision.
    """
    counted = re.sub(r"\^+(?![0-9^{])", lambda parents: f"~{len(parents[0])}", text.rstrip("/"))
    name = re.sub(r"[^A-Za-z0-9._,=+]+", "-", counted).strip("-.,=+")[-100:].lstrip("-.,=+_")
    return name or ("revision" if counted.strip("./~") else "here")


def _named(axis: str, value: Node) -> str:
    """Return the part of a variant's name for one axis; revisions and paths lose `/` and `~`."""
    text = label(value)
    return variant_name(text) if axis in ("source.git", "source.dir", "source.patch") else text


def _axes(matrix: Node, problems: Problems) -> dict[str, list[Node]]:
    node = matrix.get("axes")
    if node is None or not isinstance(node.value, dict) or not node.value:
        mark = matrix.mark if node is None else node.mark
        got = "nothing" if node is None or node.value in (None, {}) else describe(node.value)
        below = "axes" if node is None else ""
        problems.add(mark, below, f"expected a mapping from a setting to its values, got {got}")
        return {}
    axes: dict[str, list[Node]] = {}
    for name, values in node.value.items():
        if not isinstance(values.value, list) or not values.value:
            got = "an empty list" if values.value == [] else describe(values.value)
            problems.add(values.mark, "", f"expected a list of values, got {got}")
            continue
        if not all(name.split(".")):
            problems.add(
                values.mark, "", "expected a path inside a variant, such as allocator.name"
            )
            continue
        wrong = [v for v in values.value if isinstance(v.value, dict | list)]
        for value in wrong:
            problems.add(value.mark, "", f"expected a plain value, got {describe(value.value)}")
        if not wrong:
            axes[name] = values.value
    for name, values in axes.items():
        outer = next((other for other in axes if name.startswith(f"{other}.")), None)
        if outer is not None:
            text = f"expected an axis that does not change another one, got one inside of {outer}"
            problems.add(values[0].mark, "", text)
            return {}
    return axes if len(axes) == len(node.value) else {}


def _excluded(
    matrix: Node, axes: dict[str, list[Node]], problems: Problems
) -> list[tuple[Mark, dict[str, str]]]:
    node = matrix.get("exclude")
    if node is None:
        return []
    if not isinstance(node.value, list):
        problems.add(node.mark, "", f"expected a list of mappings, got {describe(node.value)}")
        return []
    rules = []
    for item in node.value:
        if not isinstance(item.value, dict) or not item.value:
            problems.add(
                item.mark,
                "",
                f"expected a mapping from an axis to a value, got {describe(item.value)}",
            )
            continue
        rule = {}
        for key, value in item.value.items():
            if key not in axes:
                problems.add(value.mark, "", expected_name("an axis", key, axes))
                continue
            labels = [label(v) for v in axes[key]]
            if label(value) not in labels:
                problems.add(
                    value.mark, "", expected_name("a value of the axis", label(value), labels)
                )
                continue
            rule[key] = label(value)
        if len(rule) == len(item.value):
            rules.append((item.mark, rule))
    return rules


def _matches(rule: dict[str, str], values: dict[str, Node]) -> bool:
    return all(label(values[key]) == wanted for key, wanted in rule.items())


def _variant(base: Node, chosen: dict[str, Node]) -> Node:
    variant = base
    for axis, value in chosen.items():
        keys = axis.split(".")
        variant = _without(variant, keys) if value.value is None else _with(variant, keys, value)
    return variant


def _with(node: Node, keys: list[str], value: Node) -> Node:
    """Return a copy of a mapping with a value at a path; mappings that it lacks are marked as the value is."""
    if not keys:
        return value
    below = node.get(keys[0])
    if below is None or not below.is_mapping:
        below = Node({}, value.mark)
    return node.with_child(keys[0], _with(below, keys[1:], value))


def _without(node: Node, keys: list[str]) -> Node:
    """Return a copy of a mapping without the value at a path, if it has one there."""
    below = node.get(keys[0])
    if below is None:
        return node
    if len(keys) == 1:
        return node.without(keys[0])
    return node.with_child(keys[0], _without(below, keys[1:]))
