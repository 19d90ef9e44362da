"""Run run_experiment with the fake build and settings check, and print each event as a JSON line. See fakes.Lab."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfrunner.build import builders
from perfrunner.build.artifact import Artifact
from perfrunner.build.settings_check import SettingsCheck
from perfrunner.errors import BuildError, PerfrunnerError, SettingsCheckError
from perfrunner.experiment.events import Event
from perfrunner.experiment.preflight import builds, hosts, servers
from perfrunner.experiment.run import RunRequest, run_experiment
from perfrunner.experiment.trial import setup
from perfrunner.measure import cpu_profile as perf
from perfrunner.spec.loader import load_spec
from tests.support.fakes import write_artifact


class Printer:
    """Prints each event, and interrupts this process at the event of the kind `interrupt_at`."""

    def __init__(self, interrupt_at: str = "") -> None:
        self._interrupt_at = interrupt_at

    def on_event(self, event: Event) -> None:
        kind = type(event).__name__
        print(json.dumps({"kind": kind, **dataclasses.asdict(event)}, default=str), flush=True)
        if kind == self._interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)


def fakes(settings: dict[str, Any]) -> tuple[Callable[..., Artifact], Callable[..., SettingsCheck]]:
    """Return the substitutes of build_variant and check."""

    def build_variant(
        variant: Any, source: Path, cache: Path, progress: Any = None, programs: Any = ()
    ) -> Artifact:
        if programs:
            progress(f"only {' '.join(programs)}")
        progress(f"compiling {variant.name}")
        if settings.get("engine_src"):
            progress(f"{variant.name} of {(source / 'main.cc').read_text().strip()}")
        time.sleep(settings.get("build_sleep", 0))
        if variant.name in settings.get("build_fails", []):
            raise BuildError(f"the compiler refused {variant.name}")
        if settings.get("artifact"):
            return Artifact("realbuild", Path(settings["artifact"]), {}, True, 0.0)
        return Artifact(
            "fakebuild", write_artifact(cache / "fakebuild"), {"fake": True}, False, 0.0
        )

    def check(
        host: Any, deployed: str, variant: Any, engine: Any, *, params: Any = None, tools: str
    ) -> SettingsCheck:
        assert host.transport.exists(f"{tools}/bin/kvctl")
        if settings.get("settings_check_sleep"):
            handle = host.start(
                ["sleep", "600", f"{host.work_dir}/"],
                name="settings_check",
                log_stdout="p.out",
                log_stderr="p.err",
            )
            time.sleep(settings["settings_check_sleep"])
            handle.stop(1.0)
        if settings.get("settings_check_waits"):
            wait = 'while [ ! -e "$1" ]; do sleep 0.05; done'
            host.transport.run(
                ["sh", "-c", wait, "sh", settings["settings_check_waits"], f"{host.work_dir}/"]
            )
        if variant.name in settings.get("settings_check_fails", []):
            raise SettingsCheckError(f"{variant.name}: opt.x should be 1 but reads 0")
        return SettingsCheck(
            {"allocator": "system"}, {"allocator": {"name": "system", "conf_env": ""}}
        )

    return build_variant, check


def main(settings: dict[str, Any]) -> int:
    builders.build_variant, builds.check = fakes(settings)  # type: ignore[assignment]
    if limit := settings.get("file_size_limit"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes then fail with EFBIG
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    hosts.REGAIN_PATIENCE_S = settings.get("patience", hosts.REGAIN_PATIENCE_S)
    setup.START_TIMEOUT_S = settings.get("start_timeout", setup.START_TIMEOUT_S)
    servers.READY_TIMEOUT_S = settings.get("ready_timeout", servers.READY_TIMEOUT_S)
    perf.PROGRAM = settings.get("perf", perf.PROGRAM)
    os.sched_setaffinity(0, settings.get("cpus", os.sched_getaffinity(0)))
    spec_path = Path(settings["spec"])
    try:
        request = RunRequest(
            spec=load_spec(spec_path, [], None),
            spec_text=spec_path.read_text(),
            spec_path=spec_path,
            out_dir=Path(settings["out"]),
            engine_src=Path(settings.get("engine_src") or "engine_src"),
            cache_dir=Path(settings["cache"]),
            resume=settings.get("run") or "" if settings.get("resume") else None,
            resume_command=f"perfrunner run {spec_path} --resume",
            seed=settings.get("seed"),
        )
        outcome = run_experiment(request, Printer(settings.get("interrupt_at", "")))
    except PerfrunnerError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return outcome.exit_code
