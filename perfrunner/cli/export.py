"""`perfrunner export`: the measured values as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import note
from perfrunner.errors import UsageError

NAMES = ("trials", "rounds", "series")


@click.command(
    "export",
    short_help="The measured values as CSV or Parquet.",
    epilog="\b\nExamples:\n  perfrunner export > trials.csv                        the latest experiment's trials"
    "\n  perfrunner export quickstart --table rounds           the slices of load, one after the other"
    "\n  perfrunner export --format parquet --to tables/       trials, rounds and series as files"
    "\n\nThe columns: docs/export.md.",
)  # fmt: skip
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option(
    "--table",
    "tables",
    type=click.Choice(NAMES),
    multiple=True,
    help="Which; repeatable. Default: trials on stdout, all with --to.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="parquet is a file: --to.",
)
@click.option(
    "--to",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write TABLE.csv or TABLE.parquet there instead of to stdout.",
)
@options.hosts_option
@options.out_option
def command(
    experiment: str | None,
    tables: tuple[str, ...],
    fmt: str,
    directory: Path | None,
    with_hosts: bool,
    out_dir: Path,
) -> None:
    """Export the measured values of an EXPERIMENT: an id, the start of one, or a spec's name; default the latest."""
    from perfrunner.cli.report import load
    from perfrunner.export import TABLES, csv_text, rows, write_tables
    from perfrunner.export.tables import raw_of

    if directory is None and (fmt != "csv" or len(tables) > 1):
        raise UsageError("stdout takes one table, as CSV", "name a directory: --to DIR")
    with options.open_results(out_dir) as store:
        data = load(store, experiment, hide=not with_hosts)
    if directory is not None:
        written, problems = write_tables(data, tables or NAMES, fmt, directory)
        for path in written:
            note(f"export {path}")
    else:
        (name,) = tables or ("trials",)
        raw = None if name == "trials" else raw_of(data)
        click.echo(csv_text(TABLES[name], rows(data, name, raw)), nl=False)
        problems = list(raw.notes) if raw is not None else []
    for problem in problems:
        note(f"warning: {problem}")
