"""One trial: a fresh engine on empty data, the workload's scenario, a clean stop, the verdict whether it counts.

A workload that is a tool's (a micro-benchmark) starts no engine; all else is the same.
Reads top to bottom in `TrialRunner.run`. Everything a trial left is in its directory on this machine when `run`
returns or raises; nothing of it is left on the hosts. A crash, a client's failure or a time-out make it *failed*;
a rule of validity.py makes it *void*; both keep their logs. A lost link, a full disk here and Ctrl-C are not the
trial's: they are raised.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from perfrunner.cluster.transport import LinkLost, Transport
from perfrunner.errors import HostError, PerfrunnerError, TrialError
from perfrunner.run.diskspace import disk_is_full
from perfrunner.run.events import TrialStatus
from perfrunner.run.plan.schedule import Task
from perfrunner.run.trial.credentials import CredentialFiles
from perfrunner.run.trial.engine import Engine, EngineSetup
from perfrunner.run.trial.reproduce import PADDING_NAME, Recorder
from perfrunner.run.trial.serverbench import SAMPLE_INTERVAL_MS, Bench, ClientSeat
from perfrunner.run.trial.toolbench import ToolBench
from perfrunner.run.trial.validity import void_reasons
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload
from perfrunner.workloads.bench import Measured
from perfrunner.workloads.registry import scenario_for, tool_scenario_for

PADDING_MAX = 4096  # bytes of environment that are varied: stack placement depends on it
START_TIMEOUT_S = 60.0
ABANDON_GRACE_S = 2.0  # for what is stopped because the trial is given up


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
    """A variant ready to run: its artifact's place on each host, and the environment its engine gets."""

    build_id: str
    paths: Mapping[str, str]  # host name -> absolute path of the artifact
    env: Mapping[str, str]


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


