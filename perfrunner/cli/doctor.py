"""`perfrunner doctor`: check tools and hosts before a run."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import options
from perfrunner.cli.output import note, print_json, result_console
from perfrunner.cli.request import RunOptions, read_spec
from perfrunner.errors import EXIT_FAILED

if TYPE_CHECKING:
    from perfrunner.experiment.preflight.health import Finding

MARKS = {"ok": "[green]✔[/]", "warning": "[yellow]![/]", "problem": "[red]✘[/]"}


@click.command(
    "doctor",
    short_help="Check the hosts for missing tools, noise and bad settings.",
    epilog="\b\nExamples:\n  perfrunner doctor                     this machine"
    "\n  perfrunner doctor specs/experiments/jemalloc-metadata-thp.yaml"
    "\n  perfrunner doctor specs/clusters/loopback-ssh.yaml --json"
    "\n\nExit code: 3 if a problem (✘) would stop a run, else 0. A warning (!) costs precision or comparability.",
)
@click.argument(
    "spec_path",
    metavar="[SPEC|CLUSTER]",
    required=False,
    type=click.Path(path_type=Path),
    default=None,
)
@options.set_option
@options.profile_option
@options.cluster_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    spec_path: Path | None,
    overrides: tuple[str, ...],
    profile: str | None,
    cluster: Path | None,
    as_json: bool,
) -> None:
    """Check the tools on this machine and the hosts of SPEC or CLUSTER (default: this machine). Changes nothing."""
    from perfrunner.experiment.preflight.doctor import examine
    from perfrunner.spec import is_cluster, load_cluster
    from perfrunner.spec.cluster import local_cluster

    changed = cluster is not None or overrides or profile is not None
    if spec_path is not None and not changed and is_cluster(spec_path):
        spec_path, cluster = None, spec_path
    spec = (
        None
        if spec_path is None
        else read_spec(spec_path, RunOptions(overrides, profile, cluster=cluster))
    )
    given = load_cluster(cluster) if cluster is not None else local_cluster()
    hosts = given if spec is None else spec.cluster
    cache_dir = Path(os.environ.get("PERFRUNNER_CACHE") or options.DEFAULT_CACHE)
    findings = list(examine(hosts, spec, cache_dir))
    counts = {
        grade: sum(f.grade == grade for f in findings) for grade in ("ok", "warning", "problem")
    }
    if as_json:
        print_json({"findings": [asdict(f) for f in findings], "counts": counts})
    else:
        _print(findings)
        note(", ".join(f"{count} {grade}" for grade, count in counts.items()))
    if counts["problem"]:
        ctx.exit(EXIT_FAILED)


def _print(findings: list[Finding]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "place", "check", "result", "remedy", box=None)
    for f in findings:
        table.add_row(
            MARKS[f.grade], escape(f.place), escape(f.subject), escape(f.text), escape(f.remedy)
        )
    result_console().print(table)
