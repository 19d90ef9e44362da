"""Every variant built once, put on the hosts, and proved on every engine node before the first trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.build import Artifact, Proof, build_variant, prove
from perfrunner.build.proof import engine_environment
from perfrunner.errors import BuildError
from perfrunner.run.events import (
    BuildFailed,
    BuildFinished,
    BuildProgress,
    BuildStarted,
    Listener,
    ProofPassed,
)
from perfrunner.spec.model import Spec

if TYPE_CHECKING:
    from perfrunner.results import BuildRecord
    from perfrunner.run.preflight.hosts import RunHosts
    from perfrunner.run.trial.seats import Deployed


@dataclass
class Builds:
    """What came of the builds: artifacts by variant, and why the others could not be built."""

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def build_all(spec: Spec, engine_src: Path, cache_dir: Path, listener: Listener) -> Builds:
    """A failed build is noted and the others go on, except the baseline's: without it nothing can be compared."""
    builds = Builds()
    for name, variant in spec.variants.items():
        listener.on_event(BuildStarted(name))
        started = time.monotonic()
        try:
            artifact = build_variant(
                variant,
                engine_src,
                cache_dir,
                partial(_progress, listener, name),
            )
        except BuildError as error:
            if name == spec.baseline:
                raise
            builds.failures[name] = str(error)
            listener.on_event(BuildFailed(name, str(error)))
            continue
        builds.artifacts[name] = artifact
        seconds = time.monotonic() - started
        listener.on_event(BuildFinished(name, artifact.build_id, artifact.cached, seconds))
    return builds


def _progress(listener: Listener, variant: str, line: str) -> None:
    listener.on_event(BuildProgress(variant, line))


def deploy_and_prove(
    spec: Spec,
    builds: Builds,
    hosts: RunHosts,
    listener: Listener,
    store: Callable[[BuildRecord], None],
) -> dict[str, Deployed]:
    """By variant. ProofError stops at the first setting that does not read back, and names its variant."""
    # Imported late: SQLAlchemy and numpy take a third of a second, and a repeated build needs neither.
    from perfrunner.results import BuildRecord
    from perfrunner.run.trial.seats import Deployed

    deployed = {}
    for name, artifact in builds.artifacts.items():
        paths = {
            host: hosts.hosts[host].deploy(artifact.path, artifact.build_id) for host in hosts.seats
        }
        variant = spec.variants[name]
        proof: Proof | None = None
        for node in spec.cluster.engine_nodes:
            proof = prove(
                hosts.hosts[node], paths[node], variant, spec.engine, params=spec.params_of(name)
            )
            listener.on_event(ProofPassed(name, node, proof.settings))
        if proof is None:
            raise ValueError("a cluster without engine nodes")
        deployed[name] = Deployed(artifact.build_id, paths, engine_environment(variant))
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
