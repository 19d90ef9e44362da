"""Execute the run of a job: `perfrunner run` as a child process, started or resumed.

The child ends with its worker: the kernel sends it SIGTERM, so no run continues without a worker. It
then leaves the data of an interrupted run, which the next worker resumes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfrunner.children import JOB_VARIABLE, PERFRUNNER, log_tail, tied, with_store
from perfrunner.errors import (
    EXIT_AWAY,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_VERDICT,
    IN_USE,
    HostError,
    StoreError,
)
from perfrunner.experiment.outdir import ENDS, JOURNAL, PROGRESS, read_journal
from perfrunner.experiment.session import JOB
from perfrunner.fleet.job import Ending, Job, Progress
from perfrunner.paths import STORE_FILE
from perfrunner.results import ExperimentRecord, open_store
from perfrunner.results.database_errors import ServerAwayError

LOOK_S = 2.0  # interval of the check whether the job is still wanted
PROGRESS_S = 10.0  # interval of progress reports; long, as the worker may be on a measured machine
# Waiting times for hosts that another run uses, or for a database that is unavailable.
WAITS_S = (5.0, 10.0, 20.0, 40.0, 60.0)
FAIL_ON = "--fail-on"  # start of the last line of a run that --fail-on failed
KILLED_TRIES = 3  # how often a child that a signal ended (out of memory) is started again
STOP_PATIENCE_S = 60.0  # time for a stopping run to restore what it changed
TAIL_BYTES = 20_000
UNFINISHED = ("running", "interrupted")


@dataclass
class JobRun:
    """The execution of one job by one worker.

    `wanted` returns whether the job is still this worker's, `hurry` whether to stop at once; `tell`
    receives each change of the progress.
    """

    job: Job
    wanted: Callable[[], bool]
    hurry: Callable[[], bool]
    tell: Callable[[Progress], None]
    last_progress: Progress = field(default_factory=Progress)
    waits: int = 0

    @property
    def log(self) -> Path:
        """The file with the output of the run."""
        return Path(self.job.out) / "fleet" / f"{self.job.id}.log"

    def carry_out(self) -> Ending | None:
        """Run the job to its end; return None if it is no longer wanted before that."""
        try:
            return self._run_to_end()
        except ServerAwayError:  # `find` waits for the server while the job is wanted
            return None

    def _run_to_end(self) -> Ending | None:
        killed = 0
        while self.wanted():
            run = self.find()
            if run is not None and (ending := self._ended_before(run)) is not None:
                return ending
            args = self.job.run_args() if run is None else self.job.resume_args(run.id)
            ended = self._call(args)
            if ended is None:
                return None
            code, lines = ended
            if code == EXIT_AWAY or (code != EXIT_OK and IN_USE in log_tail(lines)):
                self._wait(log_tail(lines))
            elif code < 0 and killed < KILLED_TRIES:
                killed += 1
            else:
                run = self.find()
                return _ending(code, lines, run.id if run is not None else "")
        return None

    def find(self) -> ExperimentRecord | None:
        """Return the experiment that this job started on any worker; wait while the server is away."""
        while True:
            try:
                return self._find()
            except ServerAwayError:
                if not self.wanted():
                    raise
                time.sleep(LOOK_S)

    def _find(self) -> ExperimentRecord | None:
        out = Path(self.job.out)
        if self.job.store is None and not (out / STORE_FILE).is_file():
            return None
        with open_store(out, self.job.store) as store:
            known = store.own()
        return next((e for e in reversed(known) if e.facts.get(JOB) == self.job.id), None)

    def _ended_before(self, run: ExperimentRecord) -> Ending | None:
        """Return the ending of a run that ended without a worker, from its journal.

        None means that something is left to do.
        """
        if run.state in UNFINISHED:
            return None
        ends = [e for e in self._journal(run.id) if e["event"] in ENDS]
        last = ends[-1] if ends else {}
        code, message = int(last.get("exit", EXIT_FAILED)), str(last.get("error", ""))
        if IN_USE in message or code == EXIT_AWAY:  # it never got its hosts, or lost its database
            return None
        if code == EXIT_OK and FAIL_ON in self.job.always:
            message = (
                f"{FAIL_ON} was not applied, because the worker had ended before the run:"
                " see perfrunner report"
            )
        return Ending(code, run.id, message)

    def _call(self, args: list[str]) -> tuple[int, list[str]] | None:
        """Run perfrunner; return its exit code (negative: a signal) and its last output lines.

        None means that the run was stopped because the job is no longer wanted.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write((" ".join(["$ perfrunner", *args]) + "\n").encode())
            log.flush()
            before = log.tell()
            process = self._start(args, log)
            try:
                wanted = self._watch(process)
            finally:
                if process.poll() is None:
                    self._stop(process)
        return (process.returncode, self._output_since(before)) if wanted else None

    def _start(self, args: list[str], log: Any) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*tied(), *PERFRUNNER, *args],
                cwd=self.job.directory,
                env=with_store({**os.environ, JOB_VARIABLE: self.job.id}, self.job.store),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the worker only, which stops the run
            )
        except FileNotFoundError as error:
            raise HostError(
                f"{error.filename} does not exist on {socket.gethostname()}, the worker's machine",
                "make the directory that the job was submitted from available there",
            ) from error

    def _watch(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until the process ends (True) or the job is no longer wanted (False)."""
        run: ExperimentRecord | None = None
        looked = time.monotonic()
        while True:
            try:
                process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                pass
            else:
                return True
            if not self.wanted():
                return False
            if time.monotonic() - looked < PROGRESS_S:
                continue
            looked = time.monotonic()
            with contextlib.suppress(StoreError):  # busy, unavailable, or just being created
                run = run or self._find()
                if run is not None:
                    self._tell(self._progress(run.id))

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a run: SIGTERM for a clean stop, a second SIGTERM for an immediate one, then SIGKILL."""
        until = time.monotonic() + STOP_PATIENCE_S
        process.send_signal(signal.SIGTERM)
        while process.poll() is None and time.monotonic() < until and not self.hurry():
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self, why: str) -> None:
        waiting = replace(
            self.last_progress, waiting=why.removeprefix("error: "), seconds_left=None
        )
        self._tell(waiting)
        until = time.monotonic() + WAITS_S[min(self.waits, len(WAITS_S) - 1)]
        self.waits += 1
        while time.monotonic() < until and self.wanted():
            time.sleep(LOOK_S)

    def _progress(self, experiment: str) -> Progress:
        records = [e for e in self._journal(experiment) if e["event"] == PROGRESS]
        if not records:
            return Progress(experiment)
        last = records[-1]
        return Progress(
            experiment=experiment,
            finished=last["trials_finished"],
            total=last["trials_total"],
            seconds_left=last["seconds_left"],
            at=last["at"],
        )

    def _tell(self, progress: Progress) -> None:
        if progress != self.last_progress:
            self.tell(progress)
            self.last_progress = progress

    def _journal(self, experiment: str) -> list[Any]:
        return list(read_journal(Path(self.job.out) / experiment / JOURNAL))

    def _output_since(self, start: int) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(max(start, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read().decode("utf-8", errors="replace").splitlines()


def _ending(code: int, lines: list[str], experiment: str) -> Ending:
    if code == EXIT_OK:
        return Ending(code, experiment)
    if code < 0:
        name = signal.Signals(-code).name
        return Ending(EXIT_FAILED, experiment, f"ended by {name}, {KILLED_TRIES + 1} times")
    message = log_tail(lines).removeprefix("error: ")
    if code == EXIT_VERDICT and not message.startswith(FAIL_ON):  # the program did not start
        code = EXIT_FAILED
    return Ending(code, experiment, message)
