"""The user's documents as texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "engine_src").glob("*.md"),
]
WIDTH = 100
NO_PROSE = ("|", "<", "!", "#", "    ")  # tables, HTML, pictures, headings, commands


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Its lines by number, without code and what perfrunner writes into a page."""
    code = generated = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif line.startswith("<!--"):
            generated = line.startswith("<!-- generated")
        elif not (code or generated or line.startswith(NO_PROSE)):
            yield number, line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_wrapped(document: Path) -> None:
    long = [
        f"{document.relative_to(ROOT)}:{number}: {len(line)} columns"
        for number, line in prose(document.read_text(encoding="utf-8"))
        if len(line) > WIDTH and " " in line.strip()
    ]
    assert not long
