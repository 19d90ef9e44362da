"""Build every variant once, deploy the builds to the hosts, and check the settings on every engine node.

A build makes only the programs that the run needs, which is much cheaper than all of them.

Relinks links the programs of each block in a new random order, so that intervals include layout effects. `relink: auto`
does so if the variants are different binaries; variants with the same binary share the layout, which then cannot cause
a difference. `relink: shuffle` gives each variant a different order, and `never` does not relink.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.build.artifact import Artifact
from perfrunner.build.builders import Builder
from perfrunner.build.layout import ENGINE_PROGRAM
from perfrunner.build.settings_check import SettingsCheck, check, engine_environment
from perfrunner.build.tools import Progress, silent
from perfrunner.errors import BuildError, SettingsCheckError
from perfrunner.experiment.events import (
    BuildFailed,
    BuildFinished,
    BuildProgress,
    BuildStarted,
    Listener,
    SettingsCheckPassed,
    Warned,
)
from perfrunner.experiment.plan import layout_seed, placing_order
from perfrunner.experiment.trial.placement import Deployed, Placement
from perfrunner.hosts.transport import Transport
from perfrunner.sources.model import ResolvedSource, as_record
from perfrunner.spec.allocator import SYSTEM, AllocatorSpec
from perfrunner.spec.model import Spec
from perfrunner.spec.variant import Variant
from perfrunner.spec.workloads import ToolWorkload

if TYPE_CHECKING:
    from perfrunner.experiment.preflight.hosts import RunHosts
    from perfrunner.results import BuildRecord
    from perfrunner.servers.prepare import PreparedServer
    from perfrunner.sources.resolve import Sources


LOAD_TOOLS = ("append", "kvctl", "pillowfight", "consistency_checker")
CONDUCTOR = "conductor"


def measured_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs that the workloads measure: the engine, stand-alone programs, or both."""
    names = {
        workload.measured_program if isinstance(workload, ToolWorkload) else ENGINE_PROGRAM
        for workload in spec.workloads.values()
    }
    return tuple(sorted(names))


def variant_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs of a variant whose tools come from another build.

    The engine is always included, because the settings check starts it.
    """
    return tuple(sorted({ENGINE_PROGRAM, *measured_programs(spec)}))


def whole_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs of a variant whose build also provides the tools."""
    return tuple(sorted({*variant_programs(spec), *tool_programs(spec)}))


def tool_programs(spec: Spec) -> tuple[str, ...]:
    """Return the programs of a separate build that provides only the tools.

    Other servers than the engine are loaded and sampled without its own tools.
    """
    if all(variant.server is not None for variant in spec.variants.values()):
        return ("kvctl", "pillowfight")
    alone = any(isinstance(w, ToolWorkload) for w in spec.workloads.values())
    return tuple(sorted({*LOAD_TOOLS, *([CONDUCTOR] if alone else [])}))


TOOLS = "load-tools"  # stands for the build of the tools where events name a variant


def load_tools() -> Variant:
    """Return the variant that a separate build of the tools is made of."""
    return Variant(name=TOOLS, allocator=AllocatorSpec(name=SYSTEM))


@dataclass
class Builds:
    """The builds of a run, by variant.

    These are artifacts of the engine, other servers, build failures and failed settings checks. `tools` is a separate
    build for the load generators and samplers, if no variant provides them.
    """

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    failed_checks: dict[str, str] = field(default_factory=dict)
    tools: Artifact | None = None
    servers: dict[str, PreparedServer] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, Artifact | PreparedServer]:
        """Return what the variants are, whether the engine or other servers."""
        return {**self.artifacts, **self.servers}

    def tools_build(self, baseline: str) -> Artifact:
        """Return the build of the tools: their own, else the baseline's, else that of any engine."""
        fallback = next(iter(self.artifacts.values()), self.tools)
        build = self.tools or self.artifacts.get(baseline, fallback)
        if build is None:
            raise ValueError("there is no build of the load tools")
        return build


