"""Write the man page of perfrunner from the same texts as `--help`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from perfrunner import __version__
from perfrunner.cli.group import GROUPS


def man_page(group: click.Group) -> str:
    """Return the page in roff, with a section for each heading of `--help`."""
    root = click.Context(group, info_name="perfrunner", **group.context_settings)
    lines = [
        f'.TH PERFRUNNER 1 "" "perfrunner {_roff(__version__)}" "User Commands"',
        ".SH NAME",
        f"perfrunner \\- {_roff(_summary(group))}",
        ".SH SYNOPSIS",
        ".B perfrunner",
        "[OPTIONS] COMMAND [ARGS]...",
        ".SH DESCRIPTION",
        *_paragraphs(group.help or ""),
        *_options(group, root),
        *_paragraphs(group.epilog or ""),
    ]
    for heading, names in GROUPS.items():
        lines.append(f'.SH "{heading.upper()}"')
        for name in names:
            command = group.get_command(root, name)
            if command is not None:
                lines += _command(command, name, root)
    return "\n".join(lines) + "\n"


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f'.SS "{_roff(f"{context.command_path} {usage}", quoted=True)}"'
    yield from _paragraphs(command.help or "")
    yield from _options(command, context)
    yield from _paragraphs(command.epilog or "")
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            if subcommand is not None:
                yield from _command(subcommand, child, context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            names, text = record
            yield ".TP"
            yield f".B {_roff(names)}"
            yield _roff(" ".join(text.split()))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs. Those that click must not wrap, such as examples, keep their lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        yield ".PP"
        if lines and lines[0].strip() == "\b":
            yield ".nf"
            yield from (_roff(line) for line in lines[1:])
            yield ".fi"
        else:
            yield _roff(" ".join(paragraph.split()))


def _summary(group: click.Group) -> str:
    return (group.help or "").strip().partition(":")[0].lower()


def _roff(text: str, *, quoted: bool = False) -> str:
    """Escape text so that no word of it is a request or a sequence of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha")
    text = text.replace("~", "\\(ti").replace("'", "\\(aq")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    if quoted:
        return text.replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith((".", "'")) else text
