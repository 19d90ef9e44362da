"""`perfrunner ab`: did my change help? Two sources of the engine, compared without a spec."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.cli.estimate import estimate
from perfrunner.cli.output import note, print_json
from perfrunner.cli.plan import show_plan
from perfrunner.cli.run import end, run_and_report
from perfrunner.errors import UsageError

if TYPE_CHECKING:
    from perfrunner.spec import Spec
    from perfrunner.spec.source import SourceSpec

DIRECTORY = "ab"  # below the results: the specs that were made, by name and content
IF_SAME = ("refuse", "skip", "measure")


@click.command(
    "ab",
    short_help="Compare two revisions, without a spec.",
    epilog="\b\nExamples:\n  perfrunner ab main my-branch"
    "\n  perfrunner ab HEAD~1 HEAD                   what did the last commit change?"
    "\n  perfrunner ab main .                        the working tree as it is, against main"
    "\n  perfrunner ab main my-branch --workload append --items 50k --blocks 20"
    "\n  perfrunner ab main my-branch --spec specs/experiments/dcp-ready-queue.yaml"
    "\n  perfrunner ab origin/main HEAD --if-same skip --fail-on worse      the gate of a pull request"
    "\n\nA is the baseline. A name that begins with '.', '/' or '~' is a directory, any other a revision, tag or"
    " branch of the repository that holds the engine source.",
)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take workloads, hosts, margins and the baseline's settings from this spec.",
)
@click.option(
    "--workload",
    "workloads",
    shell_complete=complete.workloads,
    metavar="NAME,...",
    multiple=True,
    help="Only these workloads: pillowfight, append, or those of --spec.",
)
@click.option("--items", metavar="N", help="Items of each workload, such as 200k.")
@click.option(
    "--blocks", type=click.IntRange(1, 1000), metavar="N", help="Repetitions; default 10."
)
@click.option(
    "--if-same",
    type=click.Choice(IF_SAME),
    default="refuse",
    show_default=True,
    help="When A and B are the same engine: end with 2, end with 0, or measure it all the same (an A/A).",
)
@options.source_option
@options.cluster_option
@click.option("--resume", is_flag=True, help="Go on with the latest unfinished run of this pair.")
@options.dry_run_option
@options.seed_option
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@options.fail_on_option
@options.quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    first: str,
    second: str,
    spec_path: Path | None,
    workloads: tuple[str, ...],
    items: str | None,
    blocks: int | None,
    if_same: str,
    named_sources: tuple[str, ...],
    cluster: Path | None,
    resume: bool,
    dry_run: bool,
    seed: int | None,
    out_dir: Path,
    cache_dir: Path,
    engine_src: Path | None,
    as_json: bool,
    fail_on: str | None,
    quiet: bool,
) -> None:
    """Build A and B, run both side by side on a few small workloads, and say what B changed."""
    from perfrunner.source.switches import SwitchTables
    from perfrunner.spec import load_cluster
    from perfrunner.spec.pair import pair, small_spec, spec_document

    arms = _arms(first, second)
    revisions = any(arm.git is not None for arm in arms.values())
    source = find_engine_source(engine_src, spec_path, revisions=revisions)
    if spec_path is not None:
        base = options.read_spec(spec_path, cluster=cluster, engine_src=engine_src)
    else:
        base = small_spec()
        if cluster is not None:
            base = base.model_copy(update={"cluster": load_cluster(cluster)})
    only = options.selection("workload", workloads, tuple(base.workloads))
    base = _sized(base.restricted(only, None), items, blocks)
    spec = options.with_sources(pair(base, f"ab-{'-'.join(arms)}", arms), named_sources)
    if dry_run:
        options.check_revisions(arms, SwitchTables(source))
        expected = estimate(spec, spec_path, out_dir, engine_src, cache_dir)
        show_plan(spec, seed, expected, as_json)
        return
    look = not resume or if_same == "measure"  # a run that was begun knows its sources
    if look and (same := _same(spec, source, cache_dir)):
        if if_same == "measure":  # one source under two names, which the report knows as an A/A
            source_of_both = spec.variants[spec.baseline].source or arms[spec.baseline]
            spec = pair(base, spec.name, dict.fromkeys(arms, source_of_both))
        elif if_same == "refuse":
            raise UsageError(
                same, "--if-same skip ends with 0 then, --if-same measure shows the noise"
            )
        else:
            if as_json:
                print_json({"same": True, "message": same})
            else:
                click.echo(same)
            return
    text = spec_document(spec)
    outcome, document = run_and_report(
        ctx,
        spec,
        text,
        keep_spec(text, spec.name, out_dir),
        out_dir=out_dir,
        cache_dir=cache_dir,
        resume="" if resume else None,
        seed=seed,
        engine_src=source,
        as_json=as_json,
        quiet=quiet,
    )
    end(ctx, outcome, document, fail_on)


def _arms(first: str, second: str) -> dict[str, SourceSpec]:
    """By name. Two names that come out alike get a number."""
    from perfrunner.spec.matrix import variant_name

    arms: dict[str, SourceSpec] = {}
    for what, text in (("A", first), ("B", second)):
        name = variant_name(text)
        arms[name if name not in arms else f"{name[:98]}-2"] = options.named_source(text, what)
    return arms


def _sized(spec: Spec, items: str | None, blocks: int | None) -> Spec:
    """With other numbers of items and blocks. UsageError."""
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
        raise UsageError(f"--items {items}: expected one or more, and a workload that has items")
    return spec.model_copy(update={"workloads": {**spec.workloads, **sized}})


def _same(spec: Spec, engine_src: Path, cache_dir: Path) -> str | None:
    """What to say when both arms are one engine; None when they are two. UsageError for a source that is none."""
    from perfrunner.source import resolve_sources

    first, second = resolve_sources(spec, engine_src, cache_dir).of.items()
    if first[1].sha256 != second[1].sha256:
        return None
    return (
        f"{first[0]} and {second[0]} are the same engine (content {first[1].sha256[:12]}):"
        " there is nothing to compare"
    )


def keep_spec(text: str, name: str, out_dir: Path) -> Path:
    """The spec as a file, for `perfrunner run` to measure it again, and to be edited."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    path = out_dir / DIRECTORY / f"{name}-{digest}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    note(f"spec   {path}")
    return path
