"""`perfrunner bisect`: find the commit that changed a metric."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.ab import keep_spec
from perfrunner.cli.output import note, print_json, print_table
from perfrunner.cli.request import (
    RunOptions,
    find_engine_source,
    gathered,
    read_spec,
    resume_command,
)
from perfrunner.errors import EXIT_INTERRUPTED, UsageError
from perfrunner.spec.metrics import METRICS, is_metric, metric_type
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.bisect.search import BisectState, Search
    from perfrunner.spec.model import Spec

DIRECTORY = "bisect"  # below the results directory


@click.command(
    "bisect",
    epilog="\b\nExamples:\n  perfrunner bisect spec.yaml --good v1.2 --bad main --metric ops_per_s"
    "\n  perfrunner bisect spec.yaml --good v1.2 --bad main --metric ops_per_s --workloads pillowfight \\"
    "\n             --set buckets=[persistent] --set precision=0.5%"
    "\n  perfrunner bisect spec.yaml --good v1.2 --bad main --metric ops_per_s --resume"
    "\n\nEach step compares one commit with the good revision, on the workloads of SPEC and with the settings of its"
    " baseline. The first step measures the bad revision: the search looks for that change, whether better or worse."
    "\n\nIf the baseline is another server that is built from a repository, the revisions are those of its repository.",
)
@options.spec_argument
@click.option(
    "--good",
    required=True,
    metavar="REV",
    help="Known good revision; every step is compared with it.",
)
@click.option("--bad", required=True, metavar="REV", help="Known bad revision.")
@click.option(
    "--metric",
    required=True,
    metavar="NAME",
    shell_complete=complete.metrics,
    help="Metric that changed, such as ops_per_s.",
)
@options.set_option
@options.repeats_option
@options.cluster_option
@options.workloads_option
@click.option(
    "--resume", is_flag=True, help="Resume the bisection of this spec, metric and revisions."
)
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@options.quiet_option
@click.pass_context
@gathered(RunOptions, "given")
def command(
    ctx: click.Context,
    spec_path: Path,
    good: str,
    bad: str,
    metric: str,
    resume: bool,
    given: RunOptions,
) -> None:
    """Find the commit between a good and a bad revision at which a metric of SPEC changed."""
    base = _of_one_case(given.selected(read_spec(spec_path, given)), metric)
    server = base.variants[base.baseline].server
    source = find_engine_source(given.engine_src, spec_path, revisions=server is None)

    from perfrunner.bisect.compare import BisectInterruptedError, Comparer
    from perfrunner.bisect.search import Search
    from perfrunner.cli.progress import progress_listener
    from perfrunner.sources.git import Repository

    if server is not None and server.git is None:
        raise UsageError(
            f"the baseline, {base.baseline}, is another server than the engine, and is not built from a repository",
            "give it git, build and command in the spec",
        )
    repository = Repository.around(source if server is None else Path(str(server.git)))
    if repository is None:
        raise UsageError(
            f"the engine source {source} is not in a git repository",
            "name a git checkout with --engine-src DIR",
        )
    good_commit, bad_commit = repository.commit(good), repository.commit(bad)
    base_commit = repository.good_end(good_commit, bad_commit)
    if base_commit != good_commit:
        note(
            f"{good} is not an ancestor of {bad}: using their merge base as the good revision,"
            f" {base_commit.sha[:12]} {base_commit.title}"
        )
    ends = base_commit.sha, bad_commit.sha
    path = _state_path(base, metric, ends, given.out_dir)
    state = _state(path, base, metric, ends, resume)

    with progress_listener(given.quiet) as listener:
        comparer = Comparer(
            base, state, given.out_dir, options.store_url(), given.cache_dir, source, listener, resume_command(ctx),
            lambda text, name: keep_spec(text, name, given.out_dir),
        )  # fmt: skip
        search = Search(repository, state, comparer, lambda: state.save(path))
        try:
            for step in search.run():
                measured = f" ({step.why})" if step.why else ""
                note(f"step   {len(state.steps)}: {step.commit[:12]} {step.title}: {step.outcome}{measured};"
                     f" about {search.left()} steps left")  # fmt: skip
        except BisectInterruptedError:
            ctx.exit(EXIT_INTERRUPTED)
    _report(search, path, given.as_json)


def _of_one_case(spec: Spec, metric: str) -> Spec:
    """Make the metric the only primary one of the spec.

    Raises UsageError if the metric has no direction, or the spec several cases or too few blocks for a verdict.
    """
    from perfrunner.domain import MIN_BLOCKS

    if not is_metric(metric):
        raise UsageError(f"--metric: {expected_name('a metric', metric, METRICS)}")
    if metric_type(metric).direction == "none":
        raise UsageError(
            f"--metric: neither direction of {metric} is better, so it has no verdict",
            "choose a metric with a direction (see docs/reference/metrics.md)",
        )
    if len(spec.cases) > 1:
        cases = ", ".join(str(case) for case in spec.cases)
        raise UsageError(
            f"a bisection needs one workload on one bucket type, but the spec has {cases}",
            "select them with --workloads NAME and --set buckets=[TYPE]",
        )
    if spec.precision is None and spec.blocks < MIN_BLOCKS:
        raise UsageError(
            f"a bisection needs verdicts, which take {MIN_BLOCKS} blocks, but the spec has {spec.blocks}",
            f"use --repeats {MIN_BLOCKS} or more, or set a precision: --set precision=0.5%",
        )
    return spec.model_copy(update={"primary": (metric,)})


def _state_path(spec: Spec, metric: str, ends: tuple[str, str], out_dir: Path) -> Path:
    key = json.dumps([spec.model_dump(mode="json"), metric, *ends], sort_keys=True, default=str)
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return out_dir / DIRECTORY / f"{spec.name}-{digest}.json"


def _state(path: Path, spec: Spec, metric: str, ends: tuple[str, str], resume: bool) -> BisectState:
    from perfrunner.bisect.search import BisectState

    known = BisectState.load(path) if resume else None
    if resume and known is None:
        raise UsageError(
            f"nothing to resume: {path.parent} has no bisection of this spec, {metric} and these revisions",
            "start one by leaving out --resume",
        )
    return known or BisectState(spec.name, metric, *ends)


def _report(search: Search, path: Path, as_json: bool) -> None:
    """Print the finding and the steps, and write the chart and a page next to the state file."""
    from perfrunner.report.bisect import draw, effect_text, finding, markdown, redacted_state
    from perfrunner.results.files import write_whole

    state = redacted_state(search.state)
    culprits = search.culprits()
    titles = {commit: search.repository.commit(commit).title for commit in culprits}
    sentence = finding(state, culprits, titles, left=search.left())
    order = search.repository.git(
        "rev-list", "--reverse", "--topo-order", state.bad, f"^{state.good}"
    ).split()
    svg, png = draw(state, order)
    for suffix, content in ((".svg", svg), (".png", png)):
        write_whole(path.with_suffix(suffix), content)
    page = markdown(state, sentence, path.with_suffix(".svg").name)
    write_whole(path.with_suffix(".md"), page.encode())
    note(f"report {path.with_suffix('.md')}")
    if as_json:
        print_json({"finding": sentence, "culprits": culprits, **asdict(state)})
        return
    click.echo(sentence)
    print_table(
        ("commit", "title", "outcome", "change", "verdict", "blocks"),
        (
            (
                f"{step.commit[:12]}{' ←' if [step.commit] == culprits else ''}", step.title, step.outcome,
                effect_text(state, step) or step.why[:60], step.verdict or "", str(step.blocks or ""),
            )
            for step in sorted(state.steps, key=lambda step: order.index(step.commit))
        ),
    )  # fmt: skip
