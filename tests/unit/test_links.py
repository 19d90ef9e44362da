"""Check the links between the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / ".github").rglob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "engine_src").rglob("*.md"),
]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:)([^)\s]+)\)")


def without_code(page: Path) -> str:
    return re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the explicit anchors of a page, and those that GitHub makes from its headings."""
    text = without_code(page)
    named = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"(?m)^#+ (.*)$", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        named.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return named


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(without_code(page)):
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists() or (
            anchor and other.suffix == ".md" and anchor not in anchors(other)
        ):
            broken.append(target)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert broken_links(document) == []


def test_every_page_that_scripts_specs_and_messages_name_exists() -> None:
    named = re.compile(r"docs/[\w/.-]+\.(?:md|json)")
    files = [
        path
        for folder in ("perfrunner", "scripts", "specs", "engine_src", "tools", ".github")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix in {"", ".cc", ".h", ".py", ".sh", ".yaml", ".yml", ".md", ".j2"}
    ]
    missing = {
        f"{path.relative_to(ROOT)}: {page}"
        for path in files
        for page in named.findall(path.read_text(encoding="utf-8", errors="replace"))
        if not (ROOT / page).exists()
    }
    assert missing == set()


def test_a_missing_page_and_a_missing_anchor_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text('# One `two` (three)\n<a id="four"></a>\n')
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](other.md#one-two-three) [b](other.md#four) [c](#top) [d](https://example.org)\n"
        "[e](gone.md) [f](other.md#five) [g](#bottom)\n"
    )
    assert broken_links(page) == ["gone.md", "other.md#five", "#bottom"]