@dataclass
class TrialRunner:
    """Runs the trials of one experiment, one at a time."""

    spec: Spec
    run_id: str
    seed: int
    engine_nodes: Sequence[Seat]
    load_clients: Sequence[Seat]
    trials_dir: Path
    shield: Callable[[], AbstractContextManager[None]]
    on_phase: Callable[[str, float | None], None]
    host_changes: Callable[[], list[str]]  # host facts that no longer hold
    hurry: Callable[[], bool]  # a second Ctrl-C: no grace, and nothing is fetched

    def run(
        self, task: Task, deployed: Deployed, *, sample_interval_ms: int = SAMPLE_INTERVAL_MS
    ) -> TrialResult:
        started_at = datetime.now(timezone.utc)
        directory = fresh_directory(self.trials_dir / trial_name(task))
        measured: Measured | None = None
        facts: dict[str, object] = {}
        try:
            measured = self._measure(task, deployed, directory, facts, sample_interval_ms)
            facts.update(measured.facts)
            reasons = void_reasons(measured, self.spec.limits) + self.host_changes()
            status: TrialStatus = "void" if reasons else "ok"
            reason = "; ".join(reasons)
        except (TrialError, HostError) as error:
            if isinstance(error, LinkLost) or disk_is_full(error):
                raise
            status, reason = "failed", str(error)
        return TrialResult(
            task=task,
            status=status,
            reason=reason,
            started_at=started_at,
            finished_at=datetime.now(timezone.utc),
            directory=directory,
            metrics=measured.metrics if measured is not None and status != "failed" else {},
            facts=facts,
        )

    def _measure(
        self,
        task: Task,
        deployed: Deployed,
        directory: Path,
        facts: dict[str, object],
        sample_interval_ms: int,
    ) -> Measured:
        workload = self.spec.workloads[task.workload]
        if isinstance(workload, ToolWorkload):
            with self._tool_bench(task, deployed, directory, facts) as tool_bench:
                return tool_scenario_for(workload.type)(tool_bench, workload)
        with self._bench(task, deployed, directory, facts) as bench:
            bench.sample_interval_ms = sample_interval_ms
            measured = scenario_for(workload.type)(bench, workload)
            self._keep_final_stats(bench, directory)
            bench.phase("stop")
            for engine in bench.engines:
                engine.stop()
            return measured

    @contextlib.contextmanager
    def _tool_bench(
        self, task: Task, deployed: Deployed, directory: Path, facts: dict[str, object]
    ) -> Iterator[ToolBench]:
        """An empty directory on the first engine node, and no engine; on the way out as after a server's trial."""
        seat = self.engine_nodes[0]
        bench = ToolBench(
            host=seat.host,
            artifact=deployed.paths[seat.host.name],
            remote=f"{seat.run_dir}/{trial_name(task)}",
            directory=directory,
            variant=self.spec.variants[task.variant],
            env=self._environment(task, deployed, facts),
            recorder=self._recorder(task, deployed, [seat]),
            run_id=self.run_id,
            deadline=time.monotonic() + self.spec.limits.trial_timeout,
            on_phase=self.on_phase,
            shield=self.shield,
        )
        try:
            bench.phase("start")
            seat.host.remove_tree(bench.remote)  # what a killed run left
            seat.host.makedirs(bench.remote)
            yield bench
        finally:
            self._leave(bench, [], {seat.host.name: seat}, trial_name(task), directory)

    def _environment(
        self, task: Task, deployed: Deployed, facts: dict[str, object]
    ) -> dict[str, str]:
        """The variant's, and as many bytes of padding as this trial draws."""
        padding = padding_size(self.seed, task)
        facts["environment_padding"] = padding
        return {**deployed.env, PADDING_NAME: "0" * padding}

    @contextlib.contextmanager
    def _bench(
        self, task: Task, deployed: Deployed, directory: Path, facts: dict[str, object]
    ) -> Iterator[Bench]:
        """Engines ready to serve; on the way out everything is stopped, fetched and cleared from the hosts."""
        name = trial_name(task)
        recorder = self._recorder(task, deployed, (*self.engine_nodes, *self.load_clients))
        deadline = time.monotonic() + self.spec.limits.trial_timeout
        facts["seed"] = workload_seed(self.seed, task)
        env = self._environment(task, deployed, facts)
        bench = Bench(
            engines=[],
            seats=[
                ClientSeat(
                    seat.host,
                    deployed.paths[seat.host.name],
                    f"{seat.run_dir}/{name}",
                    seat.credentials,
                )
                for seat in self.load_clients
            ],
            directory=directory,
            recorder=recorder,
            run_id=self.run_id,
            seed=workload_seed(self.seed, task),
            vbuckets=self.spec.engine.vbuckets,
            deadline=deadline,
            on_phase=self.on_phase,
            shield=self.shield,
        )
        seats = {seat.host.name: seat for seat in (*self.engine_nodes, *self.load_clients)}
        engines: list[Engine] = []
        bench.engines = engines
        try:
            bench.phase("start")
            for seat in seats.values():
                seat.host.remove_tree(f"{seat.run_dir}/{name}")  # what a killed run left
                seat.host.makedirs(f"{seat.run_dir}/{name}")
            for seat in self.engine_nodes:
                setup = self._setup(task, deployed, seat, env)
                with self.shield():
                    engines.append(Engine.start(seat.host, setup, recorder, self.run_id))
            for engine in engines:
                engine.wait_ready(min(deadline, time.monotonic() + START_TIMEOUT_S))
            facts["port"] = engines[0].port
            yield bench
        finally:
            self._leave(bench, engines, seats, name, directory)

    def _leave(
        self,
        bench: Bench | ToolBench,
        engines: Sequence[Engine],
        seats: Mapping[str, Seat],
        name: str,
        directory: Path,
    ) -> None:
        """Each step is tried although one before it failed; the first failure of all is what is raised."""
        grace = 0.0 if self.hurry() else ABANDON_GRACE_S
        with contextlib.ExitStack() as stack:  # runs in reverse order
            for seat in seats.values():
                stack.callback(
                    self._unless_hurried, seat.host.remove_tree, f"{seat.run_dir}/{name}"
                )
            for seat in seats.values():
                stack.callback(
                    self._unless_hurried,
                    _fetch_logs,
                    seat.host,
                    f"{seat.run_dir}/{name}",
                    directory,
                )
            stack.callback(
                lambda: (directory / "reproduce.sh").write_text(bench.recorder.script(), "utf-8")
            )
            for engine in engines:
                stack.callback(engine.abandon, grace)
            stack.callback(bench.abandon, grace)

    def _unless_hurried(self, step: Callable[..., None], *arguments: object) -> None:
        if not self.hurry():
            step(*arguments)

    def _setup(
        self, task: Task, deployed: Deployed, seat: Seat, env: Mapping[str, str]
    ) -> EngineSetup:
        engine = self.spec.engine
        several = len(self.engine_nodes) > 1
        return EngineSetup(
            name=f"engine-{seat.host.name}" if several else "engine",
            artifact=deployed.paths[seat.host.name],
            directory=f"{seat.run_dir}/{trial_name(task)}",
            credentials=seat.credentials,
            listen=seat.listen,
            address=seat.address,
            port=engine.port,
            bucket=task.bucket,
            quota_mb=engine.quota_mb,
            vbuckets=engine.vbuckets,
            threads=engine.threads,
            shards=engine.shards,
            params=self.spec.params_of(task.variant),
            env=env,
        )

    def _keep_final_stats(self, bench: Bench, directory: Path) -> None:
        for engine in bench.engines:
            stats = {**engine.stat(), **engine.stat("memory", "timings")}
            text = json.dumps(stats, indent=1, sort_keys=True)
            (directory / f"{engine.setup.name}-stat.json").write_text(text + "\n", "utf-8")

    def _recorder(self, task: Task, deployed: Deployed, used: Sequence[Seat]) -> Recorder:
        name = trial_name(task)
        recorder = Recorder(
            f"{self.run_id}: block {task.block}, {task.workload}, {task.bucket}, {task.variant}"
        )
        for host, seat in {seat.host.name: seat for seat in used}.items():
            recorder.add_host(
                host,
                ssh=seat.ssh,
                artifact=deployed.paths[host],
                work={f"{seat.run_dir}/{name}": "", seat.credentials.directory: "/secret"},
                script_work=f"{seat.host.work_dir}/reproduce/{name}",
            )
        return recorder


