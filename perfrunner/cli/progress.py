"""Print the progress of a run to stderr.

On a terminal one line is rewritten: position, time left, and provisional estimates. It always fits the width: less
important parts are dropped first, then names are shortened, but never so much that two variants get the same name.
Elsewhere there is one line for each trial. Both listen to the runner's events (perfrunner.experiment.events) and
report the same things. Provisional estimates are only shown: they never stop a run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from perfrunner.cli.output import duration, new_console
from perfrunner.domain import Case, trial_place
from perfrunner.errors import EXIT_INTERRUPTED
from perfrunner.experiment import events as ev
from perfrunner.report.numbers import LEAST_NAME, change, scale_of, short_names
from perfrunner.text import count_of, product_of

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult


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
        f"plan   {escape(event.name)}: {count_of(event.trials_total, 'trial')}"
        f" ({product_of(len(event.variants), len(event.cases), event.blocks)}; seed {event.seed})"
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
    redo = f"redo {event.redos} of at most {event.max_discarded}"
    then = f"repeated at the end ({redo})" if event.redo else "not repeated"
    where = escape(str(Case(event.workload, event.bucket)))
    return (
        f"[yellow]discarded[/]   block {event.block} {where}: {escape(event.variant)}: "
        f"{escape(event.reason)}; {then}"
    )


def provisional_line(event: ev.Provisional) -> str:
    """Return the estimates of a case after a block, marked as provisional."""
    blocks = count_of(max(estimate.blocks for estimate in event.estimates), "block")
    shown = "; ".join(f"{e.variant} {change_so_far(e, event.metric)}" for e in event.estimates)
    return f"{MARK} {escape(f'{event.case}, {blocks}, provisional {event.metric}: {shown}')}"


def precision_line(event: ev.Precision) -> str:
    """Return the line that compares the precision reached after a block with the wanted one."""
    now = "unknown" if event.half_width is None else f"{100 * event.half_width:.2f} %"
    return (
        f"width  {escape(str(event.case))}, {event.clean} clean blocks of {event.block}: ±{now}, "
        f"wanted ±{100 * event.wanted:.2f} %: {event.decision}"
    )


def sampling_check_line(event: ev.SamplingCheck) -> str:
    """Return the line of the sampling check, which follows the blocks."""
    return f"check  measuring sampling overhead: {escape(event.variant)}, {event.trials} trials"


def finished_line(event: ev.RunFinished) -> str:
    """Return the last line of a run."""
    label = "stopped " if event.exit_code == EXIT_INTERRUPTED else "done   "
    return (
        f"{label}{escape(event.experiment_id)}: {count_of(event.ok, 'trial')} ok, {event.discarded} discarded, "
        f"{event.failed} failed in {duration(event.seconds)}"
    )


def si(number: float) -> str:
    """Format a number with an SI prefix: 1840000 is `1.84 M`."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= factor:
            return f"{number / factor:.2f}{unit}"
    return f"{number:.0f}"


GAP = "  "
MARK = "so far"  # marks an estimate as provisional
THROUGHPUT = "ops_per_s"  # the metric that is shown without its name
WIDE, NARROW = (48, 24), (14, 9, 6)  # columns of a name
BAR, ROOM_FOR_BAR = 10, 100
ROTATION_S = 3.0  # how long each variant's estimate is shown if there is no space for all


