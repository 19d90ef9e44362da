"""The arms of a cell's block that are alive at once (workloads.bench.Ensemble), and the load that goes round them.

One load process drives every arm in turn, so that no slice pays for the start of a process. Its report is taken apart:
each arm's trial keeps its own `client.json`, as if it had been alone, and its `slices.json`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfrunner.cluster.vbucket_map import bracketed
from perfrunner.errors import TrialError
from perfrunner.measure.turns import Turns, parse_arms, parse_turns
from perfrunner.results.slices import SLICES_FILE
from perfrunner.run.trial.blame import blamed
from perfrunner.run.trial.clientseat import common_flags
from perfrunner.run.trial.credentials import USER
from perfrunner.run.trial.engine import Engine
from perfrunner.run.trial.reproduce import Recorder
from perfrunner.run.trial.serverbench import SLICE_S, Bench
from perfrunner.workloads.bench import EnsembleArguments, Share


@dataclass
class EnsembleBench:
    """Implements workloads.bench.Ensemble over the benches of its arms."""

    arms: Sequence[Bench]
    side_by_side: bool
    baseline: int
    recorder: Recorder
    directory: Path  # for what belongs to no arm: a load process's output before it is taken apart
    round_seed: int
    on_phase: Callable[[str, float | None], None]
    notes: dict[str, object] = field(default_factory=dict)  # facts of every arm's trial

    def phase(self, name: str, expected_s: float | None = None) -> None:
        for arm in self.arms:
            arm.current_phase = name
        self.recorder.comment(name)
        self.on_phase(name, expected_s)

    def settle(self, seconds: float) -> None:
        self.recorder.pause(seconds)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check_engines()
            time.sleep(min(left, SLICE_S))

    def prepare_in_turns(self, tool: str, arguments: EnsembleArguments, *, output: str) -> None:
        given = self._flags(tool, arguments, {}, pids=False)
        reports = parse_arms(*self._run(tool, given, given, output), len(self.arms))
        for arm, text in zip(self.arms, reports, strict=True):
            (arm.directory / f"{output}.json").write_text(text, encoding="utf-8")

    def load_in_turns(self, tool: str, arguments: EnsembleArguments, *, output: str) -> Turns:
        clocks = self._clocks()
        turns = parse_turns(
            *self._run(
                tool,
                self._flags(tool, arguments, clocks, pids=True),
                self._flags(tool, arguments, {}, pids=not clocks),
                output,
            )
        )
        if len(turns.arms) != len(self.arms):
            raise TrialError(f"{tool} reported {len(turns.arms)} arms of {len(self.arms)}")
        for arm, its in zip(self.arms, turns.arms, strict=True):
            (arm.directory / f"{output}.json").write_text(its.report_text, encoding="utf-8")
            text = json.dumps(its.slices.document(), separators=(",", ":"))
            (arm.directory / SLICES_FILE).write_text(text, encoding="utf-8")
        return turns

    def _flags(
        self,
        tool: str,
        arguments: EnsembleArguments,
        clocks: Mapping[str, str],
        *,
        pids: bool,
    ) -> list[str]:
        base = self.arms[self.baseline]
        seat = base.seats[0]
        return [
            f"{seat.tools}/bin/{tool}",
            *(f"--arm={arm_flag(arm.engines, clocks, pids=pids)}" for arm in self.arms),
            *common_flags(seat),
            *arguments(base, Share(0, 1)),
            f"--round-seed={self.round_seed}",
        ]

    def _run(
        self, tool: str, argv: Sequence[str], recorded: Sequence[str], output: str
    ) -> tuple[str, str]:
        """One process for all arms, from the baseline's seat: what it printed, and the name of that."""
        base = self.arms[self.baseline]
        seat = base.seats[0]
        handle = base.start_client(argv, seat, output, recorded=recorded)
        try:
            base.wait_client(tool, seat, output, handle, self.check_engines)
        except TrialError as error:
            remote = f"{seat.directory}/{output}.json"
            raise blamed(seat.host, remote, len(self.arms), error) from error
        kept = self.directory / f"{output}.json"
        seat.host.get_file(f"{seat.directory}/{output}.json", kept)
        text = kept.read_text(encoding="utf-8")
        kept.unlink()
        return text, kept.name

    def _clocks(self) -> dict[str, str]:
        """By host: the address of a helper there that serves its engines' CPU clocks. Not of the load's own host."""
        base = self.arms[self.baseline]
        found = {}
        for node, engine in enumerate(base.engines):
            if engine.host.name == base.seats[0].host.name:
                continue
            name = "clock" if len(base.engines) == 1 else f"clock-{node + 1}"
            argv = [
                f"{engine.setup.tools}/bin/kvctl",
                "clock-server",
                f"--listen={bracketed(engine.setup.listen)}",
                f"--password-file={engine.setup.credentials.password}",
                *(f"--pid={arm.engines[node].handle.pid}" for arm in self.arms),
            ]
            base.start_helper(engine, name, argv)
            port = base.helper_port(engine, name)
            found[engine.host.name] = f"{bracketed(engine.setup.address)}:{port}"
        return found

    def check_engines(self) -> None:
        for arm in self.arms:
            arm.check_engines()

    def dead(self) -> Mapping[int, str]:
        """The arms (their places) whose engine has ended by itself, and what is known of it."""
        found = {}
        for place, arm in enumerate(self.arms):
            try:
                arm.check_engines()
            except TrialError as error:
                found[place] = str(error)
        return found


def arm_flag(engines: Sequence[Engine], clocks: Mapping[str, str], *, pids: bool) -> str:
    """What a load tool's --arm says of an arm's nodes, the first of which it asks for the cluster's map.

    `clocks` serve the CPU time of pids on other hosts than the load's own, by host.
    """
    first, *others = engines
    words = [f"host={bracketed(first.setup.address)}", f"port={first.port}", f"user={USER}"]
    if pids:
        words.append(f"pid={first.handle.pid}")
        if first.host.name in clocks:
            words.append(f"clock={clocks[first.host.name]}")
        for node in others:
            at = f"@{clocks[node.host.name]}" if node.host.name in clocks else ""
            words.append(f"node={node.handle.pid}{at}")
    return ",".join(words)
