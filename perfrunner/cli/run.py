"""`perfrunner run`: go from a spec to a report."""

from __future__ import annotations

import importlib
import json
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from perfrunner.children import JOB_VARIABLE
from perfrunner.cli import options
from perfrunner.cli.gate import gate
from perfrunner.cli.output import LostOutput, abandon_stdout, note, result, result_console
from perfrunner.cli.plan import estimate, show_plan
from perfrunner.cli.request import (
    RunOptions,
    find_engine_source,
    gathered,
    measuring_command,
    read_spec,
    report_command,
    resume_command,
)
from perfrunner.errors import (
    EXIT_INTERRUPTED,
    PerfrunnerError,
    SpecError,
    StoreError,
    UsageError,
)
from perfrunner.paths import PAGE, is_file, real_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.experiment.events import RunOutcome
    from perfrunner.report import Report
    from perfrunner.results import ExperimentData
    from perfrunner.spec.model import Spec


# Modules that a run needs when it has built, or when it reports. They are loaded before it starts: a `git pull` in the
# meantime would mix the modules of two versions.
_NEEDED_LATER = (
    "analysis.nights", "analysis.noise", "experiment.preflight.servers", "report.charts", "report.page",
    "report.flame", "report.redact", "servers.prepare",
)  # fmt: skip


def load_now(modules: Iterable[str]) -> None:
    """Load modules of perfrunner, named without it, that are imported when they are needed."""
    for name in modules:
        importlib.import_module(f"perfrunner.{name}")


class SpecFile(NamedTuple):
    """A spec as it is measured, and the text and the path of its file. The engine source is searched near the path."""

    spec: Spec
    text: str
    path: Path


@click.command(
    "run",
    epilog="\b\nExamples:\n  perfrunner run specs/experiments/quickstart.yaml"
    "\n  perfrunner run spec.yaml --repeats 20 --set workloads.pillowfight.duration=30s"
    "\n  perfrunner run spec.yaml --cluster specs/clusters/loopback-ssh.yaml --fail-on worse"
    "\n  perfrunner run spec.yaml --profile historic --repeats 3"
    "\n  perfrunner run spec.yaml --source after=my-branch"
    "\n  perfrunner run spec.yaml --resume           continue an interrupted run"
    "\n  perfrunner run --resume quickstart-20261120-220000"
    "\n  perfrunner run spec.yaml --extend 10        add 10 blocks to the latest run",
)
@click.argument("spec_path", metavar="[SPEC]", required=False, type=click.Path(path_type=Path))
@options.set_option
@options.profile_option
@options.source_option
@options.repeats_option
@options.cluster_option
@options.resume_option
@click.option(
    "--extend",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Add up to N blocks to the latest run of SPEC, or to --resume RUN. Fewer are run if the spec's"
    " `precision` is reached earlier.",
)
@options.tune_option
@options.dry_run_option
@options.seed_option
@options.workloads_option
@options.variants_option
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@options.fail_on_option
@options.quiet_option
@click.pass_context
@gathered(RunOptions, "given")
def command(
    ctx: click.Context,
    spec_path: Path | None,
    resume: str | None,
    extend: int | None,
    given: RunOptions,
) -> None:
    """Build and check every variant of SPEC, run the trials interleaved, and report the differences."""
    spec_path, resume = spec_or_run(spec_path, resume)
    if spec_path is None:
        if resume is None and extend is None:
            raise UsageError("no spec was given", "perfrunner run SPEC, or --resume [RUN]")
        if given.changes_spec:
            raise UsageError(
                "--set, --profile, --cluster, --repeats and --source cannot be used with --resume:"
                " a resumed run keeps its original settings",
                "leave them out, or start a new run of SPEC",
            )
        spec, text, spec_path, resume = recorded_spec(
            given.out_dir, resume, finished=extend is not None
        )
    else:
        settled = resume is not None or extend is not None
        spec, text = read_spec(spec_path, given, settled=settled), spec_text(spec_path)
    spec = given.selected(spec)
    if given.dry_run:
        show_plan(spec, given, estimate(spec, spec_path, given))
        return
    outcome, document = run_and_report(
        ctx, given, SpecFile(spec, text, spec_path), resume=resume, extend=extend or 0
    )
    end(ctx, outcome, document, given.fail_on)


def end(
    ctx: click.Context, outcome: RunOutcome, document: dict[str, Any], fail_on: str | None
) -> None:
    """Exit with the code of the run or, if it succeeded, of `--fail-on`."""
    if outcome.exit_code:
        ctx.exit(outcome.exit_code)
    gate(ctx, document, fail_on)


