"""Trials in progress, for tests of what drives their servers, clients and programs."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

from perfrunner.domain import TrialKey
from perfrunner.experiment.trial.context import TrialContext
from perfrunner.experiment.trial.placement import Deployed
from perfrunner.experiment.trial.reproduce import ScriptRecorder


def open_trial(
    directory: Path,
    recorder: ScriptRecorder | None = None,
    *,
    deadline: float = math.inf,
    artifact: str = "/a",
) -> TrialContext:
    """Return the trial of one variant on this machine, whose artifact provides the tools as well."""
    paths = {"local": artifact}
    return TrialContext(
        task=TrialKey(1, 1, 1, "pillowfight", "persistent", "v", group=0),
        deployed=Deployed("build", paths, {}, paths),
        directory=directory,
        remote_name="trial",
        recorder=recorder or ScriptRecorder("test"),
        run_id="r",
        deadline=deadline,
        shield=contextlib.nullcontext,
    )
