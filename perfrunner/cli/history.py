"""`perfrunner history`: show metrics over all runs of a spec, and where their level changed."""

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
def command(  # noqa: PLR0913
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
    if fail_on and any(alarm.turn == "worse" for alarm in news):
        ctx.exit(EXIT_VERDICT)
