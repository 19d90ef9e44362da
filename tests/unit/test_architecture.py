"""Packages import downwards only, and modules are imported without a cycle."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from graphlib import TopologicalSorter

import pytest

from tests.support.fakes import ROOT

# From top to bottom, as in docs/explanation/architecture.md.
LAYERS = (
    "cli", "fleet", "export", "report", "bisect", "experiment", "analysis", "results", "workloads", "servers",
    "measure", "sources", "build", "hosts", "spec", "domain", "children", "paths", "text", "errors",
)  # fmt: skip


@pytest.fixture(scope="module")
def modules() -> Mapping[str, ast.Module]:
    """Return the syntax trees of the package by the names of its modules."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in (ROOT / "perfrunner").rglob("*.py")
    }


def imported(nodes: Iterator[ast.AST], modules: Container[str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def layer(module: str) -> int | None:
    name = module.split(".")[1] if "." in module else ""
    return LAYERS.index(name) if name in LAYERS else None


def test_no_package_imports_one_above_it(modules: Mapping[str, ast.Module]) -> None:
    """Also not within a function, nor for type checking."""
    upward = [
        f"{module} imports {other}"
        for module, tree in modules.items()
        for other in imported(ast.walk(tree), modules)
        if (own := layer(module)) is not None
        and other.startswith("perfrunner.")
        and ((below := layer(other)) is not None and below < own)
    ]
    assert upward == []


def test_every_package_has_a_layer(modules: Mapping[str, ast.Module]) -> None:
    """`children` runs the command line as a program."""
    packages = {module.split(".")[1] for module in modules if "." in module}
    assert packages - {"__main__"} == set(LAYERS)


def test_domain_imports_nothing_of_ours(modules: Mapping[str, ast.Module]) -> None:
    names = imported(ast.walk(modules["perfrunner.domain"]), modules)
    assert [name for name in names if name.startswith("perfrunner")] == []


def test_modules_are_imported_without_a_cycle(modules: Mapping[str, ast.Module]) -> None:
    """Imports within functions and for type checking do not run at import; they count within `hosts` only."""
    graph = {}
    for module, tree in modules.items():
        needs = set(imported(iter(tree.body), modules))
        if module.startswith("perfrunner.hosts."):
            needs |= {
                name
                for name in imported(ast.walk(tree), modules)
                if name.startswith("perfrunner.hosts.")
            }
        graph[module] = (needs & modules.keys()) - {module}
    assert {"perfrunner.hosts.registry", "perfrunner.hosts.process"} <= graph[
        "perfrunner.hosts.transport"
    ]
    list(TopologicalSorter(graph).static_order())  # CycleError names the modules
