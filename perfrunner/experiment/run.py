"""Run one experiment from its spec to its stored trials: `run_experiment`.

    lock the results directory -> create or resume a session -> ExperimentRunner (runner.py) -> RunOutcome

The remaining work is always the plan minus the trials in the store. A run that was killed at any moment can
therefore be resumed; processes and files that it left on the hosts are removed first. Analysis and reports are
separate: they only read the store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfrunner.build.cache import in_use
from perfrunner.errors import PerfrunnerError, StoreError, UsageError, require_ssh
from perfrunner.experiment import events as ev
from perfrunner.experiment.interrupt import SignalGuard
from perfrunner.experiment.outdir import JOURNAL, Journal, OutDirLock, disk_fails, disk_is_full
from perfrunner.experiment.preflight.requirements import require_sdk_here
from perfrunner.experiment.runner import ExperimentRunner
from perfrunner.experiment.session import JOB, RunContext, Session, begin, end_killed
from perfrunner.experiment.session import resume as resume_experiment
from perfrunner.results import open_store
from perfrunner.sources.model import SOURCES_FACT
from perfrunner.sources.resolve import Sources, resolve_sources, restore_sources, same_variants
from perfrunner.spec.model import Spec


@dataclass(frozen=True)
class RunRequest:
    """A run that is requested: its spec, the places of results and builds, and an earlier run to continue.

    store_url: the database; default: the one in `out_dir`.
    resume: the experiment to continue, or empty for the newest unfinished one of the spec; None: a new experiment.
    extend: number of blocks to add to a finished experiment.
    tune: tune the hosts for the duration of the run.
    command: the command line that repeats this measurement; stored for the report.
    resume_command: the command line that an interrupted run prints.
    job: id of the fleet job that this run belongs to; stored so that the worker can find the run.
    """

    spec: Spec
    spec_text: str
    spec_path: Path
    out_dir: Path
    cache_dir: Path
    engine_src: Path
    resume_command: str
    store_url: str | None = None
    seed: int | None = None
    resume: str | None = None
    extend: int = 0
    tune: bool = False
    command: Sequence[str] = ()
    job: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Return the facts that a new experiment records about its request."""
        facts: dict[str, Any] = {}
        if self.command:
            facts["command"] = list(self.command)
        if self.job:
            facts[JOB] = self.job
        return facts


def run_experiment(request: RunRequest, listener: ev.Listener) -> ev.RunOutcome:
    """Run an experiment to its end, or until something stops it, and return the outcome.

    The exit code of the outcome is 0 (every trial counts), 3 (some trials failed, the others are stored) or 130
    (interrupted). Raises PerfrunnerError when the run cannot continue. Trials measured before that remain stored.
    """
    spec, out_dir = request.spec, request.out_dir
    if spec.cluster.transport == "ssh":
        require_ssh()
    require_sdk_here(spec)
    with (
        SignalGuard() as guard,
        OutDirLock(out_dir),
        in_use(request.cache_dir),
        open_store(out_dir, request.store_url) as store,
        _report_disk(out_dir),
    ):
        end_killed(store)
        if request.resume is not None or request.extend:
            session = resume_experiment(
                store, out_dir, spec, seed=request.seed, run=request.resume, extend=request.extend
            )
            sources = _restore_sources(session, request, listener)
        else:
            sources = resolve_sources(spec, request.engine_src, request.cache_dir)
            for text in same_variants(spec, sources):
                listener.on_event(ev.Warned(text))
            session = begin(
                store,
                out_dir,
                spec,
                text=request.spec_text,
                path=request.spec_path,
                seed=request.seed,
                facts={SOURCES_FACT: sources.record(), **request.facts},
            )
        journal = Journal(session.directory / JOURNAL)
        with contextlib.closing(journal):
            context = RunContext(spec, session, store, journal, guard, listener)
            runner = ExperimentRunner(
                context, sources, request.cache_dir, request.resume_command, tune=request.tune
            )
            if session.experiment.state == "done" and runner.schedule.next() is None:
                raise UsageError(
                    f"nothing to resume: every trial of {session.experiment.id} is complete",
                    hint="add blocks to it with --extend N",
                )
            store.set_facts(session.experiment.id, session.experiment.facts)
            return runner.execute()


def _restore_sources(session: Session, request: RunRequest, listener: ev.Listener) -> Sources:
    """Return the sources recorded when the experiment was created; warn about those that have changed since."""
    recorded = session.experiment.facts.get(SOURCES_FACT)
    if recorded is None:  # created by a version that did not record sources
        return resolve_sources(request.spec, request.engine_src, request.cache_dir)
    sources, changes = restore_sources(
        recorded, request.engine_src, request.cache_dir, session.experiment.id
    )
    for change in changes:
        listener.on_event(ev.Warned(change))
    return sources


@contextlib.contextmanager
def _report_disk(out_dir: Path) -> Iterator[None]:
    """Replace any error caused by a full, read-only or broken disk with one StoreError that says so."""
    try:
        yield
    except (PerfrunnerError, OSError) as error:
        if wrong := disk_fails(error):
            todo = "free some space" if disk_is_full(error) else "make it writable"
            raise StoreError(
                f"the disk of {out_dir} {wrong}; completed trials are stored",
                hint=f"{todo}, then continue with --resume",
            ) from error
        raise
