"""The documentation lists every fault that the engine can be built with."""

from __future__ import annotations

import re

from tools.find_mutations import ROOT, mutations


def test_each_fault_has_a_row_in_the_documentation() -> None:
    text = (ROOT / "docs/explanation/correctness.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)`: ([^|]+) \|", text, re.MULTILINE))
    assert rows == mutations()
    assert f"All {len(rows)} faults were found" in text
