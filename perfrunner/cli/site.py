"""`perfrunner site`: a static site over everything in one store or several."""

from __future__ import annotations

from pathlib import Path

import click

from perfrunner.cli.options import DEFAULT_OUT, store_option, store_url
from perfrunner.cli.output import note


@click.command(
    "site",
    short_help="A static site over all stored experiments.",
    epilog="\b\nExamples:\n  perfrunner site public/                          of ./perfrunner-results"
    "\n  perfrunner site public/ --out nightly/ --out laptop/"
    "\n  perfrunner site public/ --store postgresql://perf@db.example.org/results"
    "\n\nIt opens from disk. Experiments whose report.html lies beside their trials are linked to it.",
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--out",
    "stores",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="PERFRUNNER_OUT",
    multiple=True,
    help="Where results are kept; repeatable.  [default: ./perfrunner-results]",
)
@store_option
def command(directory: Path, stores: tuple[Path, ...]) -> None:
    """Write to DIR: all experiments, the history of each spec with change points, a page a variant and host."""
    from perfrunner.report.site import write_site

    written = write_site(stores or (DEFAULT_OUT,), directory, store_url())
    note(f"site {directory / 'index.html'} ({len(written)} files)")
