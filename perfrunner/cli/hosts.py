"""`perfrunner doctor`, `tune` and `untune`: check the hosts, tune them for quiet measurements, and restore them."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    from perfrunner.hosts import Host


MARKS = {"ok": "[green]✔[/]", "warning": "[yellow]![/]", "problem": "[red]✘[/]"}


@click.command(
    "doctor",
    epilog="\b\nExamples:\n  perfrunner doctor                     this machine"
    "\n  perfrunner doctor specs/experiments/jemalloc-metadata-thp.yaml"
    "\n  perfrunner doctor specs/clusters/loopback-ssh.yaml --json"
    "\n\nExit code: 3 if a problem (✘) would stop a run, else 0. A warning (!) means less precise"
    " or less comparable results.",
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
def doctor(
    ctx: click.Context,
    spec_path: Path | None,
    overrides: tuple[str, ...],
    profile: str | None,
    cluster: Path | None,
    as_json: bool,
) -> None:
    """Check the tools on this machine and the hosts of SPEC or CLUSTER (default: this machine). Changes nothing."""
    from perfrunner.experiment.preflight.doctor import examine
    from perfrunner.spec.cluster import local_cluster
    from perfrunner.spec.loader import is_cluster, load_cluster

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
    cache_dir = options.cache_directory(
        Path(os.environ.get("PERFRUNNER_CACHE") or options.DEFAULT_CACHE)
    )
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


_cluster = options.cluster_file("Cluster file with the hosts (default: this machine).")


@click.command(
    "tune",
    epilog="\b\nExamples:\n  perfrunner tune\n  perfrunner tune --cluster hosts.yaml"
    "\n  perfrunner tune --engine-cpus 0-7           also move interrupts to the other CPUs"
    "\n  perfrunner untune --cluster hosts.yaml      restore the previous settings"
    "\n\nEach host stores its previous settings. perfrunner run --tune tunes the hosts only for the run.",
)
@_cluster
@click.option(
    "--engine-cpus",
    metavar="CPUS",
    help="Move interrupts away from these CPUs, such as 0-7,16, the `engine.cpus` of your spec (default: leave"
    " interrupts alone).",
)
def tune(cluster: Path | None, engine_cpus: str | None) -> None:
    """Tune the hosts: governor performance, turbo off, huge pages madvise, swappiness 1. Needs root on the hosts.

    A setting that a host does not have is skipped.
    """
    from perfrunner.hosts.tuning import BY_HAND, summarized
    from perfrunner.hosts.tuning import tune as tune_host
    from perfrunner.spec.units import parse_cpus

    try:
        cpus = parse_cpus(engine_cpus) if engine_cpus else ""
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--engine-cpus'") from error
    for host in _hosts(cluster):
        done = tune_host(host, BY_HAND, cpus)
        for change in done.changed:
            click.echo(f"{host.name}: {change}")
        for refused in summarized(done.refused):
            note(f"{host.name}: not changed (no permission, or not supported): {refused}")
        if not done.changed and not done.refused:
            note(f"{host.name}: nothing to change")


@click.command(
    "untune",
    epilog="\b\nExamples:\n  perfrunner untune\n  perfrunner untune --cluster hosts.yaml",
)
@_cluster
def untune(cluster: Path | None) -> None:
    """Restore the settings that the hosts had before tune. Settings that were changed since then stay as they are."""
    from perfrunner.hosts.tuning import restore

    for host in _hosts(cluster):
        restored = restore(host)
        for change in restored:
            click.echo(f"{host.name}: {change}")
        if not restored:
            note(f"{host.name}: nothing to restore")


def _hosts(cluster: Path | None) -> Iterator[Host]:
    """Open the hosts one by one and lock each, so that no run is disturbed."""
    from perfrunner.hosts import open_host
    from perfrunner.spec.cluster import local_cluster
    from perfrunner.spec.loader import load_cluster

    spec = local_cluster() if cluster is None else load_cluster(cluster)
    for name, host in spec.hosts.items():
        with open_host(host, spec.transport, name=name, run_id="tune") as opened:
            opened.lock()
            yield opened
