"""Every command of README, docs, specs' comments and `--help` examples has options and choices that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from perfrunner.cli import main
from perfrunner.cli.group import COMMANDS

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "engine_src" / "README.md",
    *sorted((ROOT / "specs").rglob("*.yaml")),
]
_CALL = re.compile(r"(?:^|[\s`(;])perfrunner ((?:--?)?[a-z][^`]*)")
_ENDS = {"|", ">", ">>", "<", "&&", "||", ";", "&"}


def test_the_pages_have_commands() -> None:
    assert sum(1 for page in PAGES for _ in written(page)) > 120
    assert {words[0] for page in PAGES for words in written(page)} >= COMMANDS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_of_a_page_can_be_given(page: Path) -> None:
    wrong = [
        f"perfrunner {shlex.join(words)}: {why}"
        for words in written(page)
        if (why := refused(words))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_the_help_can_be_given(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    results = list(calls([line for line in lines if line.startswith("perfrunner ")]))
    assert results
    assert [(words, why) for words in results if (why := refused(words))] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("perfrunner rnu spec.yaml", "No such command"),
        ("perfrunner run spec.yaml --repeat 3", "No such option"),
        ("perfrunner report --format pdf", "'pdf' is not one of"),
        ("perfrunner run spec.yaml --repeats", "requires an argument"),
        ("perfrunner run one.yaml two.yaml", "unexpected extra argument"),
    ],
)
def test_what_cannot_be_given_is_found(line: str, why: str) -> None:
    (words,) = calls([line])
    assert why in str(refused(words))


def written(page: Path) -> Iterator[list[str]]:
    """The commands of a page: in Markdown those in blocks and code spans, in YAML those in comments."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".yaml":
        yield from calls(re.findall(r"(?m)#(.*(?:\\\n#.*)*)", text.replace("\\\n# ", "\\\n")))
        return
    text = re.sub(r"\s*\\\n\s*", " ", text)
    blocks = re.findall(r"(?m)^(?: {4}|\t).*$", text)
    for fenced in re.findall(r"(?ms)^```.*?^```", text):
        blocks += fenced.splitlines()
    prose = re.sub(r"(?ms)^```.*?^```|^(?: {4}|\t).*?$", "", text)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    yield from calls([*blocks, *(span for span in spans if span.startswith("perfrunner "))])


def calls(lines: list[str]) -> Iterator[list[str]]:
    for line in lines:
        for call in _CALL.findall(line):
            for part in re.split(r"; (?=perfrunner )", call):
                words = _words(part.removeprefix("perfrunner "))
                if words and (words[0] in COMMANDS or len(words) > 1):
                    yield words


def _words(text: str) -> list[str]:
    """Up to the remark next to it (after two spaces, or #) or the shell's next word."""
    text = re.split(r"\s{2,}(?![-\\])|\s#\s", text.strip())[0]
    text = re.sub(r"[][]", "", text)
    try:
        words = shlex.split(text)
    except ValueError:  # half a quotation: no whole command stands there
        return []
    ends = [n for n, word in enumerate(words) if word in _ENDS or word.startswith((">", "$("))]
    return words[: ends[0]] if ends else words


def refused(words: list[str]) -> str | None:
    """Why the command line would not take it, whatever files there are; None where it would."""
    return None if words[0].startswith("-") else _refused(main, None, words)


def _refused(group: click.Group, above: click.Context | None, words: list[str]) -> str | None:
    name, *arguments = words
    # as under the group: a command keeps the help option of the first context that asks for it
    around = click.Context(group, above, **group.context_settings)
    command = group.get_command(around, name)
    if command is None:
        return f"No such command {name}"
    context = click.Context(command, around, name, **command.context_settings)
    try:
        given, left, _ = command.make_parser(context).parse_args(arguments)
        for parameter in command.get_params(context):
            for value in _texts(given.get(parameter.name or "")):
                if isinstance(parameter.type, click.Choice):
                    parameter.type.convert(value, parameter, context)
    except click.UsageError as error:
        return error.format_message()
    if isinstance(command, click.Group):
        return _refused(command, around, left) if left else None
    return f"Got unexpected extra argument(s) {left}" if left else None


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    return [single for single in values if isinstance(single, str)]
