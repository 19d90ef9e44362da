"""Print the progress of a run to stderr.

On a terminal one line is rewritten (run_line.py); otherwise there is one line for each trial. Both
listen to the runner's events (perfrunner.experiment.events) and report the same things. Provisional
estimates are only shown: they never stop a run.
"""

from __future__ import annotations

import contextlib
import os
from typing import TypeAlias

from rich.console import Console
from rich.markup import escape

from perfrunner.cli.output import duration, new_console
from perfrunner.cli.run_line import MARK, RunLine, change_so_far
from perfrunner.domain import Case, trial_place
from perfrunner.errors import EXIT_INTERRUPTED
from perfrunner.experiment import events as ev

EMPTY = '""'  # the value of a setting that is empty
PROGRESS_EVERY_LINES = 20  # of a build's output, every 20th line is shown in a log

Closable: TypeAlias = "LineProgress | BarProgress | QuietProgress"


def progress_listener(quiet: bool) -> Closable:
    """Return the listener that fits stderr: quiet, a bar, or lines. Use it as a context manager."""
    console = new_console(stderr=True)
    if quiet:
        return QuietProgress(console)
    if console.is_terminal and os.environ.get("TERM") != "dumb":
        return BarProgress(console)
    return LineProgress(new_console(stderr=True, width=1000, no_color=True))


class QuietProgress:
    """A listener that prints only warnings, failures and how to resume."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def __enter__(self) -> Closable:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_event(self, event: ev.Event) -> None:
        """Print an event that must not be missed."""
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
                    f"interrupted ({escape(signal_name)}); resume with: {escape(resume_command)}"
                )
            case _:
                pass

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a closed terminal must not end a run
            self.console.print(text)

    def _warn(self, text: str) -> None:
        self._say(f"[yellow]warning:[/] {escape(text)}")


class LineProgress(QuietProgress):
    """A listener that prints one plain line for each build, settings check and trial."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._left: float | None = None
        self._blocks = 0
        self._lines = 0

    def on_event(self, event: ev.Event) -> None:
        """Print the line of an event, if it has one."""
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
            case ev.SettingsCheckPassed(variant, host, settings):
                shown = ", ".join(f"{k}={v or EMPTY}" for k, v in sorted(settings.items()))
                shown = shown or "no settings"
                self._say(f"settings check  {escape(variant)} on {escape(host)}: {escape(shown)}")
            case ev.Eta(seconds_left):
                self._left = seconds_left
            case ev.BlockStarted(_, blocks):
                self._blocks = blocks
            case ev.TrialFinished():
                left = "" if self._left is None else f"  left {duration(self._left)}"
                self._say(f"{trial_line(event, self._blocks)}{left}")
            case ev.BlockDiscarded():
                self._say(discarded_line(event))
            case ev.Provisional():
                self._show_estimates(event)
            case ev.Precision():
                self._say(precision_line(event))
            case ev.SamplingCheck():
                self._say(sampling_check_line(event))
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

    def _show_estimates(self, event: ev.Provisional) -> None:
        self._say(provisional_line(event))


class BarProgress(LineProgress):
    """A listener that rewrites the line of the run below the lines of finished steps."""

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
        """Update the line of the run, and print the line of an event that has one."""
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
                line.variants = (event.variant, *event.others)
                line.case, line.phase = (event.workload, event.bucket), "start"
            case ev.SamplingCheck():
                line.variants, line.doing, line.phase = (), "sampling overhead", ""
            case ev.TrialPhase(phase):
                line.phase = phase
            case ev.TrialFinished():
                line.done, line.total = event.number, event.total
            case ev.Eta(seconds, finished, total):
                line.done, line.total, line.phase = finished, total, ""
                line.set_left(seconds)
            case ev.Provisional():
                line.set_estimates(event)
            case _:
                pass

    def _show_estimates(self, event: ev.Provisional) -> None:
        del event  # the line of the run shows them

    def _build_started(self, variant: str) -> None:
        self.line.doing, self.line.phase = f"build {variant}", ""

    def _build_line(self, variant: str, line: str) -> None:
        del variant
        self.line.phase = line.strip()[:70]

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._live.console.print(text)


def plan_line(event: ev.PlanReady) -> str:
    """Return the first line of a run."""
    text = (
        f"plan   {escape(event.name)}: {len(event.variants)} variants x {len(event.cases)} cases x "
        f"{event.blocks} blocks = {event.trials_total} trials (seed {event.seed})"
    )
    return f"{text}; {event.trials_done} done before" if event.resumed else text


def trial_line(event: ev.TrialFinished, blocks: int) -> str:
    """Return the line of a finished trial: block, names, status and throughput."""
    names = escape(trial_place(event.variant, event.bucket, event.workload))
    text = f"[{event.number}/{event.total}]"
    again = f" attempt {event.attempt}" if event.attempt > 1 else ""
    line = f"trial  {escape(text)} block {event.block}/{blocks}{again}  {names}  {duration(event.seconds)}"
    if event.status != "ok":
        return f"{line}  [red]{event.status}[/]: {escape(event.reason)}"
    rate = event.metrics.get("ops_per_s")
    return line if rate is None else f"{line}  {si(rate)} ops/s"


def discarded_line(event: ev.BlockDiscarded) -> str:
    """Return the line of a discarded case of a block."""
    then = "repeated at the end" if event.redo else "not repeated: too many discarded"
    where = escape(str(Case(event.workload, event.bucket)))
    return (
        f"[yellow]discarded[/]   block {event.block} {where}: {escape(event.variant)}: "
        f"{escape(event.reason)}; {then} ({event.discarded} of at most {event.max_discarded})"
    )


def provisional_line(event: ev.Provisional) -> str:
    """Return the estimates of a case after a block, marked as provisional."""
    blocks = max(estimate.blocks for estimate in event.estimates)
    shown = "; ".join(f"{e.variant} {change_so_far(e, event.metric)}" for e in event.estimates)
    return f"{MARK} {escape(f'{event.case}, {blocks} blocks, provisional {event.metric}: {shown}')}"


def precision_line(event: ev.Precision) -> str:
    """Return the line that compares the precision reached after a block with the wanted one."""
    now = "unknown" if event.half_width is None else f"{100 * event.half_width:.2f} %"
    return (
        f"width  {escape(str(event.case))}, {event.clean} clean blocks of {event.block}: ±{now}, "
        f"wanted ±{100 * event.wanted:.2f} %: {event.decision}"
    )


def sampling_check_line(event: ev.SamplingCheck) -> str:
    """Return the line of the sampling check, which follows the blocks."""
    trials = 2 * len(event.cases)
    return f"check  measuring sampling overhead: {escape(event.variant)}, {trials} trials"


def finished_line(event: ev.RunFinished) -> str:
    """Return the last line of a run."""
    label = "stopped " if event.exit_code == EXIT_INTERRUPTED else "done   "
    return (
        f"{label}{escape(event.experiment_id)}: {event.ok} trials ok, {event.discarded} discarded, "
        f"{event.failed} failed in {duration(event.seconds)}"
    )


def si(number: float) -> str:
    """Format a number with an SI prefix: 1840000 is `1.84 M`."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= factor:
            return f"{number / factor:.2f}{unit}"
    return f"{number:.0f}"