def run_and_report(
    ctx: click.Context,
    given: RunOptions,
    file: SpecFile,
    *,
    resume: str | None,
    extend: int = 0,
    command: Sequence[str] = (),
) -> tuple[RunOutcome, dict[str, Any]]:
    """Run a spec, print its report, and return the outcome and the report's JSON.

    `resume` is the id of a run, or empty for the newest unfinished one. `command` is the command line that repeats
    the measurement (default: this one). Exits with 130 after Ctrl-C.
    """
    if given.fail_on == "lost" and not file.spec.expected_gains:
        raise UsageError(
            "--fail-on lost: the spec has no expected_gains, so there is nothing to judge",
            "name the gains in the spec, or use --fail-on worse",
        )
    source = find_engine_source(given.engine_src, file.path)
    from perfrunner.cli.progress import progress_listener
    from perfrunner.experiment.run import RunRequest, run_experiment

    request = RunRequest(
        spec=file.spec,
        spec_text=file.text,
        spec_path=real_path(file.path),
        out_dir=given.out_dir,
        store_url=options.store_url(),
        cache_dir=given.cache_dir,
        engine_src=source,
        seed=given.seed,
        resume=resume,
        extend=extend,
        tune=given.tune,
        command=command or measuring_command(ctx, file.path),
        resume_command=resume_command(ctx),
        job=os.environ.get(JOB_VARIABLE),
    )
    load_now(_NEEDED_LATER)
    with progress_listener(given.quiet) as listener:
        outcome = run_experiment(request, listener)
    if outcome.exit_code == EXIT_INTERRUPTED:
        ctx.exit(EXIT_INTERRUPTED)
    for line in outcome.failures:
        note(f"failed: {line}")
    again = report_command(ctx, outcome.experiment_id)
    return outcome, _report(given, outcome, again)


def _report(given: RunOptions, outcome: RunOutcome, again: str) -> dict[str, Any]:
    """Print the report, write the HTML page next to the trials, and return the JSON document.

    A failure of one form does not prevent the others. Raises StoreError, with the command that
    reports the run again, if one of them fails: everything measured is stored by then.
    """
    from perfrunner.report import render, write_html

    remedy = f"the measurements are stored; report them with: {again}"
    try:
        report, shared, machine = _read_report(given.out_dir, outcome)
    except Exception as error:
        raise _unreported(error, remedy) from error
    failed: Exception | None = None
    try:
        note(f"report {write_html(report, shared, outcome.directory / PAGE)}")
    except Exception as error:  # noqa: BLE001 - the terminal report does not need the page
        failed = error
    try:
        console = result_console()
        text = machine if given.as_json else render(report, "terminal", console=console)
    except Exception as error:
        raise _unreported(error, remedy) from error
    try:
        result(text)
    except LostOutput as error:
        abandon_stdout()
        text = f"cannot write the report to stdout: {error.strerror}"
        raise StoreError(text, remedy) from error
    if failed is not None:
        raise _unreported(failed, remedy) from failed
    document: dict[str, Any] = json.loads(machine)
    return document


def _unreported(error: Exception, remedy: str) -> PerfrunnerError:
    """Convert an error of the report into the one to raise; print the traceback of a defect."""
    from perfrunner.results.database_errors import ServerAwayError

    if isinstance(error, ServerAwayError):
        return ServerAwayError(error.message, remedy)
    if isinstance(error, PerfrunnerError):
        return StoreError(f"the report failed: {error.message}", remedy)
    note("".join(traceback.format_exception(error)).rstrip())
    return StoreError(f"the report failed: {type(error).__name__}: {error}", remedy)


def _read_report(out_dir: Path, outcome: RunOutcome) -> tuple[Report, ExperimentData, str]:
    """Return the report of what is stored, the redacted data, and the JSON text."""
    from perfrunner.analysis.nights import keep_night
    from perfrunner.report import build_report, render
    from perfrunner.report.redact import redacted
    from perfrunner.results.database import waiting

    def load() -> ExperimentData:
        with options.open_results(out_dir) as store:
            data = store.load(outcome.experiment_id)
            keep_night(data, store.derived_directory)
            return data

    shared = redacted(waiting(load))
    report = build_report(shared)
    return report, shared, render(report, "json")


def spec_or_run(spec_path: Path | None, resume: str | None) -> tuple[Path | None, str | None]:
    """Read `--resume FILE` without a SPEC argument as `FILE --resume`."""
    if spec_path is None and resume and is_file(resume):
        return Path(resume), ""
    return spec_path, resume


def recorded_spec(out_dir: Path, run: str | None, *, finished: bool) -> tuple[Spec, str, Path, str]:
    """Return spec, text, path and id of a stored run.

    Without `run` it is the newest unfinished run, or the newest of all if `finished`.
    """
    from perfrunner.experiment.session import check_measured_here
    from perfrunner.spec.model import Spec

    with options.open_results(out_dir) as store:
        if run:
            record = store.resolve(run)
            check_measured_here(record)
        else:
            candidates = [e for e in store.own() if finished or e.state != "done"]
            if not candidates:
                raise UsageError(
                    f"nothing to resume: every experiment in {out_dir} is finished",
                    "--resume RUN repeats the failed cases of a run, --extend N adds blocks",
                )
            record = candidates[-1]
    note(f"resuming {record.id}")
    spec = Spec.model_validate(record.spec_json)
    return spec, record.spec_text, Path(record.spec_path), record.id


def spec_text(spec_path: Path) -> str:
    """Read the text of a spec file. Raises SpecError."""
    try:
        return spec_path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{spec_path}: cannot be read: {error.strerror}") from error
