"""Run libFuzzer targets, as many at a time as there are CPUs, each for a number of minutes of CPU time.

    fuzz.py MINUTES NAME...

Runs build/fuzz/fuzz/fuzz_NAME over build/fuzz/corpus/NAME and the corpus of the tree; libFuzzer's text goes to
build/fuzz/NAME.log, inputs that fail to build/fuzz/findings/NAME. Exit code 1 when there are findings.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from typing import IO

BUILD = Path("build/fuzz")
SEEDS = Path("engine_src/fuzz/corpus")
LAST_LINES = 40
SLOW_S = 20  # one input; a parser takes microseconds
TIMED_OUT = 70  # libFuzzer's exit code
NOTHING = "nothing found"


def main(arguments: Sequence[str]) -> int:
    cpu_s = 60.0 * int(arguments[0])
    names = arguments[1:]
    failed = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool, closing(Targets()) as targets:
        running = {pool.submit(targets.fuzz, name, cpu_s): name for name in names}
        for done in as_completed(running):
            name = running[done]
            print(f"fuzz_{name}: {done.result()}", flush=True)
            if done.result() != NOTHING:
                failed.append(name)
                print(
                    *log_of(name).read_text(errors="replace").splitlines()[-LAST_LINES:], sep="\n"
                )
    if failed:
        print(
            f"findings: {', '.join(failed)}; inputs are in {BUILD}/findings,"
            f" keep them in {SEEDS} when they are mended"
        )
    return 1 if failed else 0


class Targets:
    """The running fuzzers; none outlives this object."""

    def __init__(self) -> None:
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.over = threading.Event()

    def close(self) -> None:
        self.over.set()
        for process in list(self.processes.values()):
            process.terminate()

    def fuzz(self, name: str, cpu_s: float) -> str:
        """Run a target for `cpu_s` seconds of CPU time and return how it ended.

        libFuzzer limits wall time. On a busy machine it is started again from the corpus until the CPU time is used.
        """
        corpus, findings = BUILD / "corpus" / name, BUILD / "findings" / name
        for directory in (corpus, findings):
            directory.mkdir(parents=True, exist_ok=True)
        options = [
            f"-timeout={SLOW_S}",
            "-rss_limit_mb=4096",
            "-print_final_stats=1",
            f"-artifact_prefix={findings}/",
            str(corpus),
            str(SEEDS / name),
        ]
        with log_of(name).open("wb") as log:
            while cpu_s >= 1 and not self.over.is_set():
                exit_code, used = self._run(name, [f"-max_total_time={cpu_s:.0f}", *options], log)
                if exit_code != 0 and not (
                    exit_code == TIMED_OUT and self._was_kept_waiting(name, log)
                ):
                    return f"ended with {exit_code}"
                cpu_s -= used
        return NOTHING

    def _was_kept_waiting(self, name: str, log: IO[bytes]) -> bool:
        """Tell whether an input that timed out by the clock is fast by CPU time; it is no finding then."""
        unit = max((BUILD / "findings" / name).glob("timeout-*"), key=lambda p: p.stat().st_mtime)
        exit_code, used = self._run(name, [f"-timeout={100 * SLOW_S}", str(unit)], log)
        if exit_code == 0 and used < SLOW_S:
            unit.unlink()
            return True
        return False

    def _run(self, name: str, arguments: Sequence[str], log: IO[bytes]) -> tuple[int, float]:
        """Run a target once; return its exit code and its seconds of CPU time."""
        process = subprocess.Popen(
            [str(BUILD / "fuzz" / f"fuzz_{name}"), *arguments], stdout=log, stderr=subprocess.STDOUT
        )
        self.processes[process.pid] = process
        _, status, used = os.wait4(process.pid, 0)
        del self.processes[process.pid]
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, used.ru_utime + used.ru_stime


def log_of(name: str) -> Path:
    return BUILD / f"{name}.log"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
