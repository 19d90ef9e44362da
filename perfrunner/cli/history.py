"""`perfrunner history`: the primary metrics (or one metric) over all runs of a spec, and where a level changed."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import note, print_json
from perfrunner.errors import EXIT_VERDICT, UsageError
from perfrunner.spec.metrics import METRICS, is_metric
from perfrunner.spec.suggest import expected_name


@click.command(
    "history",
    short_help="The primary metrics over all runs of a spec, with changes of level.",
    epilog="\b\nExamples:\n  perfrunner history                    every primary metric of the latest run's spec"
    "\n  perfrunner history ops_per_s --spec quickstart --since 2026-10-01"
    "\n  perfrunner history rss_bytes --json"
    "\n\nWith --fail-on worse it ends with 1 when a level is known since the newest run to have turned worse: once for"
    "\neach change. Before you believe it, run the two builds side by side: perfrunner run SPEC --repeats 20.",
)
@click.argument("metric", required=False, shell_complete=complete.metrics)
@click.option(
    "--spec",
    "spec_name",
    metavar="NAME",
    shell_complete=complete.experiments,
    help="The spec's name; default: the latest run's.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Only runs from this day on (UTC).",
)
@click.option(
    "--fail-on",
    type=click.Choice(["worse"]),
    help="End with 1 when the newest run made a level known to be worse.",
)
@options.hosts_option
@options.out_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    metric: str | None,
    spec_name: str | None,
    since: datetime | None,
    fail_on: str | None,
    with_hosts: bool,
    out_dir: Path,
    as_json: bool,
) -> None:
    """Follow METRIC, or every primary metric, over the stored runs of a spec: each variant against its baseline, and
    the baseline itself."""
    from perfrunner.analysis.history import history
    from perfrunner.analysis.nights import nights, primary_metrics
    from perfrunner.analysis.noise import is_aa
    from perfrunner.report.history import history_document, history_text
    from perfrunner.report.redact import redacted_nights

    if metric is not None and not is_metric(metric):
        raise UsageError(expected_name("a metric", metric, METRICS))
    earliest = None if since is None else since.replace(tzinfo=timezone.utc)
    with options.open_results(out_dir) as store:
        known = [s for s in store.list() if not is_aa(s.experiment.spec_json)]
        latest = known[-1].experiment if spec_name is None and known else store.resolve(spec_name)
        chosen = (metric,) if metric is not None else primary_metrics(latest)
        runs = nights(
            [
                s
                for s in known
                if s.experiment.name == latest.name
                and (earliest is None or s.experiment.created_at >= earliest)
            ],
            store.load,
            chosen,
            store.beside,
        )
    runs = runs if with_hosts else redacted_nights(runs)
    found = [history(runs, name, metrics=len(chosen)) for name in chosen]
    if as_json:
        print_json(history_document(found))
    else:
        click.echo(history_text(found), nl=False)
    for line in dict.fromkeys(line for one in found for line in one.why):
        note(f"left out, for it was not measured as the latest run was: {line}")
    news = [alarm for one in found for alarm in one.news]
    for alarm in news:
        note(str(alarm))
    if fail_on and any(alarm.turn == "worse" for alarm in news):
        ctx.exit(EXIT_VERDICT)
