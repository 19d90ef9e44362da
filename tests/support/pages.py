"""Extract what the pages of the documentation give to a reader to copy."""

from __future__ import annotations

import re
import textwrap

from tests.support.fakes import ROOT


def blocks_of(page: str, heading: str) -> list[str]:
    """Return the fenced and indented blocks of a section of docs/`page`, in order."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    results = re.search(rf"(?ms)^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text)
    assert results is not None, f"{page} has no section {heading}"
    blocks = re.findall(r"(?m)^```\w*\n((?:.*\n)*?)```$|((?:^ {4}.*\n|^\n(?= {4}))+)", results[1])
    return [textwrap.dedent(fenced or indented).strip("\n") + "\n" for fenced, indented in blocks]
