"""Attribute failures to variants, create results of trials that did not run, and tear down trials."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from perfrunner.domain import TrialKey, TrialStatus
from perfrunner.errors import PerfrunnerError, TrialError
from perfrunner.experiment.outdir import disk_is_full
from perfrunner.experiment.trial.placement import TrialResult, fresh_directory, trial_name
from perfrunner.hosts.transport import LinkLost, Transport
from perfrunner.measure.turns import failed_variant


class VariantError(TrialError):
    """An error caused by one variant of a group (`variant` is its index)."""

    def __init__(self, variant: int, message: str) -> None:
        super().__init__(message)
        self.variant = variant


@contextlib.contextmanager
def attributed_to(variant: int) -> Iterator[None]:
    """Attribute every TrialError raised inside to this variant."""
    try:
        yield
    except TrialError as error:
        raise VariantError(variant, str(error)) from error


def attribute_to_dead_engine(
    error: TrialError, find_dead: Callable[[], Mapping[int, str]]
) -> TrialError:
    """Return `error`, attributed to the first variant whose engine died, if any.

    `find_dead` returns the ends of the logs of dead engines, by variant.
    """
    if isinstance(error, VariantError):
        return error
    dead = find_dead()
    if not dead:
        return error
    variant, message = next(iter(dead.items()))
    return VariantError(variant, message)


def attribute_by_report(
    host: Transport, report: str, variants: int, error: TrialError
) -> TrialError:
    """Return the error of a load process, attributed to the variant that its report names, if any.

    `report` is the path of the report on the host; the process drives all variants of a group.
    """
    variant, message = failed_variant(host.read_text(report) if host.exists(report) else "")
    if variant is None or not 0 <= variant < variants:
        return error
    return VariantError(variant, f"{error} ({message})" if message else str(error))


def attribute_failure(
    error: PerfrunnerError, variants: Sequence[str]
) -> list[tuple[TrialStatus, str]]:
    """Return the status and reason of each variant's trial after an error, in the order of `variants`.

    The variant that caused the error failed, and the others of the group are discarded. If the error is attributed
    to no variant, all of them failed.
    """
    if not isinstance(error, VariantError) or len(variants) == 1:
        return [("failed", str(error))] * len(variants)
    culprit = variants[error.variant]
    return [
        ("failed", str(error))
        if variant == error.variant
        else ("discarded", f"{culprit}, in the same group, failed: {error}")
        for variant in range(len(variants))
    ]


def not_run(task: TrialKey, reason: str, build_error: str | None, trials_dir: Path) -> TrialResult:
    """Return a failed result for a trial that did not run; keep the build's error in its directory, if any."""
    now = datetime.now(timezone.utc)
    directory = fresh_directory(trials_dir / trial_name(task))
    if build_error is not None:
        (directory / "build-error.log").write_text(build_error + "\n", encoding="utf-8")
    return TrialResult(
        task=task,
        status="failed",
        reason=reason,
        started_at=now,
        finished_at=now,
        directory=directory,
    )


def cut_off(task: TrialKey, reason: str, started: datetime, trials_dir: Path) -> TrialResult:
    """Return a discarded result for a trial cut off by a lost connection; files fetched before remain."""
    directory = trials_dir / trial_name(task)
    directory.mkdir(parents=True, exist_ok=True)
    now = datetime.now(timezone.utc)
    return TrialResult(task, "discarded", reason, started, now, directory)


KEPT_SUFFIXES = (".log", ".json", ".jsonl", ".out")


def teardown(
    *,
    abandon: Callable[[], None],
    script: Callable[[], str],
    directories: Sequence[Path],
    remote: Sequence[tuple[Transport, str, Path]],
) -> None:
    """End a trial: stop its processes, write reproduce.sh, fetch the logs, remove the remote directories.

    Every step is tried even if an earlier one failed; then the first failure is raised.

    remote: (host, remote directory, local directory for its logs).
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
    """Run all steps in order, even if one fails; raise the first failure at the end."""
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
    """Fetch the text files of the processes (logs, JSON, samples), not the data of the engine."""
    listed = host.run(["find", remote, "-maxdepth", "1", "-type", "f", "-size", "+0"], check=False)
    for path in listed.stdout.splitlines():
        local = directory / Path(path).name
        if Path(path).suffix in KEPT_SUFFIXES and not local.exists():
            try:
                host.get_file(path, local)
            except PerfrunnerError as error:
                if disk_is_full(error) or isinstance(error, LinkLost):
                    raise
