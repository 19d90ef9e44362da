"""Measure a step of a bisection: build, check and run the good revision and a commit as an experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.bisect.search import BisectState, Measured
from perfrunner.build.artifact import PROVENANCE, sums_of
from perfrunner.errors import EXIT_INTERRUPTED, BuildError, SettingsCheckError, UsageError
from perfrunner.spec.model import Spec
from perfrunner.spec.pair import pair, spec_document
from perfrunner.spec.source import SourceSpec

if TYPE_CHECKING:
    from perfrunner.analysis.model import Comparison
    from perfrunner.build.artifact import Artifact
    from perfrunner.experiment.events import Event, Listener
    from perfrunner.sources.resolve import Sources

_WHY_LINES = 4  # lines of a compiler's message that are kept


class BisectInterruptedError(Exception):
    """Ctrl-C during a step; the measurements are stored, and --resume continues the step."""


@dataclass(frozen=True)
class Comparer:
    """The `measure` function of a Search.

    `kept` stores the text of a spec under a name and returns its path.
    """

    base: Spec
    state: BisectState
    out_dir: Path
    store_url: str | None
    cache_dir: Path
    engine_src: Path
    listener: Listener
    resume_command: str
    kept: Callable[[str, str], Path]

    def __call__(self, commit: str, blocks: int | None) -> Measured:
        """Compare a commit with the good revision.

        Without an estimate if the commit cannot be built or checked. Raises an error if the good
        revision cannot, or if the reason is the machine or the clone, and not the commit.
        """
        from perfrunner.sources.resolve import resolve_sources

        spec = self._spec(commit, blocks)
        name = commit[:12]
        try:
            sources = resolve_sources(spec, self.engine_src, self.cache_dir)
        except UsageError as error:
            if error.of_machine or not error.message.startswith(f"variant {name}: "):
                raise
            return Measured(why=error.message)
        if spec.variants[name].server is not None:
            return self._server(spec, name, sources)
        content = sources.of[name].sha256
        if content == sources.of[spec.baseline].sha256:
            return Measured("same engine as the good revision", outcome="good", content=content)
        for step in self.state.steps:
            if step.content == content and step.commit != commit:
                why = f"same engine as {step.commit[:12]}"
                return Measured(why, outcome=step.outcome, content=content)
        good = _programs(self._build(spec, spec.baseline, sources))
        try:
            programs = _programs(self._build(spec, name, sources))
        except BuildError as error:
            if error.of_machine:
                raise
            return replace(_unbuilt(error), content=content)
        measured = self._by_programs(commit, programs, good) or self._run(spec, name)
        return replace(measured, content=content, programs=programs)

    def _server(self, spec: Spec, name: str, sources: Sources) -> Measured:
        """Measure a commit of another server.

        Its checkout may have more than the program, so that equal programs do not make equal servers.
        """
        from perfrunner.experiment.events import BuildFinished, BuildStarted
        from perfrunner.servers.prepare import prepare

        tell = self.listener.on_event
        remote = spec.cluster.transport == "ssh"
        for variant in (spec.baseline, name):
            commit = sources.servers[variant].sha
            tell(BuildStarted(variant))
            try:
                built = prepare(
                    spec.variants[variant],
                    self.cache_dir,
                    self.engine_src,
                    commit,
                    partial(_tell_progress, tell, variant),
                    remote=remote,
                )
                tell(BuildFinished(variant, built.build_id, built.cached, built.seconds))
            except (BuildError, UsageError) as error:
                if variant == spec.baseline or error.of_machine:
                    raise
                return _unbuilt(error)
        return self._run(spec, name)

    def _by_programs(self, commit: str, programs: str, good: str) -> Measured | None:
        """Judge a commit without a measurement if its built programs equal those of another one."""
        if programs == good:
            return Measured("same programs as the good revision", outcome="good")
        for step in self.state.steps:
            if step.programs == programs and step.commit != commit:
                return Measured(f"same programs as {step.commit[:12]}", outcome=step.outcome)
        return None

    def _spec(self, commit: str, blocks: int | None) -> Spec:
        good = self.state.good
        variants = {f"good-{good[:12]}": SourceSpec(git=good), commit[:12]: SourceSpec(git=commit)}
        spec = pair(self.base, f"bisect-{self.base.name}", variants)
        changes = {"blocks": blocks, "precision": None} if blocks is not None else {}
        return spec.only_compared().model_copy(update=changes)

    def _build(self, spec: Spec, name: str, sources: Sources) -> Artifact:
        from perfrunner.build.builders import open_builder
        from perfrunner.experiment.events import BuildFinished, BuildStarted
        from perfrunner.experiment.preflight.builds import programs_wanted

        tell = self.listener.on_event
        tell(BuildStarted(name))
        with open_builder(spec.cluster, self.cache_dir, f"bisect-{name}") as builder:
            artifact = builder.build(
                spec.variants[name],
                sources.path(name),
                partial(_tell_progress, tell, name),
                programs_wanted(spec, sources),
            )
        tell(BuildFinished(name, artifact.build_id, artifact.cached, artifact.seconds))
        return artifact

    def _run(self, spec: Spec, name: str) -> Measured:
        from perfrunner.experiment.run import RunRequest, run_experiment

        text = spec_document(spec)
        request = RunRequest(
            spec=spec,
            spec_text=text,
            spec_path=self.kept(text, spec.name),
            out_dir=self.out_dir,
            store_url=self.store_url,
            cache_dir=self.cache_dir,
            engine_src=self.engine_src,
            resume="" if self._unfinished(spec) else None,
            resume_command=self.resume_command,
        )
        try:
            outcome = run_experiment(request, self.listener)
        except SettingsCheckError as error:
            if f"variant {name}:" not in error.message:
                raise
            return Measured(f"cannot be checked: {error.message}")
        if outcome.exit_code == EXIT_INTERRUPTED:
            raise BisectInterruptedError
        return self._measured(outcome.experiment_id, name, outcome.failures)

    def _unfinished(self, spec: Spec) -> bool:
        """Return whether a run of this comparison was interrupted."""
        from perfrunner.experiment.session import differences
        from perfrunner.results import open_store

        with open_store(self.out_dir, self.store_url) as store:
            return any(
                experiment.name == spec.name
                and experiment.state in ("running", "interrupted")
                and not differences(experiment.spec_json, spec)
                for experiment in store.own()
            )

    def _measured(self, experiment: str, name: str, failures: tuple[str, ...]) -> Measured:
        from perfrunner.analysis.compare import compare
        from perfrunner.results import open_store

        with open_store(self.out_dir, self.store_url, create=False) as store:
            data = store.load(experiment)
        measured = result_of(compare(data), self.state.metric, name, failures)
        return replace(measured, experiment=experiment)


def result_of(
    comparison: Comparison, metric: str, name: str, failures: tuple[str, ...] = ()
) -> Measured:
    """Return what a comparison says of a variant; without an estimate if it says nothing, or is not comparable."""
    row = next(
        (row for row in comparison.rows if row.metric.id == metric and row.variant == name), None
    )
    if row is None or row.effect is None or row.verdict == "not comparable":
        reason = row.reason if row is not None else f"{metric} was not measured"
        return Measured("; ".join(filter(None, [reason, *failures[:1]])))
    low, high = row.effect.ci95 or (None, None)
    return Measured(
        why=row.reason,
        kind=row.effect.kind,
        estimate=row.effect.estimate,
        low=low,
        high=high,
        verdict=row.verdict,
        blocks=row.effect.n,
    )


def _tell_progress(tell: Callable[[Event], None], variant: str, line: str) -> None:
    from perfrunner.experiment.events import BuildProgress

    tell(BuildProgress(variant, line))


def _unbuilt(error: BuildError | UsageError) -> Measured:
    lines = error.message.splitlines()[:_WHY_LINES]
    return Measured(f"does not build: {' | '.join(s.strip() for s in lines)}")


def _programs(artifact: Artifact) -> str:
    """Return a checksum of the files of an artifact, except its provenance."""
    sums = {name: sum_ for name, sum_ in sums_of(artifact.path).items() if name != PROVENANCE}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
