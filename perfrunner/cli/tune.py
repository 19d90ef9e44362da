"""`perfrunner tune` and `untune`: tune the hosts of a cluster, and restore their settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete
from perfrunner.cli.output import note

if TYPE_CHECKING:
    from perfrunner.hosts import Host

_cluster = click.option(
    "--cluster",
    type=click.Path(path_type=Path),
    metavar="FILE",
    shell_complete=complete.clusters,
    help="Cluster file with the hosts (default: this machine).",
)


@click.command(
    "tune",
    short_help="Tune the hosts for quiet measurements.",
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
    short_help="Restore the settings that tune changed.",
    epilog="\b\nExamples:\n  perfrunner untune\n  perfrunner untune --cluster hosts.yaml",
)
@_cluster
def untune(cluster: Path | None) -> None:
    """Restore the settings that the hosts had before tune. Settings changed by someone else since then stay."""
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
    from perfrunner.spec import load_cluster
    from perfrunner.spec.cluster import local_cluster

    spec = local_cluster() if cluster is None else load_cluster(cluster)
    for name, host in spec.hosts.items():
        with open_host(host, spec.transport, name=name, run_id="tune") as opened:
            opened.lock()
            yield opened
