"""`perfrunner ab`: compare sources of the engine, or any servers, without a spec. `aa`: compare a build with itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from perfrunner.cli import complete, options
from perfrunner.cli.ab_servers import PairOptions, same_servers, server_spec
from perfrunner.cli.output import note, print_json
from perfrunner.cli.plan import estimate, show_plan
from perfrunner.cli.request import (
    RunOptions,
    check_revisions,
    find_engine_source,
    gathered,
    measuring_command,
    named_source,
    options_of,
    read_spec,
    with_sources,
)
from perfrunner.cli.run import SpecFile, end, run_and_report, spec_or_run, spec_text
from perfrunner.domain import ServerProtocol
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.spec.model import Spec
    from perfrunner.spec.source import SourceSpec

DIRECTORY = "ab"  # below the results directory: the generated specs, by name and content
WRITE_A_SPEC = "write a spec with `server:` (perfrunner init)"
IF_SAME = ("refuse", "skip", "measure")


@click.command(
    "ab",
    epilog="\b\nExamples:\n  perfrunner ab 'memcached -p {port} -t 1' 'memcached -p {port} -t 2'"
    "\n  perfrunner ab 'memcached -p {port}' './memcached-new -p {port}'"
    "\n  perfrunner ab --preload jemalloc,mimalloc 'redis-server --port {port} --save \"\"'"
    "\n  perfrunner ab ~/redis@7.2 ~/redis@unstable --build 'make -j2' --run 'src/redis-server --port {port}'"
    "\n  perfrunner ab main my-branch                the engine of this repository"
    "\n  perfrunner ab HEAD~1 HEAD                   the effect of the last commit"
    "\n  perfrunner ab main .                        the working tree against main"
    "\n  perfrunner ab main my-branch --workload append --items 50k --blocks 20"
    "\n  perfrunner ab main my-branch --spec specs/experiments/dcp-ready-queue.yaml"
    "\n  perfrunner ab origin/main HEAD --if-same skip --fail-on worse      check a pull request"
    "\n\nA is the baseline. An argument with {port} is a command: perfrunner starts it on a free port, without a shell."
    " With --run, arguments are REPOSITORY@REVISION. Otherwise, a name that begins with '.', '/' or '~' is a directory"
    " and any other name is a revision, tag or branch of the repository that holds the engine source.",
)
@click.argument("sources", metavar="A [B]...", nargs=-1, required=True)
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take workloads, hosts, margins and the baseline's settings from this spec (default: two small workloads"
    " on this machine).",
)
@click.option(
    "--workload",
    "workloads",
    shell_complete=complete.workloads,
    metavar="NAME,...",
    multiple=True,
    help="Run only these workloads: pillowfight, append, or those of --spec (default: all). For commands: mixed"
    " (the default), read, write, unbatched.",
)
@click.option(
    "--items",
    metavar="N",
    help="Number of items of each workload, such as 200k (default: the workload's).",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Number of blocks (default: 7 for revisions, 10 for commands, or those of --spec).",
)
@click.option(
    "--value-size",
    metavar="SIZE",
    help="Bytes of a value, such as 1k (default: 256; commands only).",
)
@click.option(
    "--protocol",
    type=click.Choice(get_args(ServerProtocol)),
    help="What the load speaks (default: by asking the server; commands only).",
)
@click.option(
    "--password-env",
    metavar="NAME",
    help="Variable of your environment with the password of the servers (commands only).",
)
@click.option(
    "--preload",
    metavar="NAME,...",
    help="Compare allocators under one command: glibc, jemalloc, mimalloc, tcmalloc, snmalloc or paths of libraries."
    " The first is the baseline.",
)
@click.option(
    "--build",
    metavar="COMMAND",
    help="Build each REPOSITORY@REVISION with this command, in a checkout that is kept in the build cache.",
)
@click.option(
    "--run",
    "run_command",
    metavar="COMMAND",
    help="Start what was built, such as 'src/redis-server --port {port}'.",
)
@click.option(
    "--if-same",
    type=click.Choice(IF_SAME),
    default="refuse",
    show_default=True,
    help="What to do if A and B are identical: refuse (exit 2), skip (exit 0) or measure anyway as an A/A test.",
)
@options.source_option
@options.cluster_option
@click.option("--resume", is_flag=True, help="Resume the latest unfinished run of this pair.")
@options.dry_run_option
@options.seed_option
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@options.fail_on_option
@options.quiet_option
@click.pass_context
@gathered(PairOptions, "chosen")
@gathered(RunOptions, "given")
def command(
    ctx: click.Context,
    sources: tuple[str, ...],
    spec_path: Path | None,
    resume: bool,
    given: RunOptions,
    chosen: PairOptions,
) -> None:
    """Run A and B interleaved on small workloads, and report what B changed; build them first if needed."""
    if chosen.concerns(sources):
        if spec_path:
            raise UsageError("--spec cannot be used with commands", WRITE_A_SPEC)
        _compare_servers(ctx, sources, resume, given, chosen)
    else:
        chosen.refuse_for_engine()
        _compare_engines(ctx, sources, spec_path, resume, given, chosen)


def _compare_servers(
    ctx: click.Context,
    sources: tuple[str, ...],
    resume: bool,
    given: RunOptions,
    chosen: PairOptions,
) -> None:
    """Compare servers that are given as commands, or are built from revisions of a repository."""
    for name, value in (("--cluster", given.cluster), ("--source", given.named_sources)):
        if value:
            raise UsageError(f"{name} cannot be used with commands", WRITE_A_SPEC)
    spec = server_spec(sources, chosen, given.workloads)
    source = find_engine_source(given.engine_src, None)
    if not resume and chosen.if_same != "measure" and (same := same_servers(spec)):
        _end_same(same, chosen.if_same, given.as_json)
    elif given.dry_run:
        show_plan(spec, given, estimate(spec, None, given))
    else:
        _run(ctx, replace(given, engine_src=source), spec, resume)


def _compare_engines(
    ctx: click.Context,
    sources: tuple[str, ...],
    spec_path: Path | None,
    resume: bool,
    given: RunOptions,
    chosen: PairOptions,
) -> None:
    """Compare two sources of the engine: revisions, directories, or one of each."""
    from perfrunner.sources.switches import SwitchTables
    from perfrunner.spec.loader import load_cluster
    from perfrunner.spec.pair import pair, small_spec

    if len(sources) != 2:
        raise UsageError(f"expected two sources of the engine, A and B; got {len(sources)}")
    variants = _variants(*sources)
    revisions = any(variant.git is not None for variant in variants.values())
    source = find_engine_source(given.engine_src, spec_path, revisions=revisions)
    if spec_path is not None:
        base = read_spec(spec_path, replace(given, named_sources=()))
    else:
        base = small_spec()
        if given.cluster is not None:
            base = base.model_copy(update={"cluster": load_cluster(given.cluster)})
    base = _sized(given.selected(base), chosen.items, chosen.blocks)
    spec = with_sources(pair(base, f"ab-{'-'.join(variants)}", variants), given.named_sources)
    if given.dry_run:
        check_revisions(variants, SwitchTables(source))
        show_plan(spec, given, estimate(spec, spec_path, given))
        return
    check_same = not resume or chosen.if_same == "measure"  # a resumed run has its sources already
    if check_same and (same := _same(spec, source, given.cache_dir)):
        if chosen.if_same != "measure":
            _end_same(same, chosen.if_same, given.as_json)
            return
        # The report recognizes one source under two names as an A/A test.
        source_of_both = spec.variants[spec.baseline].source or variants[spec.baseline]
        spec = pair(base, spec.name, dict.fromkeys(variants, source_of_both))
    _run(ctx, replace(given, engine_src=source), spec, resume)


def _end_same(message: str, if_same: str, as_json: bool) -> None:
    """Say that there is nothing to compare; raise UsageError unless `if_same` is skip."""
    if if_same == "refuse":
        raise UsageError(
            message, "--if-same skip exits with 0, --if-same measure measures the noise"
        )
    if as_json:
        print_json({"same": True, "message": message})
    else:
        click.echo(message)


def _run(ctx: click.Context, given: RunOptions, spec: Spec, resume: bool) -> None:
    """Keep the spec as a file, run it, report, and exit with the code of the run."""
    from perfrunner.spec.pair import spec_document

    text = spec_document(spec)
    file = SpecFile(spec, text, keep_spec(text, spec.name, given.out_dir))
    outcome, document = run_and_report(ctx, given, file, resume="" if resume else None)
    end(ctx, outcome, document, given.fail_on)


def _variants(first: str, second: str) -> dict[str, SourceSpec]:
    """Return the two sources by variant name; a number distinguishes equal names."""
    from perfrunner.spec.matrix import variant_name

    variants: dict[str, SourceSpec] = {}
    for what, text in (("A", first), ("B", second)):
        name = variant_name(text)
        variants[name if name not in variants else f"{name[:98]}-2"] = named_source(text, what)
    return variants


def _sized(spec: Spec, items: str | None, blocks: int | None) -> Spec:
    """Set the number of items and blocks, where given. Raises UsageError."""
    from perfrunner.spec.units import parse_count

    if blocks is not None:
        spec = spec.model_copy(update={"blocks": blocks})
    if items is None:
        return spec
    try:
        count = parse_count(int(items) if items.isdigit() else items)
    except ValueError as error:
        raise UsageError(f"--items {items}: {error}") from None
    sized = {
        name: workload.model_copy(update={"items": count})
        for name, workload in spec.workloads.items()
        if "items" in type(workload).model_fields
    }
    if not sized or count < 1:
        raise UsageError(f"--items {items}: expected at least 1, and a workload with items")
    return spec.model_copy(update={"workloads": {**spec.workloads, **sized}})


def _same(spec: Spec, engine_src: Path, cache_dir: Path) -> str | None:
    """Return a message if both variants have the same engine source, else None.

    Raises UsageError if a source cannot be resolved.
    """
    from perfrunner.sources.resolve import resolve_sources

    first, second = resolve_sources(spec, engine_src, cache_dir).of.items()
    if first[1].sha256 != second[1].sha256:
        return None
    return (
        f"{first[0]} and {second[0]} are the same engine (content {first[1].sha256[:12]}):"
        " there is nothing to compare"
    )


def keep_spec(text: str, name: str, out_dir: Path) -> Path:
    """Write a generated spec to a file, which `perfrunner run` can measure again. Return its path."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    path = out_dir / DIRECTORY / f"{name}-{digest}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    note(f"spec   {path}")
    return path


