"""A laboratory without a compiler: an artifact of fake programs that really run, and a fake build and settings check.

`Lab.start` runs perfrunner's runner in a process of its own, with the fakes in place of the build; the process prints
each event as a JSON line, so that a test can wait for a phase and then send a signal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfrunner.results import ExperimentData, ResultStore
from tests.support.forks import Forked
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "fake_artifact"


def write_artifact(directory: Path) -> Path:
    """Write bin/ with the fake programs of an artifact, and return its directory."""
    target = directory / "bin"
    target.mkdir(parents=True, exist_ok=True)
    for source in PROGRAMS.glob("*.py"):
        if source.stem == "common":
            (target / source.name).write_text(source.read_text())
            continue
        program = target / source.stem
        program.write_text(f"#!{sys.executable} -S\n{source.read_text()}")
        program.chmod(0o755)
    return directory


FAKE_PERF = """#!{python} -S
import os, signal, sys, time

command, words = sys.argv[1], sys.argv[2:]
given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
if command == "record":
    if {refuses!r}:
        print({refuses!r}, file=sys.stderr)
        sys.exit(255)
    with open(given["output"], "w") as file:
        file.write("samples")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while "pid" in given and os.path.exists("/proc/" + given["pid"]):
        if {dies!r}:
            print({dies!r}, file=sys.stderr)
            sys.exit(3)
        time.sleep(0.01)
elif command == "evlist":
    print("cpu-clock")
elif command == "stat":
    def write(*_):
        with open(given["output"], "w") as file:
            file.write("# started\\n\\n1000.00,msec,task-clock,1,100.00,0.5,CPUs utilized\\n")
            file.write("4000000,,instructions:u,1,100.00,2.0,insn per cycle\\n")
            file.write("2000000,,cycles:u,1,100.00,,\\n<not supported>,,cache-misses,0,100.00,,\\n")
        sys.exit(0)
    signal.signal(signal.SIGINT, write)
    while os.path.exists("/proc/" + given["pid"]):
        time.sleep(0.01)
elif command == "script":
    hot = {hot!r} if "changed" in given["input"] else 1
    for stack in ["hot"] * hot + ["cold"] * 4:
        print(f"front-end-0\\n\\t  1f0 {{stack}} (/a/kv_engine)\\n\\t  1e0 kv::run(int) (/a/kv_engine)\\n")
"""


def write_perf(directory: Path, *, hot: int = 4, refuses: str = "", dies: str = "") -> Path:
    """Write a perf with fixed samples: 1 of 5 are in `hot` for the variant base, `hot` of hot + 4 for changed.

    `refuses`: its message if it refuses to record; `dies`: its message if it ends too early.
    """
    program = directory / "perf"
    program.write_text(FAKE_PERF.format(python=sys.executable, hot=hot, refuses=refuses, dies=dies))
    program.chmod(0o755)
    return program


def spec_text(work_dir: Path, **changes: object) -> str:
    """Return a small spec as JSON: two variants, one pillowfight workload, a persistent bucket."""
    document: dict[str, Any] = {
        "name": "fake",
        "cluster": {
            "name": "here",
            "transport": "local",
            "hosts": {"here": {"work_dir": str(work_dir)}},
            "engine_nodes": ["here"],
            "load_clients": ["here"],
        },
        "baseline": "base",
        "variants": {
            "base": {"allocator": {"name": "system"}},
            "changed": {"allocator": {"name": "system"}, "params": {"x": "1"}},
        },
        "engine": {"vbuckets": 16, "quota_mb": 64},
        "workloads": {"pf": PILLOWFIGHT},
        "blocks": 2,
        "seed": 7,
        "sampling_check": False,
    }
    return json.dumps({**document, **changes}, indent=1)


PILLOWFIGHT = {"type": "pillowfight", "items": 100, "duration": 3, "ramp": 1, "settle": 0}
APPEND = {"type": "append", "items": 100, "settle": 0}


def variant(**env: object) -> dict[str, Any]:
    """Return a variant whose engine behaves as the FAKE_* variables say."""
    return {
        "allocator": {"name": "system"},
        "env": {f"FAKE_{key.upper()}": str(value) for key, value in env.items()},
    }


@dataclass
class Driver:
    """A runner's process. `events` are those read so far."""

    process: Forked
    events: list[dict[str, Any]] = field(default_factory=list)

    def next_event(self) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            return None
        event: dict[str, Any] = json.loads(line)
        self.events.append(event)
        return event

    def wait_for(self, kind: str, **wanted: object) -> dict[str, Any]:
        """Read events until one of this kind, with these values, comes."""
        while (event := self.next_event()) is not None:
            if event["kind"] == kind and all(event.get(k) == v for k, v in wanted.items()):
                return event
        raise AssertionError(f"no {kind} {wanted}; ended with {self.finish()}: {self.events}")

    def finish(self, timeout: float = PATIENCE_S) -> int:
        while self.next_event() is not None:
            pass
        return self.process.wait(timeout)

    def stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]


@dataclass
class Lab:
    """A directory with a spec, a results directory and a work directory of fake hosts."""

    directory: Path

    @property
    def out(self) -> Path:
        return self.directory / "out"

    @property
    def work(self) -> Path:
        return self.directory / "work"

    @property
    def spec_path(self) -> Path:
        return self.directory / "spec.yaml"

    def write_spec(self, **changes: object) -> None:
        self.spec_path.write_text(spec_text(self.work, **changes))

    def stored(self) -> ExperimentData:
        """Return the stored data of the only experiment."""
        with ResultStore.open(self.out, create=False) as store:
            (summary,) = store.list()
            return store.load(summary.experiment.id)

    def start(
        self,
        *,
        resume: bool = False,
        run: str | None = None,
        fakes: Mapping[str, object] | None = None,
    ) -> Driver:
        settings = {
            "spec": str(self.spec_path), "out": str(self.out), "cache": str(self.directory / "cache"),
            "resume": resume, "run": run, **(fakes or {}),
        }  # fmt: skip
        return Driver(Forked(settings))

    def run(self, **kwargs: Any) -> tuple[int, Driver]:
        driver = self.start(**kwargs)
        return driver.finish(), driver

    def processes(self) -> list[str]:
        """Return the command lines of all processes that run from this lab's work directory."""
        return list(processes_of(self.work))

    def assert_nothing_left(self) -> None:
        until(lambda: self.processes() == [], "processes are left in the work directory")


def processes_of(directory: Path) -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{directory}/" in command and "tests.support" not in command:
            yield f"{entry.name} {command}"
