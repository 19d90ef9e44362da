"""`perfrunner clean`: free disk space. Results are only removed if they are named."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import note, print_json, size
from perfrunner.errors import StoreError, UsageError
from perfrunner.paths import lock
from perfrunner.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from perfrunner.spec.cluster import ClusterSpec, HostSpec

# `build` and `builder` exist on a build host: its cache, and the program that builds there.
HOST_DIRECTORIES = ("artifacts", "runs", "build", "builder")


@dataclass(frozen=True)
class Target:
    """Something that can be removed; `bytes` is its size, or None if that is unknown."""

    what: str
    bytes: int | None
    remove: Callable[[], None]


@click.command(
    "clean",
    epilog="\b\nExamples:\n  perfrunner clean                        builds and leftovers of trials on this machine"
    "\n  perfrunner clean --cluster hosts.yaml   leftovers of trials on those hosts"
    "\n  perfrunner clean --keep 5               all but the 5 most recently used artifacts"
    "\n  perfrunner clean --keep 5 --cluster hosts.yaml"
    "\n  perfrunner clean --results quickstart-20260102-030405"
    "\n\nIt lists what it is going to remove and asks first. Default: --builds --hosts, on this machine.",
)
@click.option("--builds", is_flag=True, help="Remove the build cache.")
@click.option(
    "--hosts", is_flag=True, help="Remove artifacts, run directories and builds on the hosts."
)
@options.cluster_file("Clean the hosts of FILE; implies --hosts (default: this machine).")
@click.option(
    "--results",
    metavar="EXPERIMENT",
    shell_complete=complete.experiments,
    multiple=True,
    help="Permanently delete the results of the experiment with this full id; repeatable.",
)
@click.option(
    "--keep",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="Keep the N most recently used artifacts in the cache and on each host, all build trees, and copies of"
    " sources used within 30 days (default: keep nothing).",
)
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@options.out_option
@options.cache_option
@options.json_option
def command(  # noqa: PLR0913
    builds: bool,
    hosts: bool,
    cluster: Path | None,
    results: tuple[str, ...],
    keep: int | None,
    yes: bool,
    out_dir: Path,
    cache_dir: Path,
    as_json: bool,
) -> None:
    """Remove builds and the leftovers of trials on the hosts. Results are only removed with --results."""
    from perfrunner.spec.loader import load_cluster

    hosts = hosts or cluster is not None
    if not (builds or hosts or results):
        builds = hosts = True
    targets: list[Target] = []
    if builds:
        targets += builds_in(cache_dir, keep)
    if hosts:
        targets += leftovers_on(None if cluster is None else load_cluster(cluster), keep)
    targets += [_experiment(out_dir, experiment) for experiment in results]
    if targets and not yes:
        _ask(targets)
    for target in targets:
        target.remove()
    if as_json:
        print_json({"removed": [{"what": t.what, "bytes": t.bytes} for t in targets]})
    elif not targets:
        note("nothing to remove")
    else:
        for target in targets:
            click.echo(f"removed {_line(target)}")


def _ask(targets: list[Target]) -> None:
    for target in targets:
        note(f"  {_line(target)}")
    if not _is_terminal():
        raise UsageError("nothing was removed: stdin is not a terminal to confirm on", "add --yes")
    if not click.confirm("Remove all of this?", err=True):
        raise UsageError("nothing was removed")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _line(target: Target) -> str:
    return target.what if target.bytes is None else f"{target.what} ({size(target.bytes)})"


def builds_in(cache_dir: Path, keep: int | None) -> list[Target]:
    """Return the parts of a cache to remove: all of it, or all but the `keep` most recently used artifacts."""
    if not cache_dir.is_dir() or not any(cache_dir.iterdir()):
        return []
    from perfrunner.build.cache import CACHE_TAG, artifacts_in, beyond, tree_bytes, unused_sources

    if not (cache_dir / CACHE_TAG).is_file():
        raise UsageError(
            f"{cache_dir} is not a build cache of perfrunner: it has no file {CACHE_TAG}",
            "name the build cache with --cache DIR, or remove the directory yourself",
        )
    if keep is None:
        size_now = tree_bytes(cache_dir)
        return [Target(f"build cache {cache_dir}", size_now, lambda: _remove_cache(cache_dir))]
    targets = [
        Target(
            f"artifact {old.build_id} in {cache_dir}, last used {_day(old.used_at)}",
            old.bytes,
            lambda old=old: _forget_build(cache_dir, old.build_id),  # type: ignore[misc]
        )
        for old in beyond(artifacts_in(cache_dir), keep)
    ]
    if sources := unused_sources(cache_dir):
        targets.append(
            Target(
                f"{len(sources)} copies of sources in {cache_dir}, not used for 30 days",
                sum(tree_bytes(path) for path in sources),
                lambda: _forget_sources(cache_dir),
            )
        )
    return targets


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M}"


def _remove_cache(cache_dir: Path) -> None:
    with _no_builds(cache_dir):
        _remove_tree(cache_dir)


def _forget_build(cache_dir: Path, build_id: str) -> None:
    from perfrunner.build.cache import forget

    with _no_builds(cache_dir):
        try:
            forget(cache_dir, [build_id])
        except OSError as error:
            raise StoreError(f"{error.filename} cannot be removed: {error.strerror}") from error


def _forget_sources(cache_dir: Path) -> None:
    """Remove the unused copies of sources; list them again, since a run may have started."""
    from perfrunner.build.cache import unused_sources

    with _no_builds(cache_dir):
        for path in unused_sources(cache_dir):
            _remove_tree(path)


@contextlib.contextmanager
def _no_builds(cache_dir: Path) -> Iterator[None]:
    """Hold the locks of the cache; raise UsageError if a build or a run is using it."""
    from perfrunner.build.cache import IN_USE_LOCK

    with contextlib.ExitStack() as stack:
        runs = cache_dir / IN_USE_LOCK
        builds = sorted((cache_dir / "trees").glob("*.lock"))
        for path in [*([runs] if runs.exists() else []), *builds]:
            file = stack.enter_context(path.open("r"))
            if not lock(file.fileno(), path):
                user = "a run" if path == runs else "a build"
                raise UsageError(f"{user} is using {cache_dir}", "wait until it ends")
        yield


def leftovers_on(cluster: ClusterSpec | None, keep: int | None) -> list[Target]:
    """Return what to remove on the hosts of `cluster`, or on this machine if it is None.

    That is everything, or all but the `keep` most recently used artifacts. Raises HostError.
    """
    from perfrunner.spec.cluster import DEFAULT_WORK_DIR, HostSpec

    if cluster is not None:
        local = cluster.transport == "local"
        return [
            target
            for name, host in cluster.hosts.items()
            for target in _on_host(name, host, keep, local=local)
        ]
    work_dir = Path(DEFAULT_WORK_DIR.replace("%u", str(os.getuid())))
    if not any((work_dir / name).is_dir() for name in HOST_DIRECTORIES):
        return []
    return _on_host("here", HostSpec(work_dir=str(work_dir)), keep, local=True)


def _on_host(name: str, spec: HostSpec, keep: int | None, *, local: bool) -> list[Target]:
    """Return what to remove on one host. The sizes are read without the host's lock."""
    from perfrunner.build.cache import Kept, beyond
    from perfrunner.hosts import open_host

    with open_host(spec, "local" if local else "ssh", name=name, run_id="clean") as opened:
        artifacts = [Kept(*row) for row in opened.transport.artifacts()]
        work_dir = opened.work_dir
    old = beyond(artifacts, keep or 0)
    size_now = sum(artifact.bytes for artifact in old)
    if keep is not None and not old:
        return []
    what = f"{len(old)} artifacts" + (
        "" if keep is not None else ", the run directories and builds"
    )
    ids = None if keep is None else [artifact.build_id for artifact in old]
    return [
        Target(
            f"{what} in {work_dir} on {name}", size_now, lambda: _clean_host(name, spec, local, ids)
        )
    ]


