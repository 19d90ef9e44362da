"""Generate the table of build switches in a document from engine_src/options/switches.json.

python -m tools.switch_docs docs/reference/specs.md          exits with 1 if the table is outdated
python -m tools.switch_docs --fix docs/reference/specs.md    rewrites the table
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
    """Return the document with the table between its markers. Raises UsageError if it has none."""
    lines = ["| switch | meaning | values (the default is bold) |", "|---|---|---|"]
    lines += [_row(switch) for switch in table.values()]
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise UsageError(
            "the document has no markers for the table of switches",
            f"add the lines {BEGIN} and {END}",
        )
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
@click.option(
    "--fix", is_flag=True, help="Rewrite the table if it is outdated (default: only report it)."
)
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def command(ctx: click.Context, path: Path, fix: bool) -> None:
    """Check that the table of switches in a document is up to date."""
    text = path.read_text(encoding="utf-8")
    updated = with_switches(text, own_table())
    if updated == text:
        return
    if fix:
        path.write_text(updated, encoding="utf-8")
        return
    click.echo(
        f"{path}: the table of switches differs from engine_src/options/switches.json (run with --fix)"
    )
    ctx.exit(EXIT_VERDICT)


if __name__ == "__main__":
    command()