def build_all(
    spec: Spec,
    sources: Sources,
    builder: Builder,
    cache_dir: Path,
    listener: Listener,
    least: int = 1,
) -> Builds:
    """Build all variants, and the load tools if a variant is built from foreign sources.

    A failed build is recorded and the other variants are built, unless the baseline fails or fewer than `least`
    variants remain. Only programs that the spec needs are built. `cache_dir` is for builds of other servers.

    Raises BuildError if the baseline or the tools fail, or too few variants remain.
    """
    builds = Builds()
    if sources.foreign:
        tools = load_tools()
        listener.on_event(BuildStarted(TOOLS))
        started = time.monotonic()
        builds.tools = builder.build(
            tools, sources.tools_path, partial(_progress, listener, TOOLS), tool_programs(spec)
        )
        seconds = time.monotonic() - started
        listener.on_event(BuildFinished(TOOLS, builds.tools.build_id, builds.tools.cached, seconds))
    programs = programs_wanted(spec, sources)
    remote = spec.cluster.transport == "ssh"
    for name, variant in spec.variants.items():
        listener.on_event(BuildStarted(name))
        started = time.monotonic()
        progress = partial(_progress, listener, name)
        try:
            if variant.server is not None:
                # Imported late: most runs have no other server than the engine.
                from perfrunner.servers.prepare import prepare

                commit = sources.servers.get(name)
                sha = None if commit is None else commit.sha
                server = prepare(
                    variant, cache_dir, sources.tools_path, sha, progress, remote=remote
                )
                builds.servers[name] = server
                seconds = time.monotonic() - started
                listener.on_event(BuildFinished(name, server.build_id, server.cached, seconds))
                continue
            artifact = builder.build(variant, sources.path(name), progress, programs)
        except BuildError as error:
            left = len(spec.variants) - len(builds.failures) - 1
            if name == spec.baseline or left < least:
                text = f"variant {name}: {error.message}"
                raise BuildError(text, error.hint, log=error.log) from error
            builds.failures[name] = str(error)
            listener.on_event(BuildFailed(name, str(error)))
            continue
        builds.artifacts[name] = _with_source(artifact, sources.of[name])
        seconds = time.monotonic() - started
        listener.on_event(BuildFinished(name, artifact.build_id, artifact.cached, seconds))
    return builds


def programs_wanted(spec: Spec, sources: Sources) -> tuple[str, ...]:
    """Return the programs to build for every variant, including the tools unless these are built separately."""
    return variant_programs(spec) if sources.foreign else whole_programs(spec)


def _with_source(artifact: Artifact, source: ResolvedSource) -> Artifact:
    """Return the artifact with the source of this variant: variants with equal content share an artifact."""
    provenance = dict(artifact.provenance)
    provenance["source"] = {**provenance.get("source", {}), **as_record(source)}
    return replace(artifact, provenance=provenance)


def _progress(listener: Listener, variant: str, line: str) -> None:
    listener.on_event(BuildProgress(variant, line))


def deploy_and_check(
    spec: Spec,
    builds: Builds,
    hosts: RunHosts,
    listener: Listener,
    store: Callable[[BuildRecord], None],
    cache_dir: Path,
) -> dict[str, Deployed]:
    """Deploy the builds, check the settings of each variant, and return the deployed builds by variant.

    Raises SettingsCheckError at the first setting that does not read back as requested. A variant that names its
    source may be another version of the engine: if its check fails, it moves to `failed_checks` and the run continues.
    `cache_dir` is for what is sent of other servers.
    """
    # Imported late: SQLAlchemy and numpy are slow to import, and a repeated build needs neither.
    from perfrunner.experiment.preflight.servers import deploy_server, place_server

    tools_build = builds.tools_build(spec.baseline)
    tools = {
        host: hosts.hosts[host].deploy(tools_build.path, tools_build.build_id)
        for host in hosts.placements
    }
    deployed = {}
    for name, prepared in builds.servers.items():
        variant = spec.variants[name]
        server = place_server(spec, variant, prepared, hosts, cache_dir, listener)
        deployed[name], server = deploy_server(spec, variant, server, hosts, tools, listener)
        store(_record(name, server, server.program, deployed[name].settings))
    for name, artifact in list(builds.artifacts.items()):
        paths = {
            host: hosts.hosts[host].deploy(artifact.path, artifact.build_id)
            for host in hosts.placements
        }
        variant = spec.variants[name]
        try:
            settings_check = _check_everywhere(spec, variant, hosts, paths, tools, listener)
        except SettingsCheckError as error:
            left = len(builds.artifacts) - 1
            if variant.source is None or name == spec.baseline or left < 2:
                raise
            del builds.artifacts[name]
            builds.failed_checks[name] = str(error)
            listener.on_event(Warned(f"{name} is not measured: {error.message}", error.hint or ""))
            continue
        deployed[name] = Deployed(artifact.build_id, paths, engine_environment(variant), tools)
        store(_record(name, artifact, artifact.path, settings_check.settings))
    return deployed


