"""Relink the programs of the variants in a new random order for each block, so that intervals include layout effects.

`relink: auto` relinks if the variants are different binaries; variants with the same binary share the layout, which
then cannot cause a difference. `relink: shuffle` gives each variant a different order, and `never` does not relink.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfrunner.build import Artifact
from perfrunner.build.output import Progress, silent
from perfrunner.build.place import Builder
from perfrunner.experiment.plan import layout_seed, placing_order
from perfrunner.experiment.preflight.builds import measured_programs
from perfrunner.experiment.trial.placement import Deployed, Placement
from perfrunner.hosts.transport import Transport
from perfrunner.spec.model import Spec


def wanted(spec: Spec, build_ids: Sequence[str]) -> bool:
    """Return whether the programs are relinked for each block."""
    return spec.relink == "shuffle" or (spec.relink == "auto" and len(set(build_ids)) > 1)


@dataclass
class Relinks:
    """The relinked programs of the current block; those of earlier blocks are removed."""

    spec: Spec
    seed: int
    artifacts: Mapping[str, Artifact]  # by variant
    deployed: Mapping[str, Deployed]  # by variant, as built
    placements: Sequence[Placement]
    builder: Builder  # the builder of the artifacts
    waiting: Progress = silent  # is called when the builder makes the run wait
    _block: tuple[int, int] | None = field(default=None, init=False)
    _now: dict[str, Deployed] = field(default_factory=dict, init=False)

    def of_block(self, block: int, attempt: int) -> Mapping[str, Deployed]:
        """Return the deployed variants for a block.

        Raises BuildError if a link fails, and HostError if the build host is unreachable.
        """
        own = {name: d for name, d in self.deployed.items() if d.server is None}
        if not wanted(self.spec, [d.build_id for d in own.values()]):
            return self.deployed
        if self._block != (block, attempt):
            self._forget()
            self._now |= self.deployed  # other servers stay as they are
            for name in placing_order(self.seed, own, block, attempt):
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
            placement.host.name: _place(
                placement, base.paths[placement.host.name], artifact, measured_programs(self.spec)
            )
            for placement in self.placements
        }
        shutil.rmtree(
            artifact.path
        )  # it is deployed, and in the cache such artifacts would only accumulate
        return replace(base, paths=paths, layout_seed=seed)

    def _forget(self) -> None:
        """Remove the programs of the previous block, to save disk space."""
        for placement in self.placements:
            placement.host.remove_tree(_directory(placement))
        self._now.clear()


def _directory(placement: Placement) -> str:
    return f"{placement.run_dir}/relinked"


def _place(placement: Placement, base: str, artifact: Artifact, programs: Sequence[str]) -> str:
    """Deploy to the host: hard links to the base's files, plus the relinked programs."""
    host: Transport = placement.host
    target = f"{_directory(placement)}/{artifact.build_id}"
    if not host.exists(target):
        host.makedirs(_directory(placement))
        host.run(["cp", "-al", base, target])
        for name in programs:
            host.put_file(artifact.path / "bin" / name, f"{target}/bin/{name}")
    return target
