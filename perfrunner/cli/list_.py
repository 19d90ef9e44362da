"""`perfrunner list`: the experiments in the results directory."""

from __future__ import annotations

from pathlib import Path

import click

from perfrunner.cli import options
from perfrunner.cli.output import note, print_json, result_console


@click.command(
    "list",
    short_help="The stored experiments.",
    epilog="\b\nExample:\n  perfrunner list --out perfrunner-results",
)
@options.out_option
@options.json_option
def command(out_dir: Path, as_json: bool) -> None:
    """List the stored experiments, oldest first."""

    with options.open_results(out_dir) as store:
        summaries = store.list()
    rows = [
        {
            "experiment": s.experiment.id,
            "name": s.experiment.name,
            "state": s.experiment.state,
            "created_at": s.experiment.created_at.isoformat(timespec="seconds"),
            "seed": s.experiment.seed,
            "trials": {"ok": s.ok, "void": s.void, "failed": s.failed},
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

    table = Table("experiment", "name", "state", "created (UTC)", "ok", "void", "failed", box=None)
    for row, summary in zip(rows, summaries, strict=True):
        created = summary.experiment.created_at.strftime("%Y-%m-%d %H:%M")
        counts = (summary.ok, summary.void, summary.failed)
        table.add_row(
            str(row["experiment"]), str(row["name"]), str(row["state"]), created, *map(str, counts)
        )
    result_console().print(table)
