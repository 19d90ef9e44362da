"""`perfrunner site`: write a static site of all experiments in one or several stores."""

from __future__ import annotations

from pathlib import Path

import click

from perfrunner.cli.options import DEFAULT_OUT, store_option, store_url
from perfrunner.cli.output import note


@click.command(
    "site",
    short_help="Write a static site of all stored experiments.",
    epilog="\b\nExamples:\n  perfrunner site public/                          from ./perfrunner-results"
    "\n  perfrunner site public/ --out nightly/ --out laptop/"
    "\n  perfrunner site public/ --store postgresql://perf@db.example.org/results"
    "\n\nThe site needs no server: open DIR/index.html. It links to the report.html of each experiment that has one.",
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--out",
    "stores",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="PERFRUNNER_OUT",
    multiple=True,
    help="Results directory; repeatable (default: ./perfrunner-results).",
)
@store_option
def command(directory: Path, stores: tuple[Path, ...]) -> None:
    """Write a static site to DIR: all experiments, the history of each spec, and a page for each variant and host."""
    from perfrunner.report.site import write_site

    written = write_site(stores or (DEFAULT_OUT,), directory, store_url())
    note(f"site {directory / 'index.html'} ({len(written)} files)")
