"""A run under the precision rule (plan/precision.py): after each whole block, which cells are done and which go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perfrunner.results import ResultStore
from perfrunner.run import events as ev
from perfrunner.run.journal import Journal, read_journal
from perfrunner.run.opening import EXTENDED, Opened
from perfrunner.run.plan.order import PlannedTrial
from perfrunner.run.plan.precision import MOST_BLOCKS, cell_widths, decide
from perfrunner.run.tally import Tally
from perfrunner.spec.cell import CellName
from perfrunner.spec.model import Spec


@dataclass
class PreciseCells:
    """Which cells are precise enough. Does nothing where the spec asks for no precision."""

    spec: Spec
    opened: Opened
    store: ResultStore
    journal: Journal
    listener: ev.Listener
    tally: Tally
    plan_block: Callable[[int], tuple[PlannedTrial, ...]]
    done: set[CellName] = field(init=False, default_factory=set)

    def recall(self) -> None:
        """Cells that an earlier run of this experiment has ended are not begun again, but for one that had run out
        of blocks: it takes part in the blocks that were added since."""
        extended = self.opened.experiment.facts.get(EXTENDED)
        for record in read_journal(self.journal.path) if self.opened.resumed else ():
            if record["event"] != "precision" or record.get("decision") != "stop":
                continue
            block, half_width = int(record["block"]), record.get("half_width")
            narrow = half_width is not None and half_width <= record["wanted"]
            if extended and block <= int(extended[-1]["from"]) and not narrow:
                continue
            for cell in self.spec.cells:
                if list(cell) == record.get("cell"):
                    self._close(cell, block)
        if extended and self.done >= set(self.spec.cells):
            text = "every cell is as precise as the spec asks: no block is added"
            self.listener.on_event(ev.Warned(text, "`precision` decides the number of blocks"))

    def look(self, block: int, planned: int) -> int:
        """After block `block` of `planned`, if it is whole: how many are planned from now on, one more at most."""
        schedule = self.tally.schedule
        if self.spec.precision is None or block == 0 or not schedule.block_complete(block):
            return planned
        widths = cell_widths(self.store.load(self.opened.experiment.id))
        wanted = self.spec.precision
        extended = EXTENDED in self.opened.experiment.facts  # then so far and no further
        most = planned if extended else MOST_BLOCKS
        more: set[CellName] = set()
        for cell in self.spec.cells:
            if cell in self.done:
                continue
            width = widths.get(cell)
            found = decide(cell, block, planned, width, wanted, most)
            self.listener.on_event(found)
            self.journal.append("precision", **vars(found))
            if found.decision == "stop":
                self._close(cell, block)
                continue
            another = found.decision == "extend"
            more |= {cell} if another else set()
            expected = planned if width is None else width.expected_blocks(wanted)
            beyond = min(expected, most) - (planned + 1 if another else planned)
            self.tally.foresee(cell, beyond * self._trials_of(cell))
        if not more:
            return planned
        schedule.extend(t for t in self.plan_block(planned + 1) if (t.workload, t.bucket) in more)
        return planned + 1

    def _close(self, cell: CellName, block: int) -> None:
        self.done.add(cell)
        self.tally.schedule.close(*cell, block)
        self.tally.foresee(cell, 0)

    def _trials_of(self, cell: CellName) -> int:
        """In a block."""
        return sum(1 for t in self.plan_block(1) if (t.workload, t.bucket) == cell)
