"""`perfrunner import`: add a run from an archive to the stored experiments."""

from __future__ import annotations

from pathlib import Path

import click

from perfrunner.cli import options
from perfrunner.cli.output import note, result


@click.command(
    "import",
    short_help="Add a run from an archive to the stored experiments.",
    epilog="\b\nExamples:\n  perfrunner export quickstart --archive quickstart.zip      on one machine"
    "\n  perfrunner import quickstart.zip                           on another"
    "\n  perfrunner compare quickstart-20261120-220000 quickstart"
    "\n\nAn imported run can be reported and compared, but not resumed: its spec is never run here.",
)  # fmt: skip
@click.argument(
    "archive", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@options.out_option
def command(archive: Path, out_dir: Path) -> None:
    """Add the run of FILE, written by `perfrunner export --archive`, with its raw series; print its id.

    The size and SHA-256 of every file are checked. Stored results are never replaced: a run that is
    stored already is refused.
    """
    from perfrunner.results.transfer import import_archive

    with options.open_results(out_dir, create=True) as store:
        moved = import_archive(store, archive)
    note(f"imported {moved.trials} trials and {moved.files} raw files from {archive}")
    result(f"{moved.experiment.id}\n")
