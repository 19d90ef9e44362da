"""A layout of its own for each block: the arms' programs linked in another order, so that intervals cover layout luck.

`relink: auto` does it where the arms are different binaries. Arms that share one binary share its layout then, too: it
cannot tell them apart. `relink: shuffle` gives each arm an order of its own whatever it shares, `never` none.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfrunner.build import Artifact
from perfrunner.build.output import Progress, silent
from perfrunner.build.place import Builder
from perfrunner.cluster.transport import Transport
from perfrunner.run.programs import measured_programs
from perfrunner.run.trial.draws import layout_seed, placing_order
from perfrunner.run.trial.seats import Deployed, Seat
from perfrunner.spec.model import Spec


def wanted(spec: Spec, build_ids: Sequence[str]) -> bool:
    """Whether blocks get layouts of their own."""
    return spec.relink == "shuffle" or (spec.relink == "auto" and len(set(build_ids)) > 1)


@dataclass
class Relinks:
    """Gives each block its variants as they are deployed for it; only the newest block's layouts are kept."""

    spec: Spec
    seed: int
    artifacts: Mapping[str, Artifact]  # by variant
    deployed: Mapping[str, Deployed]  # as they were built
    seats: Sequence[Seat]
    builder: Builder  # who made the artifacts
    waiting: Progress = silent  # hears it when the builder keeps us waiting
    _block: tuple[int, int] | None = field(default=None, init=False)
    _now: dict[str, Deployed] = field(default_factory=dict, init=False)

    def of_block(self, block: int, attempt: int) -> Mapping[str, Deployed]:
        """By variant. BuildError when a link fails, HostError when the build host stays away."""
        if not wanted(self.spec, [d.build_id for d in self.deployed.values()]):
            return self.deployed
        if self._block != (block, attempt):
            self._forget()
            for name in placing_order(self.seed, self.deployed, block, attempt):
                self._now[name] = self._relinked(name, block, attempt)
            self._block = (block, attempt)
        return self._now

    def _relinked(self, variant: str, block: int, attempt: int) -> Deployed:
        base = self.deployed[variant]
        shared = base.build_id if self.spec.relink == "auto" else variant
        seed = layout_seed(self.seed, shared, block, attempt)
        artifact = self.builder.relink(
            self.artifacts[variant], seed, measured_programs(self.spec), self.waiting
        )
        paths = {
            seat.host.name: _place(
                seat, base.paths[seat.host.name], artifact, measured_programs(self.spec)
            )
            for seat in self.seats
        }
        shutil.rmtree(artifact.path)  # placed: in the cache it would only pile up, link upon link
        return replace(base, paths=paths, layout_seed=seed)

    def _forget(self) -> None:
        """Disk space only: the same seed would give the same bytes again."""
        for seat in self.seats:
            seat.host.remove_tree(_directory(seat))
        self._now.clear()


def _directory(seat: Seat) -> str:
    return f"{seat.run_dir}/relinked"


def _place(seat: Seat, base: str, artifact: Artifact, programs: Sequence[str]) -> str:
    """On the host: the base's files as hard links, and the programs that differ from them."""
    host: Transport = seat.host
    target = f"{_directory(seat)}/{artifact.build_id}"
    if not host.exists(target):
        host.makedirs(_directory(seat))
        host.run(["cp", "-al", base, target])
        for name in programs:
            host.put_file(artifact.path / "bin" / name, f"{target}/bin/{name}")
    return target
