"""Progress of a run on stderr: a line that is rewritten on a terminal (run_line.py), one line a trial otherwise.

Both listen to the runner's events (perfrunner.run.events) and say the same things; only the trial in flight is drawn
differently. Provisional numbers are shown as they come; nothing stops a run because of them.
"""

from __future__ import annotations

import contextlib
import os
from typing import TypeAlias

from rich.console import Console
from rich.markup import escape

from perfrunner.cli.output import duration
from perfrunner.cli.run_line import MARK, RunLine, change_so_far
from perfrunner.errors import EXIT_INTERRUPTED
from perfrunner.run import events as ev

PROGRESS_EVERY_LINES = 20  # lines of a build that pass between two shown ones in a log

Closable: TypeAlias = "LineProgress | BarProgress | QuietProgress"


def progress_listener(quiet: bool) -> Closable:
    """What suits stderr: nothing, a bar, or lines. Use it as a context manager."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        return QuietProgress(console)
    if console.is_terminal and os.environ.get("TERM") != "dumb":
        return BarProgress(console)
    return LineProgress(Console(stderr=True, highlight=False, width=1000, no_color=True))


class QuietProgress:
    """Warnings, failures and the resume line only."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def __enter__(self) -> Closable:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_event(self, event: ev.Event) -> None:
        """Print what must not be missed."""
        match event:
            case ev.Warned(message, remedy):
                self._warn(f"{message} ({remedy})" if remedy else message)
            case ev.BuildFailed(variant, message):
                self._say(f"[red]build[/] {escape(variant)} failed: {escape(message)}")
            case ev.HostReady(host, warnings=warnings):
                for what, remedy in warnings:
                    self._warn(f"{host}: {what} ({remedy})" if remedy else f"{host}: {what}")
            case ev.Interrupted(signal_name, resume_command):
                self._say(
                    f"interrupted ({escape(signal_name)}); go on with: {escape(resume_command)}"
                )
            case _:
                pass

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone ends no run
            self.console.print(text)

    def _warn(self, text: str) -> None:
        self._say(f"[yellow]warning:[/] {escape(text)}")


class LineProgress(QuietProgress):
    """One plain line for each build, proof and trial: for logs and cron."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._left: float | None = None
        self._blocks = 0
        self._lines = 0

    def on_event(self, event: ev.Event) -> None:
        """Print the event, where it is worth a line."""
        super().on_event(event)
        match event:
            case ev.PlanReady():
                self._blocks = event.blocks
                self._say(plan_line(event))
                self._say(f"       results in {escape(str(event.directory))}")
            case ev.BuildStarted(variant):
                self._build_started(variant)
            case ev.BuildProgress(variant, line):
                self._build_line(variant, line)
            case ev.BuildFinished(variant, build_id, cached, seconds):
                how = "cached" if cached else duration(seconds)
                self._say(f"build  {escape(variant)} {how} ({build_id})")
            case ev.HostReady(host, role):
                self._say(f"host   {escape(host)} ready ({role})")
            case ev.ProofPassed(variant, host, settings):
                shown = ", ".join(f"{k}={v}" for k, v in sorted(settings.items())) or "no settings"
                self._say(f"proof  {escape(variant)} on {escape(host)}: {escape(shown)}")
            case ev.Eta(seconds_left):
                self._left = seconds_left
            case ev.BlockStarted(_, blocks):
                self._blocks = blocks
            case ev.TrialFinished():
                self._trial_finished(event)
            case ev.BlockVoid():
                self._say(void_line(event))
            case ev.Provisional():
                self._tell_estimates(event)
            case ev.Precision():
                self._say(precision_line(event))
            case ev.SamplingCheck() | ev.Profiling():
                self._say(afterwards_line(event))
            case ev.RunFinished():
                self._say(finished_line(event))
            case _:
                pass

    def _build_started(self, variant: str) -> None:
        self._lines = 0
        self._say(f"build  {escape(variant)} ...")

    def _build_line(self, variant: str, line: str) -> None:
        self._lines += 1
        if self._lines % PROGRESS_EVERY_LINES == 0:
            self._say(f"build  {escape(variant)}: {escape(line)}")

    def _tell_estimates(self, event: ev.Provisional) -> None:
        self._say(provisional_line(event))

    def _trial_finished(self, event: ev.TrialFinished) -> None:
        self._say(f"{trial_line(event, self._blocks)}{left_text(self._left)}")


class BarProgress(LineProgress):
    """The run's line below the lines of what is done."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        from rich.live import Live

        self.line = RunLine()
        self._live = Live(self.line, console=console, transient=True, refresh_per_second=2)

    def __enter__(self) -> Closable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()

    def on_event(self, event: ev.Event) -> None:
        """Renew the line, and print the lines that stay."""
        super().on_event(event)
        line = self.line
        match event:
            case ev.PlanReady():
                line.done, line.total, line.names = (
                    event.trials_done,
                    event.trials_total,
                    event.variants,
                )
                line.doing = "hosts"
            case ev.BlockStarted(_, blocks):
                line.blocks = blocks
            case ev.TrialStarted():
                line.block, line.blocks = event.block, max(line.blocks, event.block)
                line.arms = (event.variant, *event.beside)
                line.cell, line.phase = (event.workload, event.bucket), "start"
            case ev.SamplingCheck():
                line.arms, line.doing, line.phase = (), "what sampling costs", ""
            case ev.Profiling():
                line.arms, line.doing, line.phase = (), "profiles", ""
            case ev.TrialPhase(phase):
                line.phase = phase
            case ev.TrialFinished():
                line.done, line.total = event.number, event.total
            case ev.Eta(seconds, finished, total):
                line.done, line.total, line.phase = finished, total, ""
                line.tell_left(seconds)
            case ev.Provisional():
                line.tell_estimates(event)
            case _:
                pass

    def _tell_estimates(self, event: ev.Provisional) -> None:
        del event  # the line has them

    def _build_started(self, variant: str) -> None:
        self.line.doing, self.line.phase = f"build {variant}", ""

    def _build_line(self, variant: str, line: str) -> None:
        del variant
        self.line.phase = line.strip()[:70]

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._live.console.print(text)