def trial_name(task: Task) -> str:
    """The directory of a trial below `trials/`."""
    name = f"{task.block}-{task.workload}-{task.bucket}-{task.variant}"
    return name if task.attempt == 1 else f"{name}-{task.attempt}"


def workload_seed(seed: int, task: Task) -> int:
    """The same keys and values for every arm of a cell's block, others in the next block."""
    return _draw(f"{seed}/workload/{task.block}/{task.workload}/{task.bucket}") % 2**31


def padding_size(seed: int, task: Task) -> int:
    """1..PADDING_MAX bytes, drawn for each trial."""
    key = f"{seed}/padding/{task.block}/{task.attempt}/{task.workload}/{task.bucket}/{task.variant}"
    return 1 + _draw(key) % PADDING_MAX


def _draw(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")


def fresh_directory(path: Path) -> Path:
    """Empty: whatever a killed run left of the same trial goes."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def _fetch_logs(host: Transport, remote: str, directory: Path) -> None:
    """The text that the processes left (logs, JSON, samples), not the engine's data."""
    listed = host.run(["find", remote, "-maxdepth", "1", "-type", "f", "-size", "+0"], check=False)
    for path in listed.stdout.splitlines():
        local = directory / Path(path).name
        if Path(path).suffix in (".log", ".json", ".jsonl", ".out") and not local.exists():
            try:
                host.get_file(path, local)
            except PerfrunnerError as error:
                if disk_is_full(error) or isinstance(error, LinkLost):
                    raise
