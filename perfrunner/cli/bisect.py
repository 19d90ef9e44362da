"""`perfrunner bisect`: which commit changed a metric?"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.ab import keep_spec
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.cli.invocation import resume_command
from perfrunner.cli.output import note, print_json, result_console
from perfrunner.errors import EXIT_INTERRUPTED, UsageError
from perfrunner.spec.metrics import METRICS, is_metric
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.bisect import BisectState, Search
    from perfrunner.spec import Spec

DIRECTORY = "bisect"  # below the results


@click.command(
    "bisect",
    short_help="Find the commit that changed a metric.",
    epilog="\b\nExamples:\n  perfrunner bisect spec.yaml --good v1.2 --bad main --metric ops_per_s"
    "\n  perfrunner bisect spec.yaml --good v1.2 --bad main --metric ops_per_s --workloads pillowfight \\"
    "\n             --set buckets=[persistent] --set precision=0.5%"
    "\n  perfrunner bisect spec.yaml --good v1.2 --bad main --metric ops_per_s --resume"
    "\n\nEach step compares one commit with the good end, on the workloads and the baseline's settings of SPEC. The"
    " bad end comes first: better or worse, its change is what is looked for.",
)
@options.spec_argument
@click.option(
    "--good", required=True, metavar="REV", help="The older end: what all are compared with."
)
@click.option(
    "--bad", required=True, metavar="REV", help="The newer end, where the metric is another."
)
@click.option(
    "--metric",
    required=True,
    metavar="NAME",
    shell_complete=complete.metrics,
    help="The metric, such as ops_per_s.",
)
@options.set_option
@options.repeats_option
@options.cluster_option
@options.workloads_option
@click.option(
    "--resume", is_flag=True, help="Go on with the bisection of this spec, ends and metric."
)
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@options.quiet_option
@click.pass_context
def command(
    ctx: click.Context,
    spec_path: Path,
    good: str,
    bad: str,
    metric: str,
    overrides: tuple[str, ...],
    repeats: int | None,
    cluster: Path | None,
    workloads: tuple[str, ...],
    resume: bool,
    out_dir: Path,
    cache_dir: Path,
    engine_src: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Find the commit between a good and a bad one at which METRIC of SPEC changed."""
    base = options.read_spec(spec_path, overrides, cluster, repeats, engine_src=engine_src)
    base = base.restricted(options.selection("workload", workloads, tuple(base.workloads)), None)
    base = _of_one_cell(base, metric)
    source = find_engine_source(engine_src, spec_path, revisions=True)

    from perfrunner.bisect import Search
    from perfrunner.bisect.compare import BisectInterruptedError, Comparer
    from perfrunner.cli.progress import progress_listener
    from perfrunner.source.git import Repository

    repository = Repository.around(source)
    if repository is None:
        raise UsageError(
            f"the engine source {source} is in no git repository", "name one with --engine-src"
        )
    ends = repository.commit(good).sha, repository.commit(bad).sha
    path = _state_path(base, metric, ends, out_dir)
    state = _state(path, base, metric, ends, resume)

    with progress_listener(quiet) as listener:
        comparer = Comparer(
            base, state, out_dir, options.store_url(), cache_dir, source, listener, resume_command(ctx),
            lambda text, name: keep_spec(text, name, out_dir),
        )  # fmt: skip
        search = Search(repository, state, comparer, lambda: state.save(path))
        try:
            for step in search.run():
                measured = f" ({step.why})" if step.why else ""
                note(f"step   {len(state.steps)}: {step.commit[:12]} {step.title}: {step.outcome}{measured};"
                     f" about {search.left()} to come")  # fmt: skip
        except BisectInterruptedError:
            ctx.exit(EXIT_INTERRUPTED)
    _report(search, path, as_json)


def _of_one_cell(spec: Spec, metric: str) -> Spec:
    """With the metric as the only primary one. UsageError where it would be measured in several places, or in too few
    blocks.
    """
    from perfrunner.analysis.model import MIN_BLOCKS

    if not is_metric(metric):
        raise UsageError(expected_name("a metric", metric, METRICS))
    if len(spec.cells) > 1:
        cells = ", ".join(f"{workload} · {bucket}" for workload, bucket in spec.cells)
        raise UsageError(
            f"a bisection looks at one workload on one bucket type, and the spec has {cells}",
            "choose with --workloads NAME and --set buckets=[TYPE]",
        )
    if spec.precision is None and spec.blocks < MIN_BLOCKS:
        raise UsageError(
            f"a bisection goes by verdicts, which take {MIN_BLOCKS} blocks, and the spec has {spec.blocks}",
            f"--repeats {MIN_BLOCKS} or more, or a precision: --set precision=0.5%",
        )
    return spec.model_copy(update={"primary": (metric,)})


def _state_path(spec: Spec, metric: str, ends: tuple[str, str], out_dir: Path) -> Path:
    key = json.dumps([spec.model_dump(mode="json"), metric, *ends], sort_keys=True, default=str)
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return out_dir / DIRECTORY / f"{spec.name}-{digest}.json"


def _state(path: Path, spec: Spec, metric: str, ends: tuple[str, str], resume: bool) -> BisectState:
    from perfrunner.bisect import BisectState

    known = BisectState.load(path) if resume else None
    if resume and known is None:
        raise UsageError(
            f"nothing to resume: no bisection of this spec, these ends and {metric} in {path.parent}",
            "run it without --resume to begin one",
        )
    return known or BisectState(spec.name, metric, *ends)


def _report(search: Search, path: Path, as_json: bool) -> None:
    """The finding and the table on stdout; the chart and a page beside the state."""
    from perfrunner.report.bisect import draw, effect_text, finding, markdown, told
    from perfrunner.report.files import write_whole

    state = told(search.state)
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
    from rich.markup import escape
    from rich.table import Table

    table = Table("commit", "title", "outcome", "change", "verdict", "blocks", box=None)
    for step in sorted(state.steps, key=lambda step: order.index(step.commit)):
        mark = " ←" if [step.commit] == culprits else ""
        table.add_row(
            f"{step.commit[:12]}{mark}", escape(step.title), step.outcome,
            escape(effect_text(state, step) or step.why[:60]), step.verdict or "", str(step.blocks or ""),
        )  # fmt: skip
    click.echo(sentence)
    result_console().print(table)