def plan_line(event: ev.PlanReady) -> str:
    """The first line of a run."""
    text = (
        f"plan   {escape(event.name)}: {len(event.variants)} variants x {len(event.cells)} cells x "
        f"{event.blocks} blocks = {event.trials_total} trials (seed {event.seed})"
    )
    return f"{text}; {event.trials_done} done before" if event.resumed else text


def trial_line(event: ev.TrialFinished, blocks: int) -> str:
    """One trial: where it belongs, how it ended, its throughput."""
    names = escape(f"{event.variant} · {event.bucket} · {event.workload}")
    text = f"[{event.number}/{event.total}]"
    again = f" attempt {event.attempt}" if event.attempt > 1 else ""
    line = f"trial  {escape(text)} block {event.block}/{blocks}{again}  {names}  {duration(event.seconds)}"
    if event.status != "ok":
        return f"{line}  [red]{event.status}[/]: {escape(event.reason)}"
    rate = event.metrics.get("ops_per_s")
    return line if rate is None else f"{line}  {si(rate)} ops/s"


def void_line(event: ev.BlockVoid) -> str:
    """A cell of a block that does not count."""
    then = "it is redone at the end" if event.redo else "it is not redone: too many voids"
    where = escape(f"{event.workload} · {event.bucket}")
    return (
        f"[yellow]void[/]   block {event.block} {where}: {escape(event.variant)}: "
        f"{escape(event.reason)}; {then} ({event.voids} of at most {event.max_voids})"
    )


def provisional_line(event: ev.Provisional) -> str:
    """A cell's estimates after a whole block: marked, for they are no result."""
    cell = " · ".join(part for part in event.cell if part != "-")
    blocks = max(estimate.blocks for estimate in event.estimates)
    shown = "; ".join(f"{e.variant} {change_so_far(e, event.metric)}" for e in event.estimates)
    return f"{MARK} {escape(f'{cell}, {blocks} blocks, provisional {event.metric}: {shown}')}"


def precision_line(event: ev.Precision) -> str:
    """Where the wanted precision stands after a block."""
    now = "not known yet" if event.half_width is None else f"{100 * event.half_width:.2f} %"
    cell = " · ".join(part for part in event.cell if part != "-")
    return (
        f"width  {escape(cell)}, {event.clean} clean blocks of {event.block}: ±{now}, "
        f"wanted ±{100 * event.wanted:.2f} %: {event.decision}"
    )


def afterwards_line(event: ev.SamplingCheck | ev.Profiling) -> str:
    """What begins behind the blocks."""
    cells = len(event.cells)
    if isinstance(event, ev.Profiling):
        return f"perf   where the time goes, not measured: {len(event.variants)} variants in {cells} cells"
    what = f"{escape(event.variant)} with and without samplers"
    return f"check  what sampling costs: {what}, {2 * cells} trials"


def finished_line(event: ev.RunFinished) -> str:
    """The last line of a run."""
    word = "stopped " if event.exit_code == EXIT_INTERRUPTED else "done   "
    return (
        f"{word}{escape(event.experiment_id)}: {event.ok} trials ok, {event.void} void, "
        f"{event.failed} failed in {duration(event.seconds)}"
    )


def left_text(seconds: float | None) -> str:
    """The time left, where it is known."""
    return "" if seconds is None else f"  left {duration(seconds)}"


def si(number: float) -> str:
    """1840000 as `1.84 M`."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= factor:
            return f"{number / factor:.2f}{unit}"
    return f"{number:.0f}"
