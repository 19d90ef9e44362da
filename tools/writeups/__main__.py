"""`python -m tools.writeups PAGE [EXPERIMENT]`: publish an experiment as a write-up (see `scripts/publish`)."""

from __future__ import annotations

from pathlib import Path

import click

from perfrunner.cli import options
from perfrunner.cli.group import Failed
from perfrunner.cli.output import note
from perfrunner.cli.report import load
from perfrunner.errors import PerfrunnerError
from tools.writeups.publish import publish


@click.command(
    "writeups",
    epilog="\b\nExamples:\n  python -m tools.writeups docs/experiments/cursors-to-drop.md cursors-to-drop"
    "\n  python -m tools.writeups docs/experiments/cursors-to-drop.md     from the stored numbers",
)
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("experiment", required=False)
@options.out_option
@click.option(
    "--add",
    is_flag=True,
    help="Keep the page's experiments of other cases (default: replace them).",
)
def main(page: Path, experiment: str | None, out_dir: Path, add: bool) -> None:
    """Store EXPERIMENT's numbers next to PAGE, and update its tables, charts and index.

    EXPERIMENT is an id, the start of one, or a spec name. Without it, the numbers stored before are used.
    """
    try:
        data = None
        if experiment is not None:
            with options.open_results(out_dir) as store:
                data = load(store, experiment, hide=True)
        for path in publish(page, data, add=add):
            note(f"wrote {path}")
    except PerfrunnerError as error:
        raise Failed(error) from error


if __name__ == "__main__":
    main()
