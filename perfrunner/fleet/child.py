"""A job's run: `perfrunner run` as a child process, begun or gone on with, until it ends or is not wanted any more.

The child ends with its driver (the kernel sends it SIGTERM then), so a run never has a master that nobody knows. What
it leaves is what an interrupted run leaves: the next driver goes on with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfrunner.errors import (
    EXIT_AWAY,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_VERDICT,
    IN_USE,
    HostError,
    StoreError,
)
from perfrunner.fleet.job import Job
from perfrunner.fleet.queue import Ending, Progress
from perfrunner.results import STORE_FILE, ExperimentRecord, open_store
from perfrunner.results.database import ServerAwayError
from perfrunner.run.command import JOB_VARIABLE, PERFRUNNER, last_words, with_store
from perfrunner.run.journal import ENDS, PROGRESS, read_journal
from perfrunner.run.journal import FILE as JOURNAL
from perfrunner.run.opening import JOB

# Of util-linux. The signal comes when the thread that started it ends, which waits for it here. A driver that died
# before the signal was asked for is not its parent any more.
TIED = ("setpriv", "--pdeathsig", "TERM", "--", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
LOOK_S = 2.0  # how often it is asked whether the run is wanted
PROGRESS_S = 10.0  # and how far it is: seldom, since the driver may stand on a measured machine
WAITS_S = (
    5.0,
    10.0,
    20.0,
    40.0,
    60.0,
)  # for hosts that another run has, or a database that is away
FAIL_ON = "--fail-on"  # how a gate's last line begins
KILLED_TRIES = 3  # a child that a signal ended (out of memory) is begun again
STOP_PATIENCE_S = 60.0  # a run that is told to stop puts back what it changed
TAIL_BYTES = 20_000
UNFINISHED = ("running", "interrupted")


def require_tied() -> None:
    """HostError where a run cannot be tied to its driver."""
    if shutil.which(TIED[0]) is None:
        raise HostError(f"{TIED[0]} is not installed", "apt-get install util-linux")


@dataclass
class JobRun:
    """One job in the hands of one driver. `wanted` says whether it still is; `tell` takes each news of its progress."""

    job: Job
    wanted: Callable[[], bool]
    hurry: Callable[[], bool]
    tell: Callable[[Progress], None]
    told: Progress = field(default_factory=Progress)
    waits: int = 0

    @property
    def log(self) -> Path:
        return Path(self.job.out) / "fleet" / f"{self.job.id}.log"

    def carry_out(self) -> Ending | None:
        """None where it was not wanted any more before its end."""
        try:
            return self._until_its_end()
        except ServerAwayError:  # `find` waits for it as long as the job is wanted
            return None

    def _until_its_end(self) -> Ending | None:
        killed = 0
        while self.wanted():
            run = self.find()
            if run is not None and (ending := self._ended_before(run)) is not None:
                return ending
            words = self.job.first_words() if run is None else self.job.words_again(run.id)
            ended = self._call(words)
            if ended is None:
                return None
            code, lines = ended
            if code == EXIT_AWAY or (code != EXIT_OK and IN_USE in last_words(lines)):
                self._wait(last_words(lines))
            elif code < 0 and killed < KILLED_TRIES:
                killed += 1
            else:
                run = self.find()
                return _ending(code, lines, run.id if run is not None else "")
        return None

    def find(self) -> ExperimentRecord | None:
        """The experiment that this job began, whichever driver had it then. A server of results may be away."""
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
        """Where it ended while no driver looked: as its journal says. None where there is something left to do."""
        if run.state in UNFINISHED:
            return None
        ends = [e for e in self._journal(run.id) if e["event"] in ENDS]
        last = ends[-1] if ends else {}
        code, said = int(last.get("exit", EXIT_FAILED)), str(last.get("error", ""))
        if IN_USE in said or code == EXIT_AWAY:  # it never had its hosts, or its database went
            return None
        if code == EXIT_OK and FAIL_ON in self.job.always:
            said = f"its driver was gone when it ended, so {FAIL_ON} was not judged: see perfrunner report"
        return Ending(code, run.id, said)

    def _call(self, words: list[str]) -> tuple[int, list[str]] | None:
        """Exit code (below 0: a signal) and what it said; None where it was stopped from here."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write((" ".join(["$ perfrunner", *words]) + "\n").encode())
            log.flush()
            before = log.tell()
            process = self._start(words, log)
            try:
                wanted = self._watch(process)
            finally:
                if process.poll() is None:
                    self._stop(process)
        return (process.returncode, self._said_since(before)) if wanted else None

    def _start(self, words: list[str], log: Any) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*TIED, str(os.getpid()), *PERFRUNNER, *words],
                cwd=self.job.directory,
                env=with_store({**os.environ, JOB_VARIABLE: self.job.id}, self.job.store),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the driver's terminal is the driver's to pass on
            )
        except FileNotFoundError as error:
            raise HostError(
                f"{error.filename} is not on {socket.gethostname()}, the driver's machine",
                "a job needs the directory that it was submitted from",
            ) from error

    def _watch(self, process: subprocess.Popen[bytes]) -> bool:
        """Until it ends (True) or is not wanted any more."""
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
            with contextlib.suppress(StoreError):  # busy, away, or only just being made
                run = run or self._find()
                if run is not None:
                    self._tell(self._progress(run.id))

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """SIGTERM ends a run in order; a second one at once; then there is nothing left to ask."""
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
        self._tell(replace(self.told, waiting=why.removeprefix("error: "), seconds_left=None))
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
        if progress != self.told:
            self.tell(progress)
            self.told = progress

    def _journal(self, experiment: str) -> list[Any]:
        return list(read_journal(Path(self.job.out) / experiment / JOURNAL))

    def _said_since(self, start: int) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(max(start, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read().decode("utf-8", errors="replace").splitlines()


def _ending(code: int, lines: list[str], experiment: str) -> Ending:
    if code == EXIT_OK:
        return Ending(code, experiment)
    if code < 0:
        name = signal.Signals(-code).name
        return Ending(EXIT_FAILED, experiment, f"ended by {name}, {KILLED_TRIES + 1} times")
    said = last_words(lines).removeprefix("error: ")
    if code == EXIT_VERDICT and not said.startswith(FAIL_ON):  # a program that could not begin
        code = EXIT_FAILED
    return Ending(code, experiment, said)
