"""`perfrunner export` and `import`: write measured values, or move a whole run as an archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import note, result
from perfrunner.errors import UsageError
from perfrunner.text import count_of

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData

NAMES = ("trials", "rounds", "series")


@click.command(
    "export",
    epilog="\b\nExamples:\n  perfrunner export > trials.csv                        trials of the latest experiment"
    "\n  perfrunner export quickstart --table rounds           one row for each slice of load"
    "\n  perfrunner export --format parquet --to tables/       trials, rounds and series as files"
    "\n  perfrunner export --format openmetrics --all-runs > runs.om  time series for Prometheus"
    "\n  perfrunner export quickstart --archive quickstart.zip  a whole run, for perfrunner import"
    "\n\nThe columns are described in docs/how-to/export.md.",
)  # fmt: skip
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option(
    "--table",
    "tables",
    type=click.Choice(NAMES),
    multiple=True,
    help="Table to export; repeatable (default: trials, or all tables with --to).",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["csv", "parquet", "openmetrics"]),
    default="csv",
    show_default=True,
    help="Format; parquet needs --to. openmetrics prints trials and changes as time series for Prometheus.",
)
@click.option(
    "--all-runs",
    is_flag=True,
    help="With --format openmetrics, export all runs of the spec of EXPERIMENT, not only one.",
)
@click.option(
    "--to",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write TABLE.csv or TABLE.parquet to DIR instead of stdout.",
)
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the whole run to FILE (a ZIP file) for `perfrunner import`, with its raw files. It is not"
    " redacted.",
)
@options.hosts_option
@options.out_option
def command(  # noqa: PLR0913
    experiment: str | None,
    tables: tuple[str, ...],
    fmt: str,
    all_runs: bool,
    directory: Path | None,
    archive: Path | None,
    with_hosts: bool,
    out_dir: Path,
) -> None:
    """Export the measured values of EXPERIMENT: an id, the start of one, or a spec name (default: the latest)."""
    from perfrunner.cli.report import load
    from perfrunner.export import TABLES, csv_text, raw_of, rows, write_tables

    if all_runs and fmt != "openmetrics":
        raise UsageError("--all-runs needs --format openmetrics")
    if fmt == "openmetrics" and archive is None:
        if tables or directory is not None:
            raise UsageError("--format openmetrics goes to stdout: omit --table and --to")
        _print_openmetrics(experiment, out_dir, hide=not with_hosts, all_runs=all_runs)
        return
    if archive is not None:
        if tables or directory is not None or fmt != "csv":
            raise UsageError("--archive writes a whole run: omit --table, --format and --to")
        _write_archive(experiment, archive, out_dir)
        return
    if directory is None and (fmt != "csv" or len(tables) > 1):
        raise UsageError(
            "stdout takes a single table as CSV", "write files to a directory: --to DIR"
        )
    with options.open_results(out_dir) as store:
        data = load(store, experiment, hide=not with_hosts)
    if directory is not None:
        written, problems = write_tables(data, tables or NAMES, fmt, directory)
        for path in written:
            note(f"export {path}")
    else:
        (name,) = tables or ("trials",)
        raw = None if name == "trials" else raw_of(data)
        click.echo(csv_text(TABLES[name], rows(data, name, raw)), nl=False)
        problems = list(raw.notes) if raw is not None else []
    for problem in problems:
        note(f"warning: {problem}")


def _print_openmetrics(
    experiment: str | None, out_dir: Path, *, hide: bool, all_runs: bool
) -> None:
    from perfrunner.cli.report import load
    from perfrunner.export import openmetrics_text

    with options.open_results(out_dir) as store:
        chosen = store.resolve(experiment)
        runs = [summary.experiment for summary in store.list()] if all_runs else [chosen]
        data = (load(store, run.id, hide=hide) for run in runs if run.name == chosen.name)
        result(openmetrics_text(data))


def _write_archive(experiment: str | None, archive: Path, out_dir: Path) -> None:
    from perfrunner.results.transfer import write_archive

    with options.open_results(out_dir) as store:
        moved = write_archive(store, store.resolve(experiment).id, archive)
    for problem in moved.problems:
        note(f"warning: left out: {problem}")
    note(
        f"archive {archive}: {moved.experiment.id}, {count_of(moved.trials, 'trial')},"
        f" {count_of(moved.files, 'raw file')}"
    )
    note(
        "the archive is not redacted: it names hosts, users and paths, and has the logs of the servers"
    )


def _read(data: ExperimentData) -> None:
    """Report a run and its history in every form, for nobody; raises what a wrong record raises."""
    from perfrunner.analysis.history import histories
    from perfrunner.analysis.nights import followed_metrics, night_of
    from perfrunner.report import build_report, render
    from perfrunner.report.history import history_text
    from perfrunner.report.page import html_text
    from perfrunner.report.redact import redacted, redacted_nights
    from perfrunner.results.raw import RawSeries

    shared = redacted(data)
    metrics = followed_metrics(shared.experiment)
    nights = redacted_nights([night_of(data, metrics)])
    history_text(histories(nights, metrics))
    report = build_report(shared)
    for fmt in ("json", "terminal", "markdown"):
        render(report, fmt)
    html_text(report, shared, RawSeries(), (), None)


@click.command(
    "import",
    epilog="\b\nExamples:\n  perfrunner export quickstart --archive quickstart.zip      on one machine"
    "\n  perfrunner import quickstart.zip                           on another"
    "\n  perfrunner compare quickstart-20261120-220000 quickstart"
    "\n\nAn imported run can be reported and compared, but not resumed: its spec is never run here.",
)  # fmt: skip
@click.argument(
    "archive", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@options.out_option
def import_(archive: Path, out_dir: Path) -> None:
    """Add the run of FILE, written by `perfrunner export --archive`, with its raw series; print its id.

    The size and SHA-256 of every file are checked. Stored results are never replaced: a run that is
    stored already is refused.
    """
    from perfrunner.results.transfer import import_archive

    with options.open_results(out_dir, create=True) as store:
        moved = import_archive(store, archive, _read)
    trials, files = count_of(moved.trials, "trial"), count_of(moved.files, "raw file")
    note(f"imported {trials} and {files} from {archive}")
    result(f"{moved.experiment.id}\n")
