"""Every variant built once, put on the hosts, and proved on every engine node before the first trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from perfrunner.build import Artifact, Proof, prove
from perfrunner.build.place import Builder
from perfrunner.build.proof import engine_environment
from perfrunner.errors import BuildError, ProofError
from perfrunner.run.events import (
    BuildFailed,
    BuildFinished,
    BuildProgress,
    BuildStarted,
    Listener,
    ProofPassed,
    Warned,
)
from perfrunner.run.programs import arm_programs, tool_programs
from perfrunner.source.model import ResolvedSource, as_record
from perfrunner.source.resolve import Sources
from perfrunner.spec.allocator import SYSTEM, AllocatorSpec
from perfrunner.spec.model import Spec
from perfrunner.spec.variant import Variant

if TYPE_CHECKING:
    from perfrunner.results import BuildRecord
    from perfrunner.run.preflight.hosts import RunHosts
    from perfrunner.run.trial.seats import Deployed

TOOLS = "load-tools"  # what the build of the tools is called where variants are named


@dataclass
class Builds:
    """What came of the builds: artifacts by variant, and why the others could not be built or proved.

    `tools`: where load generators and samplers come from, when that is no variant's build.
    """

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    unproved: dict[str, str] = field(default_factory=dict)
    tools: Artifact | None = None


def build_all(
    spec: Spec, sources: Sources, builder: Builder, listener: Listener, least: int = 1
) -> Builds:
    """A failed build is noted and the others go on, except the baseline's: without it nothing can be compared.

    Neither can it without the tools: where an arm is another engine than the one in use, they are built from that, and
    no build has programs that this spec does not run. `least`: a failure that leaves fewer arms is an error, too.
    """
    builds = Builds()
    if sources.foreign:
        tools = Variant(name=TOOLS, allocator=AllocatorSpec(name=SYSTEM))
        listener.on_event(BuildStarted(TOOLS))
        started = time.monotonic()
        builds.tools = builder.build(
            tools, sources.tools_path, partial(_progress, listener, TOOLS), tool_programs(spec)
        )
        seconds = time.monotonic() - started
        listener.on_event(BuildFinished(TOOLS, builds.tools.build_id, builds.tools.cached, seconds))
    programs = programs_wanted(spec, sources)
    for name, variant in spec.variants.items():
        listener.on_event(BuildStarted(name))
        started = time.monotonic()
        try:
            artifact = builder.build(
                variant, sources.path(name), partial(_progress, listener, name), programs
            )
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
    """Of every arm; none where arms have all, the tools among them."""
    return arm_programs(spec) if sources.foreign else ()


def _with_source(artifact: Artifact, source: ResolvedSource) -> Artifact:
    """An artifact is shared by all who have its content; this arm's source is its own."""
    provenance = dict(artifact.provenance)
    provenance["source"] = {**provenance.get("source", {}), **as_record(source)}
    return replace(artifact, provenance=provenance)


def _progress(listener: Listener, variant: str, line: str) -> None:
    listener.on_event(BuildProgress(variant, line))


def deploy_and_prove(
    spec: Spec,
    builds: Builds,
    hosts: RunHosts,
    listener: Listener,
    store: Callable[[BuildRecord], None],
) -> dict[str, Deployed]:
    """By variant. ProofError stops at the first setting that does not read back, and names its variant.

    An arm with a source of its own may be an engine of another time: it costs only itself, and moves to `unproved`.
    """
    # Imported late: SQLAlchemy and numpy take a third of a second, and a repeated build needs neither.
    from perfrunner.results import BuildRecord
    from perfrunner.run.trial.seats import Deployed

    any_of = next(iter(builds.artifacts.values()))
    bringing = builds.tools or builds.artifacts.get(spec.baseline, any_of)
    tools = {
        host: hosts.hosts[host].deploy(bringing.path, bringing.build_id) for host in hosts.seats
    }
    deployed = {}
    for name, artifact in list(builds.artifacts.items()):
        paths = {
            host: hosts.hosts[host].deploy(artifact.path, artifact.build_id) for host in hosts.seats
        }
        variant = spec.variants[name]
        try:
            proof = _proved_everywhere(spec, variant, hosts, paths, tools, listener)
        except ProofError as error:
            left = len(builds.artifacts) - 1
            if variant.source is None or name == spec.baseline or left < 2:
                raise
            del builds.artifacts[name]
            builds.unproved[name] = str(error)
            listener.on_event(Warned(f"{name} is not measured: {error.message}", error.hint or ""))
            continue
        deployed[name] = Deployed(artifact.build_id, paths, engine_environment(variant), tools)
        store(
            BuildRecord(
                variant=name,
                build_id=artifact.build_id,
                path=str(artifact.path),
                cached=artifact.cached,
                provenance=artifact.provenance,
                settings=dict(proof.settings),
            )
        )
    return deployed


def _proved_everywhere(
    spec: Spec,
    variant: Variant,
    hosts: RunHosts,
    paths: Mapping[str, str],
    tools: Mapping[str, str],
    listener: Listener,
) -> Proof:
    """The last engine node's; they are alike. ProofError."""
    proof: Proof | None = None
    for node in spec.cluster.engine_nodes:
        proof = prove(
            hosts.hosts[node],
            paths[node],
            variant,
            spec.engine,
            params=spec.params_of(variant.name),
            tools=tools[node],
        )
        listener.on_event(ProofPassed(variant.name, node, proof.settings))
    if proof is None:
        raise ValueError("a cluster without engine nodes")
    return proof
