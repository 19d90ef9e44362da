"""`perfrunner list`: list the stored experiments."""

from __future__ import annotations

from pathlib import Path

import click

from perfrunner.cli import options
from perfrunner.cli.output import note, print_json, result_console


@click.command(
    "list",
    short_help="List the stored experiments.",
    epilog="\b\nExamples:\n  perfrunner list\n  perfrunner list --out nightly-results --json",
)
@options.out_option
@options.json_option
def command(out_dir: Path, as_json: bool) -> None:
    """List the stored experiments, oldest first, with their state and number of trials."""
    with options.open_results(out_dir) as store:
        summaries = store.list()
    rows = [
        {
            "experiment": s.experiment.id,
            "name": s.experiment.name,
            "state": s.experiment.state,
            "created_at": s.experiment.created_at.isoformat(timespec="seconds"),
            "seed": s.experiment.seed,
            "trials": {"ok": s.ok, "discarded": s.discarded, "failed": s.failed},
        }
        for s in summaries
    ]
    if as_json:
        print_json({"experiments": rows})
        return
    if not rows:
        note(f"no experiment is stored in {out_dir}")
        return
    from rich.table import Table

    table = Table(
        "experiment", "name", "state", "created (UTC)", "ok", "discarded", "failed", box=None
    )
    for row, summary in zip(rows, summaries, strict=True):
        created = summary.experiment.created_at.strftime("%Y-%m-%d %H:%M")
        counts = (summary.ok, summary.discarded, summary.failed)
        table.add_row(
            str(row["experiment"]), str(row["name"]), str(row["state"]), created, *map(str, counts)
        )
    result_console().print(table)
