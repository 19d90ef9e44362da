"""A step's comparison: the good end and a commit, built, proved and run as any experiment is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.bisect.search import Measured
from perfrunner.bisect.state import BisectState
from perfrunner.build.manifest import sums_of
from perfrunner.build.provenance import PROVENANCE
from perfrunner.errors import EXIT_INTERRUPTED, BuildError, ProofError, UsageError
from perfrunner.spec.model import Spec
from perfrunner.spec.pair import pair, spec_document
from perfrunner.spec.source import SourceSpec

if TYPE_CHECKING:
    from perfrunner.build import Artifact
    from perfrunner.run.events import Listener
    from perfrunner.source import Sources

_WHY_LINES = 4  # of a compiler's message


class BisectInterruptedError(Exception):
    """Ctrl-C during a step: what was measured is stored, and the step goes on with --resume."""


@dataclass(frozen=True)
class Comparer:
    """Calls of it are Search's `measure`."""

    base: Spec
    state: BisectState
    out_dir: Path
    store_url: str | None
    cache_dir: Path
    engine_src: Path
    listener: Listener
    resume_command: str
    kept: Callable[[str, str], Path]  # a spec's text and name -> the file that it is kept in

    def __call__(self, commit: str, blocks: int | None) -> Measured:
        """A commit that cannot be built or proved has nothing to judge; a good end that cannot is an error."""
        from perfrunner.source import resolve_sources

        spec = self._spec(commit, blocks)
        name = commit[:12]
        try:
            sources = resolve_sources(spec, self.engine_src, self.cache_dir)
        except UsageError as error:
            if not error.message.startswith(f"variant {name}: "):
                raise
            return Measured(why=error.message)
        content = sources.of[name].sha256
        if content == sources.of[spec.baseline].sha256:
            return Measured("the same engine as the good end", outcome="good", content=content)
        for step in self.state.steps:
            if step.content == content and step.commit != commit:
                same = f"the same engine as {step.commit[:12]}"
                return Measured(same, outcome=step.outcome, content=content)
        good = _programs(self._build(spec, spec.baseline, sources))
        try:
            programs = _programs(self._build(spec, name, sources))
        except BuildError as error:
            lines = error.message.splitlines()[:_WHY_LINES]
            return Measured(
                f"does not build: {' | '.join(s.strip() for s in lines)}", content=content
            )
        measured = self._as_programs_tell(commit, programs, good) or self._run(spec, name)
        return replace(measured, content=content, programs=programs)

    def _as_programs_tell(self, commit: str, programs: str, good: str) -> Measured | None:
        """A commit that changes none of the programs that are measured has nothing to be measured for."""
        if programs == good:
            return Measured("the same programs as the good end", outcome="good")
        for step in self.state.steps:
            if step.programs == programs and step.commit != commit:
                return Measured(f"the same programs as {step.commit[:12]}", outcome=step.outcome)
        return None

    def _spec(self, commit: str, blocks: int | None) -> Spec:
        good = self.state.good
        arms = {f"good-{good[:12]}": SourceSpec(git=good), commit[:12]: SourceSpec(git=commit)}
        spec = pair(self.base, f"bisect-{self.base.name}", arms)
        changes = {"blocks": blocks, "precision": None} if blocks is not None else {}
        return spec.only_compared().model_copy(update=changes)

    def _build(self, spec: Spec, name: str, sources: Sources) -> Artifact:
        from perfrunner.build.place import open_builder
        from perfrunner.run.events import BuildFinished, BuildProgress, BuildStarted
        from perfrunner.run.preflight.builds import programs_wanted

        tell = self.listener.on_event
        tell(BuildStarted(name))
        with open_builder(spec.cluster, self.cache_dir, f"bisect-{name}") as builder:
            artifact = builder.build(
                spec.variants[name],
                sources.path(name),
                lambda line: tell(BuildProgress(name, line)),
                programs_wanted(spec, sources),
            )
        tell(BuildFinished(name, artifact.build_id, artifact.cached, artifact.seconds))
        return artifact

    def _run(self, spec: Spec, name: str) -> Measured:
        from perfrunner.run.runner import run_experiment

        text = spec_document(spec)
        try:
            outcome = run_experiment(
                spec,
                spec_text=text,
                spec_path=self.kept(text, spec.name),
                out_dir=self.out_dir,
                store_url=self.store_url,
                cache_dir=self.cache_dir,
                engine_src=self.engine_src,
                listener=self.listener,
                resume=self._unfinished(spec),
                resume_command=self.resume_command,
            )
        except ProofError as error:
            if f"variant {name}:" not in error.message:
                raise
            return Measured(f"cannot be proved: {error.message}")
        if outcome.exit_code == EXIT_INTERRUPTED:
            raise BisectInterruptedError
        return self._measured(outcome.experiment_id, name, outcome.failures)

    def _unfinished(self, spec: Spec) -> bool:
        """Whether a run of this very comparison was cut short."""
        from perfrunner.results import open_store
        from perfrunner.run.opening import differences

        with open_store(self.out_dir, self.store_url) as store:
            return any(
                experiment.name == spec.name
                and experiment.state in ("running", "interrupted")
                and not differences(experiment.spec_json, spec)
                for experiment in store.own()
            )

    def _measured(self, experiment: str, name: str, failures: tuple[str, ...]) -> Measured:
        from perfrunner.analysis import compare
        from perfrunner.results import open_store

        with open_store(self.out_dir, self.store_url, create=False) as store:
            comparison = compare(store.load(experiment))
        row = next(
            (
                row
                for row in comparison.rows
                if row.metric.id == self.state.metric and row.variant == name
            ),
            None,
        )
        if row is None or row.effect is None:
            reason = row.reason if row is not None else f"{self.state.metric} was not measured"
            why = "; ".join(filter(None, [reason, *failures[:1]]))
            return Measured(why, experiment=experiment)
        low, high = row.effect.ci95 or (None, None)
        return Measured(
            kind=row.effect.kind,
            estimate=row.effect.estimate,
            low=low,
            high=high,
            verdict=row.verdict,
            blocks=row.effect.n,
            experiment=experiment,
        )


def _programs(artifact: Artifact) -> str:
    """One sum over all that an artifact holds but where it comes from."""
    sums = {name: of for name, of in sums_of(artifact.path).items() if name != PROVENANCE}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
