"""`perfrunner show`, `list`, `history`: show one experiment, list all, or follow a metric over the runs of a spec."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import duration, note, print_json, print_table, result_console
from perfrunner.errors import EXIT_VERDICT, StoreError, UsageError
from perfrunner.spec.metrics import METRICS, is_metric
from perfrunner.spec.suggest import expected_name
from perfrunner.text import count_of

if TYPE_CHECKING:
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
    _print_summary(data)
    if with_trials:
        _print_trials(data)
    if verified is not None:
        _print_verified(verified)
    _require_whole(verified)


def _print_summary(data: ExperimentData) -> None:
    from rich.markup import escape
    from rich.table import Table

    record = data.experiment
    counts = Counter(trial.status for trial in data.trials)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("experiment", record.id)
    facts.add_row("state", escape(": ".join(filter(None, (record.state, record.why_failed)))))
    facts.add_row("spec", escape(record.spec_path))
    facts.add_row("created", record.created_at.isoformat(timespec="seconds"))
    facts.add_row("seed", str(record.seed))
    facts.add_row("trials", ", ".join(f"{counts[s]} {s}" for s in ("ok", "discarded", "failed")))
    facts.add_row("made by", f"perfrunner {record.tool_version}")
    result_console().print(facts)
    print_table(
        ("variant", "build", "cached"),
        ((b.variant, b.build_id, "yes" if b.cached else "no") for b in data.builds),
    )


def _print_verified(verified: Verified) -> None:
    console = result_console()
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


def _print_trials(data: ExperimentData) -> None:
    print_table(
        ("block", "attempt", "workload", "bucket", "variant", "status", "duration", "raw data"),
        (
            (
                str(trial.block), str(trial.attempt), trial.workload, trial.bucket, trial.variant,
                ": ".join(filter(None, (trial.status, trial.reason))), duration(trial.seconds), trial.raw_dir,
            )
            for trial in data.trials
        ),
    )  # fmt: skip


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
    print_table(
        ("experiment", "state", "created (UTC)", "ok", "discarded", "failed"),
        (
            (
                s.experiment.id, s.experiment.state, s.experiment.created_at.strftime("%Y-%m-%d %H:%M"),
                str(s.ok), str(s.discarded), str(s.failed),
            )
            for s in summaries
        ),
    )  # fmt: skip


@click.command(
    "history",
    epilog="\b\nExamples:\n  perfrunner history                    what nightly follows, of the latest run's spec"
    "\n  perfrunner history ops_per_s --spec quickstart --since 2026-10-01"
    "\n  perfrunner history rss_bytes --json"
    "\n\nWith --fail-on worse, the command exits with 1 once for each change. Confirm a change with an interleaved"
    "\nrun of the two builds: perfrunner run SPEC --repeats 20.",
)
@click.argument("metric", required=False, shell_complete=complete.metrics)
@click.option(
    "--spec",
    "spec_name",
    metavar="NAME",
    shell_complete=complete.experiments,
    help="Name of the spec (default: that of the latest run).",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Use only runs from this day (UTC) on (default: all).",
)
@click.option(
    "--fail-on",
    type=click.Choice(["worse"]),
    help="Exit with 1 if the newest run is the first to show a change to worse.",
)
@options.hosts_option
@options.out_option
@options.json_option
@click.pass_context
def history(  # noqa: PLR0913
    ctx: click.Context,
    metric: str | None,
    spec_name: str | None,
    since: datetime | None,
    fail_on: str | None,
    with_hosts: bool,
    out_dir: Path,
    as_json: bool,
) -> None:
    """Show METRIC over the stored runs of a spec, with changes of level.

    The default is every primary metric, and the total CPU next to `ops_per_s`. Each variant is compared with its
    baseline, and the baseline is followed as well.
    """
    from perfrunner.analysis.history import histories
    from perfrunner.analysis.nights import followed_metrics, nights
    from perfrunner.analysis.noise import is_aa
    from perfrunner.report.history import alarm_text, history_document, history_text
    from perfrunner.report.redact import redacted_nights

    if metric is not None and not is_metric(metric):
        raise UsageError(f"METRIC: {expected_name('a metric', metric, METRICS)}")
    earliest = None if since is None else since.replace(tzinfo=timezone.utc)
    with options.open_results(out_dir) as store:
        known = [s for s in store.list() if not is_aa(s.experiment.spec_json)]
        latest = known[-1].experiment if spec_name is None and known else store.resolve(spec_name)
        chosen = (metric,) if metric is not None else followed_metrics(latest)
        runs = nights(
            [
                s
                for s in known
                if s.experiment.name == latest.name
                and (earliest is None or s.experiment.created_at >= earliest)
            ],
            store.load,
            chosen,
            store.derived_directory,
        )
    runs = runs if with_hosts else redacted_nights(runs)
    shown = histories(runs, chosen)
    if as_json:
        print_json(history_document(shown))
    else:
        click.echo(history_text(shown), nl=False)
    for line in dict.fromkeys(line for of_metric in shown for line in of_metric.why):
        note(f"left out, because it was measured differently than the latest run: {line}")
    news = [alarm for of_metric in shown for alarm in of_metric.news]
    for alarm in news:
        note(alarm_text(alarm, shown))
    if fail_on and any(alarm.verdict == "worse" for alarm in news):
        ctx.exit(EXIT_VERDICT)