@dataclass
class RunLine:
    """The current state of a run, which rich draws as one line.

    `doing` names the current step while no trial runs; `names` are those of all variants.
    """

    clock: Callable[[], float] = time.monotonic
    block: int = 0
    blocks: int = 0
    done: int = 0
    total: int = 0
    doing: str = "starting"
    phase: str = ""
    variants: tuple[str, ...] = ()
    case: tuple[str, str] = ("", "")
    estimates: dict[tuple[str, str], ev.Provisional] = field(default_factory=dict)  # by case
    names: tuple[str, ...] = ()
    _left: float | None = field(default=None, init=False)
    _left_at: float = field(default=0.0, init=False)

    def set_left(self, seconds: float | None) -> None:
        """Set the time left, from now."""
        self._left, self._left_at = seconds, self.clock()

    @property
    def left(self) -> float | None:
        """Seconds left, which count down between two calls of `set_left`."""
        return None if self._left is None else max(0.0, self._left - (self.clock() - self._left_at))

    def set_estimates(self, estimates: ev.Provisional) -> None:
        """Replace the estimates of a case."""
        self.estimates[estimates.case] = estimates

    def text(self, width: int) -> str:
        """Return the longest form that fits `width` columns."""
        line = ""
        for parts in self._forms():
            line = GAP.join(filter(None, parts))
            if cell_len(line) <= width:
                return self._with_bar(line, width)
        return set_cell_size(line, width).rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text(options.max_width - 1), no_wrap=True, overflow="crop")

    def _forms(self) -> Iterator[tuple[str, ...]]:
        """Yield the parts of the line, from its longest form to its shortest."""
        left = self._left_text()
        if not self.variants:
            yield self.doing, self.phase, left
            for room in (60, 40, 20):
                yield self.doing[:room], left
            return
        place, short = f"block {self.block}/{self.blocks}", f"{self.block}/{self.blocks}"
        for room in (*WIDE, *NARROW):
            yield from self._naming(place, left, room)
            variant = self._variant(room)
            if room in WIDE:
                at, whole = self._at(variant), self._so_far(room, "all")
                yield place, f"[{self.done}/{self.total}]", at, self.phase, left, whole
                yield place, at, self.phase, left, whole
                yield place, at, left, whole
                yield place, at, left, self._so_far(room, "one")
            if room != WIDE[0]:
                single, least = self._so_far(room, "one"), self._so_far(room, "least")
                yield place, f"{variant} · {self.case[0]}", left, single
                yield place, variant, left, single
                yield place, variant, left, least
                yield short, variant, left, least
        tight = left.replace(" h ", "h").replace(" min", "m")
        least = self._so_far(LEAST_NAME, "least")
        yield short, self._variant(LEAST_NAME), tight, least
        yield short, tight, least
        yield short, tight

    def _naming(self, place: str, left: str, room: int) -> Iterator[tuple[str, ...]]:
        """Yield the forms that name each variant of a group, with the estimates of all variants."""
        if len(self.variants) < 2:
            return
        names = _short(self.names or self.variants, room)
        variants = ", ".join(names.get(variant, variant) for variant in self.variants)
        at, whole = self._at(variants), self._so_far(room, "all")
        if room in WIDE:
            yield place, f"[{self.done}/{self.total}]", at, self.phase, left, whole
        yield place, at, left, whole
        yield place, variants, left, whole

    def _at(self, variant: str) -> str:
        workload, bucket = self.case
        return trial_place(variant, bucket, workload)

    def _variant(self, room: int) -> str:
        if len(self.variants) > 1:
            return f"{len(self.variants)} variants"
        return _short(self.names or self.variants, room).get(self.variants[0], self.variants[0])

    def _left_text(self) -> str:
        return "" if self.left is None else f"left {duration(self.left)}"

    def _so_far(self, room: int, form: str) -> str:
        """Return the estimates, such as `so far jemalloc +1.2 % [+0.4, +2.0]`.

        `form` is `all` variants, `one` variant, or `least`: one variant without its interval.
        """
        if (provisional := self.estimates.get(self.case)) is None:
            return ""
        estimates, metric = provisional.estimates, provisional.metric
        mark = MARK if metric == THROUGHPUT else f"{MARK} {metric}"
        names = _short(self.names or tuple(e.variant for e in estimates), room)
        if form == "all":
            shown = ", ".join(
                f"{names.get(e.variant, e.variant)} {change_so_far(e, metric)}" for e in estimates
            )
            return f"{mark} {shown}"
        shown_now = estimates[int(self.clock() / ROTATION_S) % len(estimates)]
        text = change_so_far(shown_now, metric)
        if form == "least":
            text, mark = text.partition(" [")[0], MARK
            if len(estimates) == 1:
                return f"{mark} {text}"
        return f"{mark} {names.get(shown_now.variant, shown_now.variant)} {text}"

    def _with_bar(self, line: str, width: int) -> str:
        if width < ROOM_FOR_BAR or not self.total or cell_len(line) + len(GAP) + BAR > width:
            return line
        filled = min(BAR, BAR * self.done // self.total)
        return f"{'━' * filled}{'─' * (BAR - filled)}{GAP}{line}"


@functools.lru_cache(maxsize=64)
def _short(names: tuple[str, ...], room: int) -> dict[str, str]:
    return short_names(names, room)


@functools.lru_cache(maxsize=256)  # the line is redrawn often, on the machine that is measured
def change_so_far(estimate: ev.Estimate, metric_id: str) -> str:
    """Format a change as reports do: `+1.2 % [+0.4, +2.0]`, percentage points, or a large factor."""
    from perfrunner.spec.metrics import metric_type

    metric = metric_type(metric_id)
    return change(estimate, metric, scale_of(metric, estimate.estimate))
