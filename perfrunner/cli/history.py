"""`perfrunner history`: one metric over all runs of a spec, and where its level changed."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import click

from perfrunner.cli import options
from perfrunner.cli.output import note, print_json
from perfrunner.errors import EXIT_VERDICT, UsageError
from perfrunner.spec.metrics import METRICS, is_metric
from perfrunner.spec.suggest import expected_name

RECENT_RUNS = 5  # how long `--fail-on worse` speaks of a change


@click.command(
    "history",
    short_help="A metric over all runs of a spec, with change points.",
    epilog="\b\nExamples:\n  perfrunner history                    the first primary metric of the latest run's spec"
    "\n  perfrunner history ops_per_s --spec quickstart --since 2026-10-01"
    "\n  perfrunner history rss_bytes --json"
    f"\n\nWith --fail-on worse it ends with 1 when a level turned worse in the last {RECENT_RUNS} runs. Before you"
    "\nbelieve it, run the two builds side by side: perfrunner run SPEC --repeats 20.",
)
@click.argument("metric", required=False)
@click.option(
    "--spec", "spec_name", metavar="NAME", help="The spec's name; default: the latest run's."
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Only runs from this day on (UTC).",
)
@click.option(
    "--fail-on", type=click.Choice(["worse"]), help="End with 1 when it lately got worse."
)
@options.out_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    metric: str | None,
    spec_name: str | None,
    since: datetime | None,
    fail_on: str | None,
    out_dir: Path,
    as_json: bool,
) -> None:
    """Follow METRIC over the stored runs of a spec: each variant against its baseline, and the baseline itself."""
    from perfrunner.analysis.history import history
    from perfrunner.analysis.noise import is_aa
    from perfrunner.report.history import history_document, history_text
    from perfrunner.results import ResultStore

    if metric is not None and not is_metric(metric):
        raise UsageError(expected_name("a metric", metric, METRICS))
    earliest = None if since is None else since.replace(tzinfo=timezone.utc)
    with ResultStore.open(out_dir, create=False) as store:
        known = [s.experiment for s in store.list() if not is_aa(s.experiment.spec_json)]
        latest = known[-1] if spec_name is None and known else store.resolve(spec_name)
        wanted = [
            e.id
            for e in known
            if e.name == latest.name and (earliest is None or e.created_at >= earliest)
        ]
        experiments = [store.load(identifier) for identifier in wanted]
    chosen = metric or str((latest.spec_json.get("primary") or ["ops_per_s"])[0])
    found = history(experiments, chosen)
    if as_json:
        print_json(history_document(found))
    else:
        click.echo(history_text(found), nl=False)
    for line in found.why:
        note(f"left out, for it was not measured as the latest run was: {line}")
    bad = [s for s in found.series if s.turn() == "worse" and s.levels[-1].runs <= RECENT_RUNS]
    for series in bad:
        note(f"worse: {series.metric.id} of {series.variant} on {series.cell}")
    if bad and fail_on:
        ctx.exit(EXIT_VERDICT)
