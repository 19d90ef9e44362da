"""The way out of a trial, however it ended: stop what runs, keep what it left, clear the hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from perfrunner.cluster.transport import LinkLost, Transport
from perfrunner.errors import PerfrunnerError
from perfrunner.run.diskspace import disk_is_full

KEPT_SUFFIXES = (".log", ".json", ".jsonl", ".out")


def leave(
    *,
    abandon: Callable[[], None],
    script: Callable[[], str],
    directories: Sequence[Path],
    remote: Sequence[tuple[Transport, str, Path]],
) -> None:
    """Each step is tried although one before it failed; the first failure of all is what is raised.

    `remote` are (host, directory there, where its logs go here); they are fetched and removed, in this order.
    """
    with contextlib.ExitStack() as stack:  # runs in reverse order
        for host, path, _ in remote:
            stack.callback(host.remove_tree, path)
        for host, path, directory in remote:
            stack.callback(_fetch_logs, host, path, directory)
        for directory in directories:
            stack.callback(_write_script, directory, script)
        stack.callback(abandon)


def try_each(steps: Iterable[Callable[[], object]]) -> None:
    """In this order, each although one before it failed; the first failure is raised at the end."""
    first: PerfrunnerError | None = None
    for step in steps:
        try:
            step()
        except PerfrunnerError as error:
            first = first or error
    if first is not None:
        raise first


def _write_script(directory: Path, script: Callable[[], str]) -> None:
    (directory / "reproduce.sh").write_text(script(), "utf-8")


def _fetch_logs(host: Transport, remote: str, directory: Path) -> None:
    """The text that the processes left (logs, JSON, samples), not the engine's data."""
    listed = host.run(["find", remote, "-maxdepth", "1", "-type", "f", "-size", "+0"], check=False)
    for path in listed.stdout.splitlines():
        local = directory / Path(path).name
        if Path(path).suffix in KEPT_SUFFIXES and not local.exists():
            try:
                host.get_file(path, local)
            except PerfrunnerError as error:
                if disk_is_full(error) or isinstance(error, LinkLost):
                    raise
