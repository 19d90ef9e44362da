"""The nouns of a trial: where it runs, what runs there, what it came to."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from perfrunner.cluster.transport import Transport
from perfrunner.run.events import TrialStatus
from perfrunner.run.plan.schedule import Task
from perfrunner.run.trial.credentials import CredentialFiles


@dataclass(frozen=True)
class Seat:
    """A host of the run: where its runs lie, where its secret lies, how clients reach it."""

    host: Transport
    run_dir: str  # <work_dir>/runs/<run id>
    credentials: CredentialFiles
    address: str
    listen: str
    ssh: str | None  # the command that reaches it; None: this machine


@dataclass(frozen=True)
class Deployed:
    """A variant ready to run: its artifact's place on each host, and the environment its engine gets.

    `tools` is the artifact whose load generators and samplers all variants are measured with.
    """

    build_id: str
    paths: Mapping[str, str]  # host name -> absolute path of the artifact
    env: Mapping[str, str]
    tools: Mapping[str, str]  # host name -> absolute path of the tools' artifact
    layout_seed: int | None = (
        None  # of the order that its programs are linked in; None: as they were built
    )


@dataclass(frozen=True)
class TrialResult:
    """What a trial came to; `directory` holds what it left."""

    task: Task
    status: TrialStatus
    reason: str
    started_at: datetime
    finished_at: datetime
    directory: Path
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()


def trial_name(task: Task) -> str:
    """The directory of a trial below `trials/`."""
    name = f"{task.block}-{task.workload}-{task.bucket}-{task.variant}"
    group = f"-e{task.ensemble}" if task.ensemble > 1 else ""
    again = f"-{task.attempt}" if task.attempt > 1 else ""
    return f"{name}{group}{again}"


def remote_name(task: Task, variants: Iterable[str]) -> str:
    """Of a trial's directory on the hosts: as long for every variant, for the heap holds paths and grows with them."""
    return trial_name(task) + "_" * (max(map(len, variants)) - len(task.variant))


def fresh_directory(path: Path) -> Path:
    """Empty: whatever a killed run left of the same trial goes."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path
