"""The line that a run rewrites on a terminal: where it is, how long it takes, what comes out so far.

One line whatever the width: what matters less goes first, then names are shortened, never so that two arms look alike.
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
from perfrunner.report.names import LEAST, short_names
from perfrunner.run import events as ev

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

GAP = "  "
MARK = "so far"  # an estimate of a run under way is none without it
THROUGHPUT = "ops_per_s"  # what a reader takes a number without a name for
WIDE, NARROW = (48, 24), (14, 9, 6)  # columns of a name
BAR, ROOM_FOR_BAR = 10, 100
TURN = 3.0  # seconds that one arm's estimate is shown, where not all have room


@dataclass
class RunLine:
    """What is known at this moment; rich asks for it as often as it draws.

    `doing` is what is done while no trial is in flight.
    """

    clock: Callable[[], float] = time.monotonic
    block: int = 0
    blocks: int = 0
    done: int = 0
    total: int = 0
    doing: str = "starting"
    phase: str = ""
    arms: tuple[str, ...] = ()
    cell: tuple[str, str] = ("", "")
    estimates: dict[tuple[str, str], ev.Provisional] = field(default_factory=dict)  # by cell
    names: tuple[str, ...] = ()  # of all variants
    _left: float | None = field(default=None, init=False)
    _told: float = field(default=0.0, init=False)

    def tell_left(self, seconds: float | None) -> None:
        self._left, self._told = seconds, self.clock()

    @property
    def left(self) -> float | None:
        """Goes down between two tellings."""
        return None if self._left is None else max(0.0, self._left - (self.clock() - self._told))

    def tell_estimates(self, found: ev.Provisional) -> None:
        self.estimates[found.cell] = found

    def text(self, width: int) -> str:
        """At most `width` columns."""
        line = ""
        for parts in self._forms():
            line = GAP.join(filter(None, parts))
            if cell_len(line) <= width:
                return self._with_bar(line, width)
        return set_cell_size(line, width).rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text(options.max_width - 1), no_wrap=True, overflow="crop")

    def _forms(self) -> Iterator[tuple[str, ...]]:
        """The line from its longest form to its shortest."""
        left = self._left_text()
        if not self.arms:
            yield self.doing, self.phase, left
            for room in (60, 40, 20):
                yield self.doing[:room], left
            return
        place, short = f"block {self.block}/{self.blocks}", f"{self.block}/{self.blocks}"
        for room in (*WIDE, *NARROW):
            yield from self._naming(place, left, room)
            arm = self._arm(room)
            if room in WIDE:
                at, whole = self._at(arm), self._so_far(room, "all")
                yield place, f"[{self.done}/{self.total}]", at, self.phase, left, whole
                yield place, at, self.phase, left, whole
                yield place, at, left, whole
                yield place, at, left, self._so_far(room, "one")
            if room != WIDE[0]:
                one, least = self._so_far(room, "one"), self._so_far(room, "least")
                yield place, f"{arm} · {self.cell[0]}", left, one
                yield place, arm, left, one
                yield place, arm, left, least
                yield short, arm, left, least
        tight, least = left.replace(" h ", "h").replace(" min", "m"), self._so_far(LEAST, "least")
        yield short, self._arm(LEAST), tight, least
        yield short, tight, least
        yield short, tight

    def _naming(self, place: str, left: str, room: int) -> Iterator[tuple[str, ...]]:
        """The forms that name each arm of an ensemble; with estimates only where all of them have room, too."""
        if len(self.arms) < 2:
            return
        names = _short(self.names or self.arms, room)
        arms = ", ".join(names.get(arm, arm) for arm in self.arms)
        at, whole = self._at(arms), self._so_far(room, "all")
        if room in WIDE:
            yield place, f"[{self.done}/{self.total}]", at, self.phase, left, whole
        yield place, at, left, whole
        yield place, arms, left, whole

    def _at(self, arm: str) -> str:
        workload, bucket = self.cell
        return " · ".join(part for part in (arm, bucket, workload) if part not in ("", "-"))

    def _arm(self, room: int) -> str:
        if len(self.arms) > 1:
            return f"{len(self.arms)} arms"
        return _short(self.names or self.arms, room).get(self.arms[0], self.arms[0])

    def _left_text(self) -> str:
        return "" if self.left is None else f"left {duration(self.left)}"

    def _so_far(self, room: int, form: str) -> str:
        """`so far jemalloc +1.2 % [+0.4, +2.0]`: of all arms, of one, or of one without its interval."""
        if (found := self.estimates.get(self.cell)) is None:
            return ""
        estimates = found.estimates
        mark = MARK if found.metric == THROUGHPUT else f"{MARK} {found.metric}"
        names = _short(self.names or tuple(e.variant for e in estimates), room)
        if form == "all":
            shown = ", ".join(
                f"{names.get(e.variant, e.variant)} {change_so_far(e, found.metric)}"
                for e in estimates
            )
            return f"{mark} {shown}"
        one = estimates[int(self.clock() / TURN) % len(estimates)]
        text = change_so_far(one, found.metric)
        if form == "least":
            text, mark = text.partition(" [")[0], MARK
            if len(estimates) == 1:
                return f"{mark} {text}"
        return f"{mark} {names.get(one.variant, one.variant)} {text}"

    def _with_bar(self, line: str, width: int) -> str:
        if width < ROOM_FOR_BAR or not self.total or cell_len(line) + len(GAP) + BAR > width:
            return line
        filled = min(BAR, BAR * self.done // self.total)
        return f"{'━' * filled}{'─' * (BAR - filled)}{GAP}{line}"


@functools.lru_cache(maxsize=64)
def _short(names: tuple[str, ...], room: int) -> dict[str, str]:
    return short_names(names, room)


@functools.lru_cache(maxsize=256)  # drawn again and again, on the machine that is measured
def change_so_far(estimate: ev.Estimate, metric_id: str) -> str:
    """As reports write it: `+1.2 % [+0.4, +2.0]`, points, or a large factor."""
    from perfrunner.report.numbers import change, scale_of
    from perfrunner.spec.metrics import metric_type

    metric = metric_type(metric_id)
    return change(estimate, metric, scale_of(metric, estimate.estimate))
