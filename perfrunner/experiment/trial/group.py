"""Drive the variants of a group, whose servers are alive at the same time, with one load process.

The load process runs a slice on each variant in every round, so that no slice includes the start of a process.
Its report is split: each variant's trial keeps its own `client.json`, as if it had run alone, and its `slices.json`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.bench import POLL_S, Bench, Started
from perfrunner.experiment.trial.outcome import VariantError, attribute_by_report, attributed_to
from perfrunner.experiment.trial.placement import CredentialFiles, bracketed, log_tail
from perfrunner.experiment.trial.server import ServerProcess
from perfrunner.measure.client import check_stored, parse_report
from perfrunner.measure.slices import GroupLoad, parse_group_load, parse_variants
from perfrunner.results.raw import SLICES_FILE
from perfrunner.workloads.bench import GroupArguments, Share

CLOSED = "closed by the server"  # in what the load generator says


@dataclass
class GroupBench:
    """The benches of the variants of one group (implements workloads.bench.Group)."""

    variants: Sequence[Bench]
    interleaved: bool
    baseline: int
    round_seed: int
    on_phase: Callable[[str], None]

    def phase(self, name: str) -> None:
        for variant in self.variants:
            variant.current_phase = name
        self.variants[0].trial.recorder.comment(name)
        self.on_phase(name)

    def settle(self, seconds: float) -> None:
        self.variants[0].trial.recorder.pause(seconds)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check_engines()
            time.sleep(min(left, POLL_S))

    def prepare_interleaved(self, tool: str, arguments: GroupArguments, *, output: str) -> None:
        argv = self._flags(tool, arguments, {}, pids=False)
        reports = parse_variants(*self._run(tool, argv, argv, output), len(self.variants))
        for index, (variant, text) in enumerate(zip(self.variants, reports, strict=True)):
            (variant.trial.directory / f"{output}.json").write_text(text, encoding="utf-8")
            with attributed_to(index):
                check_stored(parse_report(text, output))

    def load_interleaved(self, tool: str, arguments: GroupArguments, *, output: str) -> GroupLoad:
        clocks = self._clocks()
        loaded = parse_group_load(
            *self._run(
                tool,
                self._flags(tool, arguments, clocks, pids=True),
                self._flags(tool, arguments, {}, pids=not clocks),
                output,
            )
        )
        if len(loaded.variants) != len(self.variants):
            raise TrialError(
                f"{tool} reported {len(loaded.variants)} variants instead of {len(self.variants)}"
            )
        for variant, driven in zip(self.variants, loaded.variants, strict=True):
            (variant.trial.directory / f"{output}.json").write_text(
                driven.report_text, encoding="utf-8"
            )
            text = json.dumps(driven.slices.document(), separators=(",", ":"))
            (variant.trial.directory / SLICES_FILE).write_text(text, encoding="utf-8")
        return loaded

    def _flags(
        self,
        tool: str,
        arguments: GroupArguments,
        clocks: Mapping[str, str],
        *,
        pids: bool,
    ) -> list[str]:
        base = self.variants[self.baseline]
        placement = base.placements[0]
        return [
            f"{placement.tools}/bin/{tool}",
            *(
                f"--variant={variant_flag(variant.engines, placement.credentials, clocks, pids=pids)}"
                for variant in self.variants
            ),
            *dict.fromkeys(
                flag
                for variant in self.variants
                for flag in (
                    *variant.engines[0].group_session(),
                    # Servers of CPU clocks want the run's password, whatever the variants are.
                    *([f"--password-file={placement.credentials.password}"] if clocks else []),
                )
            ),
            *arguments(base, Share(0, 1)),
            f"--round-seed={self.round_seed}",
        ]

    def _run(
        self, tool: str, argv: Sequence[str], recorded: Sequence[str], output: str
    ) -> tuple[str, str]:
        """Run one load process for all variants, placed as the baseline's; return its output and the file name."""
        base = self.variants[self.baseline]
        placement = base.placements[0]
        handle = base.start_client(argv, placement, output, recorded=recorded)
        try:
            base.wait_clients(tool, [Started(placement, output, handle)], self.check_engines)
        except TrialError as error:
            remote = f"{placement.directory}/{output}.json"
            cause = attribute_by_report(placement.host, remote, len(self.variants), error)
            raise self._with_log(cause) from error
        local = base.trial.directory / f"{output}.json"
        placement.host.get_file(f"{placement.directory}/{output}.json", local)
        text = local.read_text(encoding="utf-8")
        local.unlink()
        return text, local.name

    def _with_log(self, error: TrialError) -> TrialError:
        """Add the end of a server's log if it closed the connections of the load: nobody else knows why."""
        if not isinstance(error, VariantError) or CLOSED not in str(error):
            return error
        server = self.variants[error.variant].engines[0]
        tail = log_tail(server.host, server.setup.log) or "nothing"
        if tail in str(error):  # the server died
            return error
        text = f"{error}; the log of {server.title} ends with: {tail}"
        return VariantError(error.variant, text, error.hint)

    def _clocks(self) -> dict[str, str]:
        """Start a server of the engines' CPU clocks on every host except the load's own; return addresses by host."""
        base = self.variants[self.baseline]
        addresses = {}
        for node, engine in enumerate(base.engines):
            if engine.host.name == base.placements[0].host.name:
                continue
            name = "clock" if len(base.engines) == 1 else f"clock-{node + 1}"
            argv = [
                f"{engine.setup.tools}/bin/kvctl",
                "clock-server",
                f"--listen={bracketed(engine.setup.listen)}",
                f"--password-file={engine.setup.credentials.password}",
                *(f"--pid={variant.engines[node].handle.pid}" for variant in self.variants),
            ]
            base.start_helper(engine, name, argv)
            port = base.helper_port(engine, name)
            addresses[engine.host.name] = f"{bracketed(engine.setup.address)}:{port}"
        return addresses

    def check_engines(self) -> None:
        for variant in self.variants:
            variant.check_engines()

    def dead(self) -> Mapping[int, str]:
        """Return a message for each variant whose engine died, by the index of the variant."""
        messages = {}
        for index, variant in enumerate(self.variants):
            try:
                variant.check_engines()
            except TrialError as error:
                messages[index] = str(error)
        return messages


def variant_flag(
    engines: Sequence[ServerProcess],
    credentials: CredentialFiles,
    clocks: Mapping[str, str],
    *,
    pids: bool,
) -> str:
    """Return the value of a load tool's --variant flag, which names the nodes of a variant.

    The tool gets the cluster map from the first node. `clocks` are the addresses, by host, of servers that report CPU
    times on hosts other than the load's own.
    """
    first, *others = engines
    fields = first.variant_fields(credentials)
    if pids:
        fields.append(f"pid={first.handle.pid}")
        if first.host.name in clocks:
            fields.append(f"clock={clocks[first.host.name]}")
        for node in others:
            at = f"@{clocks[node.host.name]}" if node.host.name in clocks else ""
            fields.append(f"node={node.handle.pid}{at}")
    return ",".join(fields)
