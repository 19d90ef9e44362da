"""`perfrunner aa`: compare a build with itself to measure the noise floor of the hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import note
from perfrunner.cli.plan import estimate, show_plan
from perfrunner.cli.request import RunOptions, gathered, measuring_command, options_of, read_spec
from perfrunner.cli.run import SpecFile, run_and_report, spec_or_run, spec_text
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.spec import Spec

# Options that are taken over from the latest run's command line if no spec is given.
INHERITED = ("--set", "--profile", "--source", "--cluster", "--workloads")


@click.command(
    "aa",
    epilog="\b\nExamples:\n  perfrunner aa specs/experiments/quickstart.yaml"
    "\n  perfrunner aa spec.yaml --workloads pillowfight --repeats 20"
    "\n  perfrunner aa                               the spec of the latest experiment"
    "\n\nThe noise floor is valid for the same workloads on the same hosts. Later reports in the same"
    "\nresults directory show it.",
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
    help="Variant to compare with itself (default: the baseline).",
)
@options.workloads_option
@options.resume_option
@options.dry_run_option
@options.seed_option
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@options.quiet_option
@click.pass_context
@gathered(RunOptions, "given")
def command(
    ctx: click.Context,
    spec_path: Path | None,
    variant: str | None,
    resume: str | None,
    given: RunOptions,
) -> None:
    """Compare a build of SPEC with itself (A/A test) to measure the noise floor of the hosts.

    The noise floor is the smallest change that a run of this size can detect. Without SPEC, the spec of the latest
    experiment is used.
    """
    spec_path, resume = spec_or_run(spec_path, resume)
    changes: list[str] = []
    if spec_path is not None:
        spec, text = read_spec(spec_path, given), spec_text(spec_path)
    elif replace(given, repeats=None).changes_spec:
        raise UsageError(
            "--set, --source, --profile and --cluster need a spec file to change",
            "perfrunner aa SPEC",
        )
    else:
        spec, text, spec_path, changes = _latest_spec(given)
    if variant is not None and variant not in spec.variants:
        expected = expected_name("a variant of the spec", variant, spec.variants)
        raise UsageError(f"--variant: {expected}")
    aa = given.selected(spec.against_itself(variant))
    if given.dry_run:
        show_plan(aa, given, estimate(aa, spec_path, given))
        return
    command_line = [*measuring_command(ctx, spec_path), *changes]
    outcome, _ = run_and_report(
        ctx, given, SpecFile(aa, text, spec_path), resume=resume, command=command_line
    )
    ctx.exit(outcome.exit_code)


def _latest_spec(given: RunOptions) -> tuple[Spec, str, Path, list[str]]:
    """Return the spec of the latest experiment that is not an A/A test.

    Gives the spec with the changes of that command line, its text, its path, and the options that
    made the changes.
    """
    from perfrunner.analysis.noise import is_aa
    from perfrunner.spec import Spec

    with options.open_results(given.out_dir) as store:
        experiments = [summary.experiment for summary in store.list()]
    latest = next(
        (e for e in reversed(experiments) if not is_aa(e.spec_json) and not e.imported), None
    )
    if latest is None:
        raise UsageError(
            f"no experiment is stored in {given.out_dir}", "name a spec: perfrunner aa SPEC"
        )
    note(f"using the spec of {latest.id}")
    spec = Spec.model_validate(latest.spec_json)
    if given.repeats is not None:
        spec = spec.model_copy(update={"blocks": given.repeats})
    changes = options_of(latest.facts.get("command") or (), INHERITED)
    return spec, latest.spec_text, Path(latest.spec_path), changes
