"""The line that a run rewrites on a terminal: position, time left, and provisional estimates.

It always fits the width: less important parts are dropped first, then names are shortened, but never
so much that two variants get the same name.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from perfrunner.cli.output import duration
from perfrunner.domain import trial_place
from perfrunner.experiment import events as ev
from perfrunner.report.names import LEAST, short_names

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

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
        tight, least = left.replace(" h ", "h").replace(" min", "m"), self._so_far(LEAST, "least")
        yield short, self._variant(LEAST), tight, least
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
    from perfrunner.report.numbers import change, scale_of
    from perfrunner.spec.metrics import metric_type

    metric = metric_type(metric_id)
    return change(estimate, metric, scale_of(metric, estimate.estimate))
