"""`perfrunner show` and `list`: show one experiment with its builds and trials, or list all."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import duration, note, print_json, result_console
from perfrunner.errors import StoreError
from perfrunner.text import count_of

if TYPE_CHECKING:
    from rich.console import Console

    from perfrunner.results import ExperimentData
    from perfrunner.results.files import Verified


@click.command(
    "show",
    epilog="\b\nExamples:\n  perfrunner show                          the latest experiment"
    "\n  perfrunner show quickstart --trials      the latest run of that spec, with its trials"
    "\n  perfrunner show --verify                 check its raw files",
)
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option("--trials", "with_trials", is_flag=True, help="Also list every trial.")
@click.option(
    "--verify",
    is_flag=True,
    help="Also compare the raw files with the stored digests; exit with 3 if one is damaged or missing.",
)
@options.hosts_option
@options.out_option
@options.json_option
def command(
    experiment: str | None,
    with_trials: bool,
    verify: bool,
    with_hosts: bool,
    out_dir: Path,
    as_json: bool,
) -> None:
    """Show the stored data of EXPERIMENT: an id, the start of one, or a spec name (default: the latest)."""
    from perfrunner.cli.report import load
    from perfrunner.report.redact import hidden

    with options.open_results(out_dir) as store:
        data = load(store, experiment, hide=not with_hosts)
        verified = store.verify_raw(data.experiment.id) if verify else None
    if as_json:
        document = dataclasses.asdict(data)
        if not with_hosts and data.directory is not None:  # needed until here for the raw files
            document["directory"] = hidden(data.directory)
        if verified is not None:
            document["verified"] = dataclasses.asdict(verified)
        print_json(document)
        _require_whole(verified)
        return
    console = result_console()
    _print_summary(console, data)
    if with_trials:
        _print_trials(console, data)
    if verified is not None:
        _print_verified(console, verified)
    _require_whole(verified)


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
    facts.add_row("trials", ", ".join(f"{counts[s]} {s}" for s in ("ok", "discarded", "failed")))
    facts.add_row("made by", f"perfrunner {record.tool_version}")
    console.print(facts)
    builds = Table("variant", "build", "cached", box=None)
    for build in data.builds:
        builds.add_row(build.variant, build.build_id, "yes" if build.cached else "no")
    console.print(builds)


def _print_verified(console: Console, verified: Verified) -> None:
    counts = f"{verified.intact} intact, {len(verified.damaged)} damaged, {len(verified.missing)} missing"
    console.print(f"raw files: {counts}", highlight=False)
    if verified.unrecorded:
        trials = count_of(len(verified.unrecorded), "trial")
        console.print(f"digests were not recorded for {trials} (stored by an older perfrunner)")


def _require_whole(verified: Verified | None) -> None:
    """Raise StoreError, which names each raw file that is damaged or missing."""
    if verified is None:
        return
    wrong = [f"{path} is damaged" for path in verified.damaged]
    wrong += [f"{path} is missing" for path in verified.missing]
    if wrong:
        raise StoreError("\n".join(wrong), "figures that were computed before are not affected")


def _print_trials(console: Console, data: ExperimentData) -> None:
    from rich.table import Table

    table = Table(
        "block", "attempt", "workload", "bucket", "variant", "status", "duration", "raw data", box=None
    )  # fmt: skip
    for trial in data.trials:
        status = f"{trial.status}: {trial.reason}" if trial.reason else trial.status
        values = (
            trial.workload, trial.bucket, trial.variant, status, duration(trial.seconds), trial.raw_dir,
        )  # fmt: skip
        table.add_row(str(trial.block), str(trial.attempt), *values)
    console.print(table)


@click.command(
    "list",
    epilog="\b\nExamples:\n  perfrunner list\n  perfrunner list --out nightly-results --json",
)
@options.out_option
@options.json_option
def list_(out_dir: Path, as_json: bool) -> None:
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
