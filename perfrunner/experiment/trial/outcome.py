"""Decide the outcome of trials: judge measured ones, attribute failures to variants, and tear trials down.

The rules that discard a trial are fixed in advance and do not depend on the variant: `discarded_reasons` of the trial
itself, `group_reasons` of its group, and `changed_facts` of the hosts. docs/explanation/statistics.md lists them.
`attribute_failure` discards the other trials of a group in which one failed, and `cut_off` those that a lost
connection interrupted.

PauseWatch notices that this machine stood still during a trial: suspended, all processes stopped, or a paused virtual
machine. The slice during which that happens seems to belong to a slow variant: 8 s of it divided the total throughput
of one of two equal variants by 18 in that block. The rule knows of no variant, because it looks at a thread that only
waits.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from perfrunner.domain import STABLE_FACTS, TrialKey, TrialStatus
from perfrunner.errors import HostError, PerfrunnerError, TrialError
from perfrunner.experiment.outdir import disk_fails
from perfrunner.experiment.trial.placement import TrialResult, fresh_directory, trial_name
from perfrunner.hosts.process import LinkLost
from perfrunner.hosts.transport import Transport
from perfrunner.measure.client import quoted
from perfrunner.measure.slices import WAITS_FACT, failed_variant
from perfrunner.spec.model import Limits
from perfrunner.workloads.bench import Measured

CPU_PRESSURE = "/proc/pressure/cpu"
_SOME = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Pressure:
    """A reading of CPU pressure: the local monotonic time, and by host the µs in which some task waited, since boot."""

    at: float
    waited_us: dict[str, int]

    def share_since(self, before: Pressure) -> dict[str, float]:
        """Return, by host, the share of the time since `before`; hosts without the figure are omitted."""
        span = 1e6 * (self.at - before.at)
        both = self.waited_us.keys() & before.waited_us.keys()
        return {
            name: round((self.waited_us[name] - before.waited_us[name]) / span, 4)
            for name in sorted(both)
            if span > 0
        }


def read_pressure(hosts: Iterable[Transport]) -> Pressure:
    """Read the CPU pressure of all hosts that report it. Raises LinkLost if a host is unreachable."""
    waited_us = {}
    for host in hosts:
        try:
            text = host.read_text(CPU_PRESSURE)
        except LinkLost:
            raise
        except HostError:  # no such file: the kernel has no PSI
            continue
        if match := _SOME.search(text):
            waited_us[host.name] = int(match[1])
    return Pressure(time.monotonic(), waited_us)


def judge(
    measurement: Measured, limits: Limits, common: Sequence[str]
) -> tuple[TrialStatus, str, Measured]:
    """Return the status of a measurement, the reason, and the measurement without non-finite metrics.

    `common` are the reasons to discard all trials of the group.
    """
    metrics = measurement.metrics
    if odd := [name for name, value in metrics.items() if not math.isfinite(value)]:
        finite = {name: value for name, value in metrics.items() if name not in odd}
        text = f"{', '.join(odd)}: not a finite number"
        return ("failed", text, replace(measurement, metrics=finite))
    reasons = [*discarded_reasons(measurement, limits), *common]
    return ("discarded" if reasons else "ok", "; ".join(reasons), measurement)


def discarded_reasons(measured: Measured, limits: Limits) -> list[str]:
    """Return the reasons to discard a trial; empty if it counts."""
    reasons = []
    report = measured.report
    phases = [] if report is None else [p for p in (report.prepare, report.drive) if p is not None]
    misses = sum(phase.misses for phase in phases)
    if misses > limits.misses:
        reasons.append(f"{misses} GETs of stored items missed (limits.misses: {limits.misses})")
    errors: dict[str, int] = {}
    for phase in phases:
        for kind, count in phase.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    total = sum(errors.values())
    if total > limits.errors:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()) if count)
        refusal = next((phase.refusal for phase in phases if phase.refusal), "")
        failed = f"{total} operations failed (limits.errors: {limits.errors}): {kinds}"
        reasons.append(failed + quoted(refusal))
    if measured.check is not None and not measured.check.agrees:
        reasons.append(str(measured.check))
    return reasons


def group_reasons(variants: Sequence[Measured], limits: Limits) -> list[str]:
    """Return the reasons to discard all trials of a unit; empty if they count or the load reports no waits."""
    reported = [variant.facts.get(WAITS_FACT) for variant in variants]
    shares = [share for share in reported if isinstance(share, float)]
    if len(shares) < len(variants) or not shares:
        return []
    waits = sum(shares) / len(shares)
    if waits <= limits.client_waits:
        return []
    limit = f"limit {limits.client_waits:.0%}"
    return [
        f"the host is busy: the load waited for a CPU in {waits:.0%} of all variants' slices ({limit})"
    ]


def changed_facts(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the changes of host facts that must stay the same during an experiment (STABLE_FACTS)."""
    return [
        f"{key} changed from {before[key]} to {now[key]}"
        for key in sorted(before.keys() & now.keys() & set(STABLE_FACTS))
        if before[key] != now[key]
    ]


