"""Report words and Python names of the project's old style, which plain technical English does not need.

    python3 scripts/lib/wording.py FILE...

`scripts/lint` runs it over documentation, programs and comments. A line is reported with the word and what to write.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

INSTEAD = {
    r"told|said": "reported, recorded, printed; or name who reports what",
    r"anew": "again",
    r"(?<!backlog: )beside(?!:)": "next to, besides, compared with",
    r"meanwhile(?=[.,;:)])": "during the run, in the meantime",
    r"whoever": "name the person or program",
    r"for ever": "indefinitely, or the time limit",
    r"want of": "lack of, or say what is missing",
    r"shall": "must, or the present tense",
    r"(?:is|are) gone on with": "is resumed",
    r"goes on as it": "continues, keeps its settings",
    r"holds against": "is compared with",
    r"so many": "the number, or how many",
}
# Quoted words are names, such as the keys of older records.
PATTERN = re.compile(
    "|".join(rf"(?<![\w'\"`])(?P<w{n}>{words})(?![\w'\"`])" for n, words in enumerate(INSTEAD))
    + r"|(?P<too>, too)(?=[.,;:)]|$)",
    re.IGNORECASE,
)
NOT_A_NAME = {"found", "its", "one", "said", "told"}
NOT_IN_A_TEST_NAME = {"told", "said", "anew", "beside", "meanwhile", "whoever"}


def findings(text: str, *, comments_only: bool = False) -> list[tuple[int, str, str]]:
    """Return line number, word and advice of each word of the old style. Of C++ only comments are read."""
    advice = {f"w{n}": instead for n, instead in enumerate(INSTEAD.values())}
    advice["too"] = "also"
    return [
        (number, match[0], advice[str(match.lastgroup)])
        for number, line in enumerate(text.splitlines(), 1)
        for match in PATTERN.finditer(line.partition("//")[2] if comments_only else line)
    ]


def bad_names(source: str) -> list[tuple[int, str]]:
    """Return line number and name of each variable, parameter or function named by a pronoun or participle."""
    return sorted(
        (line, name)
        for line, name in _names(ast.parse(source))
        if name in NOT_A_NAME
        or (name.startswith("test_") and NOT_IN_A_TEST_NAME & set(name.split("_")))
    )


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def main(paths: list[str]) -> int:
    """Print the findings of all files; return 1 if there are any."""
    failed = 0
    for path in paths:
        text = Path(path).read_text(encoding="utf-8")
        # Tests quote output and older records: only their names are checked.
        prose = "" if path.startswith("tests/") else text
        for number, word, instead in findings(prose, comments_only=path.endswith((".cc", ".h"))):
            print(f"{path}:{number}: {word.strip(', ')!r}: write: {instead}")
            failed = 1
        for number, name in bad_names(text) if path.endswith(".py") else ():
            print(
                f"{path}:{number}: {name!r} is no name: write what it holds or shows, in plain words"
            )
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
