"""The modules of perfrunner.hosts depend on each other in one direction."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOM = Path(__file__).parents[3] / "perfrunner" / "hosts"


def test_there_is_no_circle() -> None:
    """Imports for type checkers and within functions count, too. CycleError names the circle."""
    graph = {path.stem: _imported(path) for path in ROOM.glob("*.py") if path.stem != "__init__"}
    assert {"registry", "transport"} <= graph["shell"]
    list(TopologicalSorter(graph).static_order())


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            room, _, module = node.module.rpartition(".")
            if room == "perfrunner.hosts":
                found.add(module)
            elif node.module == "perfrunner.hosts":
                found |= {a.name for a in node.names if (ROOM / f"{a.name}.py").is_file()}
    return found