def _record(
    variant: str, build: Artifact | PreparedServer, path: Path, settings: Mapping[str, str]
) -> BuildRecord:
    """Return what is stored of a variant's build and of the settings that were read back."""
    from perfrunner.results import BuildRecord  # late, as in deploy_and_check

    return BuildRecord(
        variant=variant,
        build_id=build.build_id,
        path=str(path),
        cached=build.cached,
        provenance=build.provenance,
        settings=dict(settings),
    )


def _check_everywhere(
    spec: Spec,
    variant: Variant,
    hosts: RunHosts,
    paths: Mapping[str, str],
    tools: Mapping[str, str],
    listener: Listener,
) -> SettingsCheck:
    """Check the settings on every engine node; return the (equal) result. Raises SettingsCheckError."""
    settings_check: SettingsCheck | None = None
    for node in spec.cluster.engine_nodes:
        settings_check = check(
            hosts.hosts[node],
            paths[node],
            variant,
            spec.engine,
            params=spec.params_of(variant.name),
            tools=tools[node],
        )
        listener.on_event(SettingsCheckPassed(variant.name, node, settings_check.settings))
    if settings_check is None:
        raise ValueError("the cluster has no engine nodes")
    return settings_check


def relinks_wanted(spec: Spec, build_ids: Sequence[str]) -> bool:
    """Return whether the programs are relinked for each block."""
    return spec.relink == "shuffle" or (spec.relink == "auto" and len(set(build_ids)) > 1)


@dataclass(kw_only=True)
class Relinks:
    """The relinked programs of the current block; those of earlier blocks are removed."""

    spec: Spec
    seed: int
    artifacts: Mapping[str, Artifact]  # by variant
    deployed: Mapping[str, Deployed]  # by variant, as built
    placements: Sequence[Placement]
    builder: Builder  # the builder of the artifacts
    waiting: Progress = silent  # is called when the builder makes the run wait
    _placed: tuple[int, int, int] | None = field(default=None, init=False)
    _now: dict[str, Deployed] = field(default_factory=dict, init=False)

    def of_block(self, block: int, attempt: int, losses: int) -> Mapping[str, Deployed]:
        """Return the deployed variants for a block.

        `losses`: how often a connection was lost. The programs are placed again after each, because a host that
        restarted may have lost them.

        Raises BuildError if a link fails, and HostError if the build host is unreachable.
        """
        own = {name: d for name, d in self.deployed.items() if d.server is None}
        if not relinks_wanted(self.spec, [d.build_id for d in own.values()]):
            return self.deployed
        if self._placed != (block, attempt, losses):
            self._forget()
            self._now |= self.deployed  # other servers stay as they are
            for name in placing_order(self.seed, own, block, attempt):
                self._now[name] = self._relinked(name, block, attempt)
            self._placed = (block, attempt, losses)
        return self._now

    def _relinked(self, variant: str, block: int, attempt: int) -> Deployed:
        base = self.deployed[variant]
        shared = base.build_id if self.spec.relink == "auto" else variant
        seed = layout_seed(self.seed, shared, block, attempt)
        artifact = self.builder.relink(
            self.artifacts[variant], seed, measured_programs(self.spec), self.waiting
        )
        paths = {
            placement.host.name: _place_relinked(
                placement, base.paths[placement.host.name], artifact, measured_programs(self.spec)
            )
            for placement in self.placements
        }
        # It is deployed, and in the cache such artifacts would only accumulate.
        shutil.rmtree(artifact.path)
        return replace(base, paths=paths, layout_seed=seed)

    def _forget(self) -> None:
        """Remove the programs of the previous block, to save disk space."""
        for placement in self.placements:
            placement.host.remove_tree(_relinked_dir(placement))
        self._now.clear()


def _relinked_dir(placement: Placement) -> str:
    return f"{placement.run_dir}/relinked"


def _place_relinked(
    placement: Placement, base: str, artifact: Artifact, programs: Sequence[str]
) -> str:
    """Deploy to the host: hard links to the base's files, plus the relinked programs."""
    host: Transport = placement.host
    target = f"{_relinked_dir(placement)}/{artifact.build_id}"
    if not host.exists(target):
        host.makedirs(_relinked_dir(placement))
        host.run(["cp", "-al", base, target])
        for name in programs:
            host.put_file(artifact.path / "bin" / name, f"{target}/bin/{name}")
    return target
