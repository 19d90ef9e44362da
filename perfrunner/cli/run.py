"""`perfrunner run`: the whole flow, from a spec to a report."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli import options
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.cli.gate import FAIL_ON, failing
from perfrunner.cli.output import note, result_console
from perfrunner.cli.plan import show_plan
from perfrunner.cli.progress import progress_listener
from perfrunner.cli.report import PAGE
from perfrunner.errors import EXIT_INTERRUPTED, EXIT_VERDICT, SpecError

if TYPE_CHECKING:
    from perfrunner.run.events import RunOutcome
    from perfrunner.spec import Spec


@click.command(
    "run",
    short_help="Build, prove, measure and report a spec.",
    epilog="\b\nExamples:\n  perfrunner run specs/experiments/quickstart.yaml"
    "\n  perfrunner run spec.yaml --repeats 20 --set workloads.pillowfight.duration=30s"
    "\n  perfrunner run spec.yaml --cluster specs/clusters/loopback-ssh.yaml --fail-on worse"
    "\n  perfrunner run spec.yaml --source after=my-branch"
    "\n  perfrunner run spec.yaml --resume           go on after an interruption",
)
@options.spec_argument
@options.set_option
@options.source_option
@options.repeats_option
@options.cluster_option
@click.option("--resume", is_flag=True, help="Go on with the latest unfinished run of this spec.")
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@options.seed_option
@options.workloads_option
@options.variants_option
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="End with 1 when a primary metric of a variant has this verdict, beyond its margin.",
)
@options.quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    spec_path: Path,
    overrides: tuple[str, ...],
    named_sources: tuple[str, ...],
    repeats: int | None,
    cluster: Path | None,
    resume: bool,
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
    spec = options.read_spec(spec_path, overrides, cluster, repeats, named_sources)
    only_workloads = options.selection("workload", workloads, tuple(spec.workloads))
    only_variants = options.selection("variant", variants, tuple(spec.variants))
    if dry_run:
        show_plan(spec.restricted(only_workloads, only_variants), seed, out_dir, as_json)
        return
    outcome, document = run_and_report(
        ctx,
        spec,
        spec_text(spec_path),
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
    )
    end(ctx, outcome, document, fail_on)


def end(
    ctx: click.Context, outcome: RunOutcome, document: dict[str, Any], fail_on: str | None
) -> None:
    """Leave with the exit code of the run, or of the gate."""
    if outcome.exit_code:
        ctx.exit(outcome.exit_code)
    broken = failing(document, fail_on)
    for line in broken:
        note(f"--fail-on {fail_on}: {line}")
    if broken:
        ctx.exit(EXIT_VERDICT)


def run_and_report(
    ctx: click.Context,
    spec: Spec,
    text: str,
    spec_path: Path,
    *,
    out_dir: Path,
    cache_dir: Path,
    engine_src: Path | None,
    resume: bool,
    seed: int | None,
    as_json: bool,
    quiet: bool,
    workloads: tuple[str, ...] | None = None,
    variants: tuple[str, ...] | None = None,
) -> tuple[RunOutcome, dict[str, Any]]:
    """Run `spec`, print its report, and give how it ended and the report's JSON.

    `text` is kept with the results; near `spec_path` the engine's source is looked for. Ends the process after Ctrl-C.
    """
    source = find_engine_source(engine_src, spec_path)
    from perfrunner.run.runner import run_experiment

    with progress_listener(quiet) as listener:
        outcome = run_experiment(
            spec,
            spec_text=text,
            spec_path=spec_path.resolve(),
            out_dir=out_dir,
            cache_dir=cache_dir,
            resume=resume,
            seed=seed,
            workloads=workloads,
            variants=variants,
            engine_src=source,
            listener=listener,
            resume_command=resume_command(ctx),
        )
    if outcome.exit_code == EXIT_INTERRUPTED:
        ctx.exit(EXIT_INTERRUPTED)
    document = _report(out_dir, outcome, as_json)
    for line in outcome.failures:
        note(f"failed: {line}")
    return outcome, document


def _report(out_dir: Path, outcome: RunOutcome, as_json: bool) -> dict[str, Any]:
    """Print the report, leave the HTML page beside the trials, and give the JSON document."""
    from perfrunner.report import build_report, render, write_html
    from perfrunner.report.redact import redacted
    from perfrunner.results import ResultStore

    with ResultStore.open(out_dir, create=False) as store:
        data = store.load(outcome.experiment_id)
    shared = redacted(data)  # the page and the JSON are passed on; a terminal is not
    report = build_report(shared)
    machine = render(report, "json")
    if as_json:
        click.echo(machine, nl=False)
    else:
        click.echo(render(build_report(data), "terminal", console=result_console()), nl=False)
    note(f"report {write_html(report, shared, outcome.directory / PAGE)}")
    document: dict[str, Any] = json.loads(machine)
    return document


def resume_command(ctx: click.Context) -> str:
    """The command line that goes on where this one stopped: the same, with --resume."""
    arguments = [p.name or "" for p in ctx.command.params if isinstance(p, click.Argument)]
    given = [ctx.params[name] for name in arguments]
    words = ["perfrunner", str(ctx.info_name), *(str(word) for word in given if word is not None)]
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if not isinstance(parameter, click.Option) or parameter.name in ("resume", "dry_run"):
            continue
        if value in (None, False, (), parameter.default):
            continue
        flag = max(parameter.opts, key=len)
        values = value if isinstance(value, tuple) else (value,)
        words += [flag] if value is True else [w for v in values for w in (flag, str(v))]
    return shlex.join([*words, "--resume"])


def spec_text(spec_path: Path) -> str:
    """The spec file as it is."""
    try:
        return spec_path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{spec_path}: {error.strerror}") from error
