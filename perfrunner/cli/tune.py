"""`perfrunner tune` and `untune`: quieten the hosts of a cluster, and put them back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete
from perfrunner.cli.output import note

if TYPE_CHECKING:
    from perfrunner.cluster import Host

_cluster = click.option(
    "--cluster",
    type=click.Path(path_type=Path),
    metavar="FILE",
    shell_complete=complete.clusters,
    help="The hosts; otherwise this machine.",
)


@click.command(
    "tune",
    short_help="Quieten the hosts: governor, turbo, huge pages, swappiness, interrupts.",
    epilog="\b\nExamples:\n  perfrunner tune\n  perfrunner tune --cluster hosts.yaml"
    "\n  perfrunner tune --engine-cpus 0-7           interrupts to the other CPUs, too"
    "\n  perfrunner untune --cluster hosts.yaml      put everything back"
    "\n\nThe previous values are kept on the host. perfrunner run --tune does it for the length of a run.",
)
@_cluster
@click.option(
    "--engine-cpus",
    metavar="CPUS",
    help="Keep interrupts off these, such as 0-7,16; as `engine.cpus` of the spec.",
)
def tune(cluster: Path | None, engine_cpus: str | None) -> None:
    """Set what a host has of: governor performance, turbo off, huge pages madvise, swappiness 1. Needs root there."""
    from perfrunner.cluster.tuning import BY_HAND, told
    from perfrunner.cluster.tuning import tune as quieten
    from perfrunner.spec.cpus import parse_cpus

    try:
        cpus = parse_cpus(engine_cpus) if engine_cpus else ""
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--engine-cpus'") from error
    for host in _hosts(cluster):
        done = quieten(host, BY_HAND, cpus)
        for change in done.changed:
            click.echo(f"{host.name}: {change}")
        for refused in told(done.refused):
            note(f"{host.name}: not changed (no permission, or the hardware refuses): {refused}")
        if not done.changed and not done.refused:
            note(f"{host.name}: nothing to change")


@click.command(
    "untune",
    short_help="Put back what tune changed.",
    epilog="\b\nExamples:\n  perfrunner untune\n  perfrunner untune --cluster hosts.yaml",
)
@_cluster
def untune(cluster: Path | None) -> None:
    """Put back the values that the hosts had before tune; what somebody else has set meanwhile stays."""
    from perfrunner.cluster.tuning import restore

    for host in _hosts(cluster):
        back = restore(host)
        for change in back:
            click.echo(f"{host.name}: {change}")
        if not back:
            note(f"{host.name}: nothing to put back")


def _hosts(cluster: Path | None) -> Iterator[Host]:
    """Each under its lock: a run that is under way is not disturbed."""
    from perfrunner.cluster import open_host
    from perfrunner.spec import load_cluster
    from perfrunner.spec.cluster import local_cluster

    spec = local_cluster() if cluster is None else load_cluster(cluster)
    for name, host in spec.hosts.items():
        with open_host(host, spec.transport, name=name, run_id="tune") as opened:
            opened.lock()
            yield opened
