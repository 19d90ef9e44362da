"""`perfrunner run`: the whole flow, from a spec to a report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli import options
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.cli.estimate import estimate
from perfrunner.cli.gate import gate
from perfrunner.cli.invocation import measuring_command, resume_command
from perfrunner.cli.output import note, result, result_console
from perfrunner.cli.plan import show_plan
from perfrunner.cli.report import PAGE
from perfrunner.errors import EXIT_INTERRUPTED, SpecError, UsageError
from perfrunner.run.command import JOB_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.results import ExperimentData
    from perfrunner.run.events import RunOutcome
    from perfrunner.spec import Spec


@click.command(
    "run",
    short_help="Build, prove, measure and report a spec.",
    epilog="\b\nExamples:\n  perfrunner run specs/experiments/quickstart.yaml"
    "\n  perfrunner run spec.yaml --repeats 20 --set workloads.pillowfight.duration=30s"
    "\n  perfrunner run spec.yaml --cluster specs/clusters/loopback-ssh.yaml --fail-on worse"
    "\n  perfrunner run spec.yaml --profile historic --repeats 3"
    "\n  perfrunner run spec.yaml --source after=my-branch"
    "\n  perfrunner run spec.yaml --resume           go on after an interruption"
    "\n  perfrunner run --resume quickstart-20261120-220000"
    "\n  perfrunner run spec.yaml --extend 10        10 blocks more for the latest run of it",
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
    help="Add N blocks to the latest run of SPEC, or to --resume RUN; a spec's precision may end it sooner.",
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
def command(
    ctx: click.Context,
    spec_path: Path | None,
    overrides: tuple[str, ...],
    profile: str | None,
    named_sources: tuple[str, ...],
    repeats: int | None,
    cluster: Path | None,
    resume: str | None,
    extend: int | None,
    quieten: bool,
    dry_run: bool,
    seed: int | None,
    workloads: tuple[str, ...],
    variants: tuple[str, ...],
    out_dir: Path,
    cache_dir: Path,
    engine_src: Path | None,
    as_json: bool,
    fail_on: str | None,
    quiet: bool,
) -> None:
    """Build every variant of SPEC, prove it, run the trials interleaved, and report."""
    spec_path, resume = spec_or_run(spec_path, resume)
    if spec_path is None:
        if resume is None and extend is None:
            raise UsageError("which spec?", "perfrunner run SPEC, or --resume [RUN]")
        if overrides or profile or cluster or repeats or named_sources:
            raise UsageError(
                "a run goes on as it was begun: --set, --profile, --cluster, --repeats and --source"
                " do not fit"
            )
        spec, text, spec_path, resume = recorded_spec(out_dir, resume, finished=extend is not None)
    else:
        spec = options.read_spec(
            spec_path, overrides, cluster, repeats, named_sources, profile, engine_src,
            settled=resume is not None or extend is not None,
        )  # fmt: skip
        text = spec_text(spec_path)
    only_workloads = options.selection("workload", workloads, tuple(spec.workloads))
    only_variants = options.selection("variant", variants, tuple(spec.variants))
    if dry_run:
        chosen = spec.restricted(only_workloads, only_variants)
        expected = estimate(chosen, spec_path, out_dir, engine_src, cache_dir)
        show_plan(chosen, seed, expected, as_json)
        return
    outcome, document = run_and_report(
        ctx,
        spec,
        text,
        spec_path,
        out_dir=out_dir,
        cache_dir=cache_dir,
        resume=resume,
        seed=seed,
        workloads=only_workloads,
        variants=only_variants,
        engine_src=engine_src,
        as_json=as_json,
        quiet=quiet,
        extend=extend or 0,
        quieten=quieten,
    )
    end(ctx, outcome, document, fail_on)


def end(
    ctx: click.Context, outcome: RunOutcome, document: dict[str, Any], fail_on: str | None
) -> None:
    """Leave with the exit code of the run, or of the gate."""
    if outcome.exit_code:
        ctx.exit(outcome.exit_code)
    gate(ctx, document, fail_on)


def run_and_report(
    ctx: click.Context,
    spec: Spec,
    text: str,
    spec_path: Path,
    *,
    out_dir: Path,
    cache_dir: Path,
    engine_src: Path | None,
    resume: str | None,
    seed: int | None,
    as_json: bool,
    quiet: bool,
    extend: int = 0,
    quieten: bool = False,
    workloads: tuple[str, ...] | None = None,
    variants: tuple[str, ...] | None = None,
    command: Sequence[str] = (),
) -> tuple[RunOutcome, dict[str, Any]]:
    """Run `spec`, print its report, and give how it ended and the report's JSON.

    `text` is kept with the results; near `spec_path` the engine's source is looked for. `command` measures the same
    again (if it is not this command line). Ends the process after Ctrl-C.
    """
    source = find_engine_source(engine_src, spec_path)
    from perfrunner.cli.progress import progress_listener
    from perfrunner.run.runner import run_experiment

    with progress_listener(quiet) as listener:
        outcome = run_experiment(
            spec,
            spec_text=text,
            spec_path=spec_path.resolve(),
            out_dir=out_dir,
            store_url=options.store_url(),
            cache_dir=cache_dir,
            resume=resume is not None,
            run=resume or None,
            extend=extend,
            quieten=quieten,
            seed=seed,
            workloads=workloads,
            variants=variants,
            engine_src=source,
            listener=listener,
            resume_command=resume_command(ctx),
            command=command or measuring_command(ctx, spec_path),
            job=os.environ.get(JOB_VARIABLE),
        )
    if outcome.exit_code == EXIT_INTERRUPTED:
        ctx.exit(EXIT_INTERRUPTED)
    document = _report(out_dir, outcome, as_json)
    for line in outcome.failures:
        note(f"failed: {line}")
    return outcome, document


def _report(out_dir: Path, outcome: RunOutcome, as_json: bool) -> dict[str, Any]:
    """Print the report, leave the HTML page beside the trials, and give the JSON document."""
    from perfrunner.analysis.nights import keep_night
    from perfrunner.report import build_report, render, write_html
    from perfrunner.report.redact import redacted
    from perfrunner.results.patience import waiting

    def load() -> ExperimentData:
        with options.open_results(out_dir) as store:
            data = store.load(outcome.experiment_id)
            keep_night(data, store.beside)
            return data

    data = waiting(load)
    shared = redacted(data)
    report = build_report(shared)
    machine = render(report, "json")
    note(f"report {write_html(report, shared, outcome.directory / PAGE)}")
    if as_json:
        result(machine)
    else:
        result(render(report, "terminal", console=result_console()))
    document: dict[str, Any] = json.loads(machine)
    return document


def spec_or_run(spec_path: Path | None, resume: str | None) -> tuple[Path | None, str | None]:
    """`--resume SPEC` without a SPEC behind it is read as it was meant: the newest unfinished run of that file."""
    if spec_path is None and resume and Path(resume).is_file():
        return Path(resume), ""
    return spec_path, resume


def recorded_spec(out_dir: Path, run: str | None, *, finished: bool) -> tuple[Spec, str, Path, str]:
    """Of `run`, or of the newest unfinished one (`finished`: of the newest): spec, text, path, id."""
    from perfrunner.spec import Spec

    with options.open_results(out_dir) as store:
        if run:
            record = store.resolve(run)
        else:
            fitting = [e for e in store.own() if finished or e.state != "done"]
            if not fitting:
                raise UsageError(
                    f"nothing to resume: every experiment in {out_dir} is finished",
                    "--resume RUN finishes failed cells of one, --extend N adds blocks",
                )
            record = fitting[-1]
    note(f"going on with {record.id}")
    spec = Spec.model_validate(record.spec_json)
    return spec, record.spec_text, Path(record.spec_path), record.id


def spec_text(spec_path: Path) -> str:
    """The spec file as it is."""
    try:
        return spec_path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{spec_path}: {error.strerror}") from error
