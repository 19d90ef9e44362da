"""Results of trials that did not run to their end: never begun, or cut off from their hosts."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from perfrunner.run.plan.schedule import Task
from perfrunner.run.trial.seats import TrialResult, fresh_directory, trial_name


def not_run(task: Task, reason: str, build_error: str | None, trials_dir: Path) -> TrialResult:
    """Failed, with the build's last words where that was why."""
    now = datetime.now(timezone.utc)
    directory = fresh_directory(trials_dir / trial_name(task))
    if build_error is not None:
        (directory / "build-error.log").write_text(build_error + "\n", encoding="utf-8")
    return TrialResult(
        task=task,
        status="failed",
        reason=reason,
        started_at=now,
        finished_at=now,
        directory=directory,
    )


def cut_off(task: Task, reason: str, started: datetime, trials_dir: Path) -> TrialResult:
    """Void; what was fetched before stays."""
    directory = trials_dir / trial_name(task)
    directory.mkdir(parents=True, exist_ok=True)
    now = datetime.now(timezone.utc)
    return TrialResult(task, "void", reason, started, now, directory)