# Options that are taken over from the latest run's command line if no spec is given.
INHERITED = ("--set", "--profile", "--source", "--cluster", "--workloads")


@click.command(
    "aa",
    epilog="\b\nExamples:\n  perfrunner aa specs/experiments/quickstart.yaml"
    "\n  perfrunner aa spec.yaml --workloads pillowfight --repeats 20"
    "\n  perfrunner aa                               the spec of the latest experiment"
    "\n\nThe noise floor is valid for the same server and workloads on the same hosts. Later reports in"
    "\nthe same results directory show it.",
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
def aa(
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
    spec = given.selected(spec.against_itself(variant))
    if given.dry_run:
        show_plan(spec, given, estimate(spec, spec_path, given))
        return
    command_line = [*measuring_command(ctx, spec_path), *changes]
    outcome, _ = run_and_report(
        ctx, given, SpecFile(spec, text, spec_path), resume=resume, command=command_line
    )
    ctx.exit(outcome.exit_code)


def _latest_spec(given: RunOptions) -> tuple[Spec, str, Path, list[str]]:
    """Return the spec of the latest experiment that is not an A/A test.

    Gives the spec with the changes of that command line, its text, its path, and the options that
    made the changes.
    """
    from perfrunner.analysis.noise import is_aa
    from perfrunner.spec.model import Spec

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
