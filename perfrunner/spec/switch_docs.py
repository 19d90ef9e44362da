"""The table of build switches in a document, as engine_src/options/switches.json has them.

python -m perfrunner.spec.switch_docs docs/specs.md          ends with 1 where the document says something else
python -m perfrunner.spec.switch_docs --fix docs/specs.md    and puts it right
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from perfrunner.errors import EXIT_VERDICT, UsageError
from perfrunner.spec.switches import Switch, Table, own_table

BEGIN = "<!-- switches: from engine_src/options/switches.json, by scripts/lint --fix -->"
END = "<!-- end of switches -->"


def with_switches(document: str, table: Table) -> str:
    """The document with this table between its marks. UsageError for one without them."""
    lines = ["| switch | meaning | values (the default is bold) |", "|---|---|---|"]
    lines += [_row(switch) for switch in table.values()]
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise UsageError("the document has no place for the switches", f"{BEGIN} ... {END}")
    body = "\n".join(lines)
    return pattern.sub(lambda _: f"{BEGIN}\n\n{body}\n\n{END}", document)


def _row(switch: Switch) -> str:
    values = [
        _value(f"`{choice.value}`", choice.about, default=choice.value == switch.default)
        for choice in switch.choices
    ]
    if switch.number is not None:
        numbers = f"{switch.number.least} to {switch.number.most}"
        values.append(_value(numbers, switch.number.about))
        if switch.default not in switch.values:
            values.append(_value(f"`{switch.default}`", "", default=True))
    return f"| `{switch.name}` | {switch.about} | {'; '.join(values)} |"


def _value(text: str, about: str, *, default: bool = False) -> str:
    shown = f"**{text}**" if default else text
    return f"{shown}: {about}" if about else shown


@click.command()
@click.option("--fix", is_flag=True, help="Write the table anew.")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def command(ctx: click.Context, path: Path, fix: bool) -> None:
    """Whether the document's table of switches is that of the engine."""
    text = path.read_text(encoding="utf-8")
    right = with_switches(text, own_table())
    if right == text:
        return
    if fix:
        path.write_text(right, encoding="utf-8")
        return
    click.echo(f"{path}: the switches are not those of engine_src/options/switches.json")
    ctx.exit(EXIT_VERDICT)


if __name__ == "__main__":
    command()
