"""The man page has everything that --help has, and groff formats it without a complaint."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest

from perfrunner.cli import main
from perfrunner.cli.group import COMMANDS, GROUPS


@pytest.fixture(scope="module")
def source() -> str:
    from click.testing import CliRunner

    result = CliRunner().invoke(main, ["--man"])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def page(source: str) -> str:
    """The page as a reader sees it, in lines that are not wrapped."""
    if shutil.which("groff") is None:
        pytest.skip("needs groff")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=400n"],
        input=source.encode(), capture_output=True, check=True, timeout=600,
    )  # fmt: skip
    assert done.stderr == b""
    return done.stdout.decode()


def options(command: click.Command, parent: click.Context, name: str) -> Iterator[tuple[str, str]]:
    """Each option of a command, and of its subcommands, with its help."""
    context = click.Context(command, info_name=name, parent=parent)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            yield record
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            assert subcommand is not None
            yield from options(subcommand, context, child)


def test_it_has_each_heading_and_what_the_program_is(page: str) -> None:
    assert "perfrunner - compare variants of a key-value server" in page
    assert [heading.upper() for heading in GROUPS if heading.upper() not in page] == []
    assert "Exit codes: 0 done, 1 a verdict" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_options_and_examples(page: str, name: str) -> None:
    root = click.Context(main, info_name="perfrunner", **main.context_settings)
    command = main.get_command(root, name)
    assert command is not None
    assert re.search(rf"(?m)^ *perfrunner {name} \[OPTIONS\]", page)
    flat = " ".join(page.split())
    for names, text in options(command, root, name):
        assert " ".join(f"{names} {text}".split()) in flat
    for line in (command.epilog or "").splitlines():
        assert " ".join(line.replace("\b", "").split()) in flat


def test_no_word_is_taken_for_a_request(source: str) -> None:
    requests = {line.split()[0] for line in source.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".nf", ".fi"}
