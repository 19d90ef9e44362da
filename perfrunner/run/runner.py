"""`run_experiment`: one experiment from its spec to its stored trials.

    lock the results directory -> begin or resume -> run (underway.py) -> the outcome

What is left to do is always the plan minus the trials in the store, so a run that was killed at any moment goes on with
`resume`; what a killed run left on a host is swept before anything else. Analysis and reports are not here: they read
the store.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from perfrunner.build.cache import in_use
from perfrunner.cluster.extra import require_ssh
from perfrunner.errors import (
    PerfrunnerError,
    StoreError,
    UsageError,
)
from perfrunner.results import open_store
from perfrunner.run import events as ev
from perfrunner.run.diskspace import disk_is_full
from perfrunner.run.interrupt import SignalGuard
from perfrunner.run.journal import FILE as JOURNAL
from perfrunner.run.journal import Journal
from perfrunner.run.lock import OutDirLock
from perfrunner.run.opening import JOB, Opened, begin
from perfrunner.run.opening import resume as resume_experiment
from perfrunner.run.preflight.sdk import require_sdk_here
from perfrunner.run.underway import RunUnderWay
from perfrunner.source import FACT as SOURCES
from perfrunner.source import Sources, resolve_sources, restore_sources, same_arms
from perfrunner.spec.model import Spec
from perfrunner.workloads.registry import check_runnable


def run_experiment(
    spec: Spec,
    *,
    spec_text: str,
    spec_path: Path,
    out_dir: Path,
    store_url: str | None = None,
    engine_src: Path,
    cache_dir: Path,
    listener: ev.Listener,
    resume: bool = False,
    seed: int | None = None,
    workloads: tuple[str, ...] | None = None,
    variants: tuple[str, ...] | None = None,
    resume_command: str | None = None,
    command: Sequence[str] = (),
    run: str | None = None,
    extend: int = 0,
    quieten: bool = False,
    job: str | None = None,
) -> ev.RunOutcome:
    """Run it to its end, or until something stops it.

    Returns with exit code 0 (every trial counts), 3 (some failed, the rest is stored) or 130 (interrupted). Raises
    PerfrunnerError when the run itself cannot go on; what was measured until then is stored all the same. `command` is
    kept for the report: what measures the same again. `resume` goes on with the newest unfinished experiment of the
    spec, or with `run`; `extend` adds blocks. `quieten` tunes the hosts for as long as it runs. `job` is
    kept, too: who began the run finds it again by it. `store_url` is the database, where it is not the directory's own.
    """
    spec = spec.restricted(workloads, variants)
    for workload in spec.workloads.values():
        check_runnable(workload.type)
    if spec.cluster.transport == "ssh":
        require_ssh()
    require_sdk_here(spec)
    go_on = resume_command or shlex.join(
        ["perfrunner", "run", str(spec_path), "--out", str(out_dir), "--resume"]
    )
    with (
        SignalGuard() as guard,
        OutDirLock(out_dir),
        in_use(cache_dir),
        open_store(out_dir, store_url) as store,
        _clear_when_full(out_dir),
    ):
        if resume or extend:
            opened = resume_experiment(store, out_dir, spec, seed=seed, run=run, extend=extend)
            sources = _sources_again(opened, spec, engine_src, cache_dir, listener)
        else:
            sources = resolve_sources(spec, engine_src, cache_dir)
            for text in same_arms(spec, sources):
                listener.on_event(ev.Warned(text))
            facts: dict[str, Any] = {SOURCES: sources.record()}
            if command:
                facts["command"] = list(command)
            if job:
                facts[JOB] = job
            opened = begin(
                store, out_dir, spec, text=spec_text, path=spec_path, seed=seed, facts=facts
            )
        journal = Journal(opened.directory / JOURNAL)
        with contextlib.closing(journal):
            running = RunUnderWay(
                spec, opened, store, journal, guard, listener, sources, cache_dir, go_on
            )
            running.quieten = quieten
            if opened.experiment.state == "done" and running.schedule.next() is None:
                raise UsageError(
                    f"nothing to resume: every cell of {opened.experiment.id} counts",
                    hint="--extend N adds blocks to it",
                )
            store.set_facts(opened.experiment.id, opened.experiment.facts)
            return running.execute()


def _sources_again(
    opened: Opened, spec: Spec, engine_src: Path, cache_dir: Path, listener: ev.Listener
) -> Sources:
    """Those that the experiment was begun with, whatever became of them since."""
    recorded = opened.experiment.facts.get(SOURCES)
    if recorded is None:  # begun by a perfrunner that did not record them
        return resolve_sources(spec, engine_src, cache_dir)
    sources, changes = restore_sources(recorded, engine_src, cache_dir, opened.experiment.id)
    for change in changes:
        listener.on_event(ev.Warned(change))
    return sources


@contextlib.contextmanager
def _clear_when_full(out_dir: Path) -> Iterator[None]:
    """Whatever met the full disk first, it is said in one sentence."""
    try:
        yield
    except (PerfrunnerError, OSError) as error:
        if disk_is_full(error):
            raise StoreError(
                f"the disk of {out_dir} is full; what was measured until now is stored",
                hint="free some space and go on with --resume",
            ) from error
        raise