class VariantError(TrialError):
    """An error caused by one variant of a group (`variant` is its index)."""

    def __init__(self, variant: int, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.variant = variant


@contextlib.contextmanager
def attributed_to(variant: int) -> Iterator[None]:
    """Attribute every TrialError raised inside to this variant."""
    try:
        yield
    except TrialError as error:
        raise VariantError(variant, str(error), error.hint) from error


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
    known = message in str(error)  # it is also the end of the process' log
    return VariantError(variant, str(error) if known else f"{error} ({message})", error.hint)


def attribute_failure(
    error: PerfrunnerError, variants: Sequence[str]
) -> list[tuple[TrialStatus, str]]:
    """Return the status and reason of each variant's trial after an error, in the order of `variants`.

    The variant that caused the error failed, and the others of the group are discarded. If the error is attributed
    to no variant, all of them failed.
    """
    reason = f"{error} ({error.hint})" if error.hint else str(error)
    if not isinstance(error, VariantError) or len(variants) == 1:
        return [("failed", reason)] * len(variants)
    culprit = variants[error.variant]
    return [
        ("failed", reason)
        if variant == error.variant
        else ("discarded", f"{culprit}, in the same group, failed: {error}")
        for variant in range(len(variants))
    ]


def not_run(task: TrialKey, reason: str, build_error: str | None, trials_dir: Path) -> TrialResult:
    """Return a failed result for a trial that did not run; keep the build's error in its directory, if any."""
    now = datetime.now(timezone.utc)
    directory = fresh_directory(trials_dir / trial_name(task))
    if build_error is not None:
        (directory / "build-error.log").write_text(build_error + "\n", "utf-8", "surrogateescape")
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
    (directory / "reproduce.sh").write_text(script(), "utf-8", "surrogateescape")


def _fetch_logs(host: Transport, remote: str, directory: Path) -> None:
    """Fetch the text files of the processes (logs, JSON, samples), not the data of the engine."""
    listed = host.run(["find", remote, "-maxdepth", "1", "-type", "f", "-size", "+0"], check=False)
    for path in listed.stdout.splitlines():
        local = directory / Path(path).name
        if Path(path).suffix in KEPT_SUFFIXES and not local.exists():
            try:
                host.get_file(path, local)
            except PerfrunnerError as error:
                if disk_fails(error) or isinstance(error, LinkLost):
                    raise


LONGEST_PAUSE_S = 5.0  # a busy host may keep a thread from the CPU for a second or two
PAUSE_TICK_S = 0.25
# It goes on while the machine sleeps. macOS does not have it.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


class PauseWatch:
    """Measures how late a thread is woken that only waits."""

    def __init__(self, clock: Callable[[], float] = _now) -> None:
        self._clock = clock
        self._longest_s = 0.0

    def watch(self, wait: Callable[[float], bool]) -> None:
        """Measure the time between wake-ups, until `wait` returns true."""
        before, ended = self._clock(), False
        while not ended:
            ended = wait(PAUSE_TICK_S)
            now = self._clock()
            self._longest_s = max(self._longest_s, now - before)
            before = now

    @property
    def reasons(self) -> Sequence[str]:
        """Return the reason to discard all trials of the unit; empty if the machine did not stand still."""
        if self._longest_s < LONGEST_PAUSE_S:
            return []
        seconds = f"{self._longest_s:.0f} s"
        causes = "it was suspended, perfrunner was stopped, or its virtual machine was paused"
        return [f"this machine stood still for {seconds}: {causes}"]


@contextlib.contextmanager
def watch_pauses(watch: PauseWatch) -> Iterator[None]:
    """Watch for pauses from now on, in a thread that ends with the context."""
    ended = threading.Event()
    thread = threading.Thread(target=watch.watch, args=(ended.wait,), daemon=True, name="pauses")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
