"""`perfrunner aa`: one build under two names, to learn what this host can tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.estimate import estimate
from perfrunner.cli.invocation import measuring_command, options_of
from perfrunner.cli.output import note
from perfrunner.cli.plan import show_plan
from perfrunner.cli.run import run_and_report, spec_or_run, spec_text
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.spec import Spec

# Of the latest run's command line, without a spec.
INHERITED = ("--set", "--profile", "--source", "--cluster", "--workloads")
CHANGES = ("overrides", "profile", "named_sources", "cluster")  # options that change a spec file


@click.command(
    "aa",
    short_help="Measure the noise floor of these hosts.",
    epilog="\b\nExamples:\n  perfrunner aa specs/experiments/quickstart.yaml"
    "\n  perfrunner aa spec.yaml --workloads pillowfight --repeats 20"
    "\n  perfrunner aa                               the spec of the latest experiment"
    "\n\nThe floor holds for the same workloads on the same hosts; every later report of --out prints it.",
)
@click.argument(
    "spec_path", metavar="[SPEC]", required=False, type=click.Path(path_type=Path), default=None
)
@options.set_option
@options.source_option
@options.profile_option
@options.repeats_option
@options.cluster_option
@click.option(
    "--variant",
    metavar="NAME",
    shell_complete=complete.variant,
    help="The variant to compare with itself; default: the baseline.",
)
@options.workloads_option
@options.resume_option
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@options.seed_option
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@options.quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    spec_path: Path | None,
    overrides: tuple[str, ...],
    named_sources: tuple[str, ...],
    profile: str | None,
    repeats: int | None,
    cluster: Path | None,
    variant: str | None,
    workloads: tuple[str, ...],
    resume: str | None,
    dry_run: bool,
    seed: int | None,
    out_dir: Path,
    cache_dir: Path,
    engine_src: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run two names of one build of SPEC as if they were two, on all of its workloads.

    What they seem to differ by is the noise floor: the smallest change that so many blocks can show here.
    """
    spec_path, resume = spec_or_run(spec_path, resume)
    changes: list[str] = []
    if spec_path is not None:
        spec = options.read_spec(
            spec_path, overrides, cluster, repeats, named_sources, profile, engine_src=engine_src
        )
        text = spec_text(spec_path)
    elif any(ctx.params[name] for name in CHANGES):
        raise UsageError(
            "--set, --source, --profile and --cluster change a spec file: name it, perfrunner aa SPEC"
        )
    else:
        spec, text, spec_path, changes = _latest_spec(out_dir, repeats)
    if variant is not None and variant not in spec.variants:
        raise UsageError(expected_name("a variant of the spec", variant, spec.variants))
    only = options.selection("workload", workloads, tuple(spec.workloads))
    aa = spec.against_itself(variant).restricted(only, None)
    if dry_run:
        expected = estimate(aa, spec_path, out_dir, engine_src, cache_dir)
        show_plan(aa, seed, expected, as_json)
        return
    outcome, _ = run_and_report(
        ctx,
        aa,
        text,
        spec_path,
        out_dir=out_dir,
        cache_dir=cache_dir,
        resume=resume,
        seed=seed,
        engine_src=engine_src,
        as_json=as_json,
        quiet=quiet,
        command=[*measuring_command(ctx, spec_path), *changes],
    )
    ctx.exit(outcome.exit_code)


def _latest_spec(out_dir: Path, repeats: int | None) -> tuple[Spec, str, Path, list[str]]:
    """The spec of the latest experiment that is no A/A itself, as its command line changed it; its text and path, and
    what its command line changed.
    """
    from perfrunner.analysis.noise import is_aa
    from perfrunner.spec import Spec

    with options.open_results(out_dir) as store:
        experiments = [summary.experiment for summary in store.list()]
    latest = next((e for e in reversed(experiments) if not is_aa(e.spec_json)), None)
    if latest is None:
        raise UsageError(f"no experiment is stored in {out_dir}", "name a spec: perfrunner aa SPEC")
    note(f"the spec of {latest.id}")
    spec = Spec.model_validate(latest.spec_json)
    if repeats is not None:
        spec = spec.model_copy(update={"blocks": repeats})
    changes = options_of(latest.facts.get("command") or (), INHERITED)
    return spec, latest.spec_text, Path(latest.spec_path), changes