def _clean_host(name: str, spec: HostSpec, local: bool, build_ids: list[str] | None) -> None:
    """Remove directories of a host under its lock. Raises HostError if a run is using the host."""
    from perfrunner.hosts import open_host

    with open_host(spec, "local" if local else "ssh", name=name, run_id="clean") as opened:
        opened.lock()
        opened.sweep()
        below = HOST_DIRECTORIES if build_ids is None else [f"artifacts/{b}" for b in build_ids]
        for path in below:
            opened.transport.remove_tree(f"{opened.work_dir}/{path}")


def _experiment(out_dir: Path, experiment: str) -> Target:
    from perfrunner.build.cache import tree_bytes

    with options.open_results(out_dir) as store:
        known = [summary.experiment.id for summary in store.list()]
        elsewhere = not store.is_own(experiment)
    if experiment not in known:
        raise UsageError(
            f"no experiment {experiment} in {out_dir}{did_you_mean(experiment, known)}",
            "perfrunner list prints the ids",
        )
    if elsewhere:
        raise UsageError(
            f"the files of {experiment} are not in {out_dir}",
            "name their directory with --out DIR",
        )
    directory = out_dir / experiment
    return Target(
        f"results of {experiment}", tree_bytes(directory), lambda: _delete(out_dir, experiment)
    )


def _delete(out_dir: Path, experiment: str) -> None:
    """Delete the record, then the files, so that an interruption leaves no broken experiment."""
    from perfrunner.experiment.outdir import OutDirLock

    with OutDirLock(out_dir):
        with options.open_results(out_dir) as store:
            store.delete(experiment)
        _remove_tree(out_dir / experiment)


def _remove_tree(directory: Path) -> None:
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(f"{directory} cannot be removed: {error.strerror}") from error
