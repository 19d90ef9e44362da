"""`perfrunner show`: one experiment, its builds and its trials."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import duration, print_json, result_console

if TYPE_CHECKING:
    from rich.console import Console

    from perfrunner.results import ExperimentData


@click.command(
    "show",
    short_help="One experiment: its builds and trials.",
    epilog="\b\nExamples:\n  perfrunner show                 the latest experiment"
    "\n  perfrunner show quickstart      the latest of that name",
)
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option("--trials", "with_trials", is_flag=True, help="Also every trial.")
@options.hosts_option
@options.out_option
@options.json_option
def command(
    experiment: str | None, with_trials: bool, with_hosts: bool, out_dir: Path, as_json: bool
) -> None:
    """Show what is stored of an EXPERIMENT (an id, the start of one, or a spec's name; default: the latest)."""
    from perfrunner.cli.report import load
    from perfrunner.report.redact import hidden

    with options.open_results(out_dir) as store:
        data = load(store, experiment, hide=not with_hosts)
    if as_json:
        document = dataclasses.asdict(data)
        if not with_hosts and data.directory is not None:  # kept until here, for the raw files
            document["directory"] = hidden(data.directory)
        print_json(document)
        return
    console = result_console()
    _print_summary(console, data)
    if with_trials:
        _print_trials(console, data)


def _print_summary(console: Console, data: ExperimentData) -> None:
    from rich.table import Table

    record = data.experiment
    counts = Counter(trial.status for trial in data.trials)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("experiment", record.id)
    facts.add_row("state", record.state)
    facts.add_row("spec", record.spec_path)
    facts.add_row("created", record.created_at.isoformat(timespec="seconds"))
    facts.add_row("seed", str(record.seed))
    facts.add_row("trials", ", ".join(f"{counts[s]} {s}" for s in ("ok", "void", "failed")))
    facts.add_row("made by", f"perfrunner {record.tool_version}")
    console.print(facts)
    builds = Table("variant", "build", "cached", box=None)
    for build in data.builds:
        builds.add_row(build.variant, build.build_id, "yes" if build.cached else "no")
    console.print(builds)


def _print_trials(console: Console, data: ExperimentData) -> None:
    from rich.table import Table

    table = Table(
        "block", "attempt", "workload", "bucket", "variant", "status", "took", "raw data", box=None
    )
    for trial in data.trials:
        status = f"{trial.status}: {trial.reason}" if trial.reason else trial.status
        took = duration(trial.seconds)
        names = (trial.workload, trial.bucket, trial.variant, status, took, trial.raw_dir)
        table.add_row(str(trial.block), str(trial.attempt), *names)
    console.print(table)
