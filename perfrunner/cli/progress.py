"""Progress of a run on stderr: a bar on a terminal, one line a trial otherwise.

Both listen to the runner's events (perfrunner.run.events) and say the same things; only the trial in flight is drawn
differently. Provisional numbers are shown as they come; nothing stops a run because of them.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.markup import escape

from perfrunner.cli.output import duration
from perfrunner.errors import EXIT_INTERRUPTED
from perfrunner.run import events as ev

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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
            case ev.Precision():
                self._say(precision_line(event))
            case ev.SamplingCheck(variant, cells):
                self._say(
                    f"check  what sampling costs: {escape(variant)} with and without samplers, {2 * len(cells)} trials"
                )
            case ev.Profiling(variants, cells):
                self._say(
                    f"perf   where the time goes, not measured: {len(variants)} variants in {len(cells)} cells"
                )
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

    def _trial_finished(self, event: ev.TrialFinished) -> None:
        self._say(f"{trial_line(event, self._blocks)}{left_text(self._left)}")


class BarProgress(LineProgress):
    """A bar with the trial in flight below the lines of what is done."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bar: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            console=console,
            transient=True,
        )
        self._task: TaskID = self._bar.add_task("starting", total=None, status="")
        self._rate = ""
        self._trial = ""

    def __enter__(self) -> Closable:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._bar.stop()

    def on_event(self, event: ev.Event) -> None:
        """Move the bar, and print the lines that stay."""
        super().on_event(event)
        match event:
            case ev.PlanReady():
                self._bar.update(self._task, total=event.trials_total, completed=event.trials_done)
            case ev.TrialStarted():
                arms = f"{1 + len(event.beside)} arms" if event.beside else event.variant
                self._trial = (
                    f"block {event.block}/{self._blocks}  "
                    f"{escape(f'{arms} · {event.bucket} · {event.workload}')}"
                )
                self._show("start")
            case ev.SamplingCheck():
                self._trial = "what sampling costs"
                self._left = None
            case ev.Profiling():
                self._trial = "profiles"
                self._left = None
            case ev.TrialPhase(phase):
                self._show(phase)
            case ev.TrialFinished():
                rate = event.metrics.get("ops_per_s")
                self._rate = "" if rate is None else f"{si(rate)} ops/s"
                self._bar.update(self._task, total=event.total, completed=event.number)
            case ev.Eta(_, finished, total):
                self._bar.update(self._task, total=total, completed=finished)
                self._show("")
            case _:
                pass

    def _build_started(self, variant: str) -> None:
        self._bar.update(self._task, description=f"build  {escape(variant)}", status="")

    def _build_line(self, variant: str, line: str) -> None:
        del variant
        self._bar.update(self._task, status=escape(line[:70]))

    def _show(self, phase: str) -> None:
        last = f"last {self._rate}" if self._rate else ""
        left = f"left {duration(self._left)}" if self._left is not None else ""
        status = "  ".join(filter(None, (escape(phase), last, left)))
        self._bar.update(self._task, description=self._trial or "run", status=status)

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._bar.console.print(text)


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


def precision_line(event: ev.Precision) -> str:
    """Where the wanted precision stands after a block."""
    now = "not known yet" if event.half_width is None else f"{100 * event.half_width:.2f} %"
    cell = " · ".join(part for part in event.cell if part != "-")
    return (
        f"width  {escape(cell)}, {event.clean} clean blocks of {event.block}: ±{now}, "
        f"wanted ±{100 * event.wanted:.2f} %: {event.decision}"
    )


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
