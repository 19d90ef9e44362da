"""libFuzzer targets, as many at a time as there are CPUs, each for so many minutes of CPU time.

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

BUILD = Path("build/fuzz")
SEEDS = Path("engine_src/fuzz/corpus")
LAST_LINES = 40
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
    """Fuzzers under way; none outlives it."""

    def __init__(self) -> None:
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.over = threading.Event()

    def close(self) -> None:
        self.over.set()
        for process in list(self.processes.values()):
            process.terminate()

    def fuzz(self, name: str, cpu_s: float) -> str:
        """How it ended. libFuzzer bounds wall time; what a busy machine kept from it is run again, from the corpus."""
        corpus, findings = BUILD / "corpus" / name, BUILD / "findings" / name
        for directory in (corpus, findings):
            directory.mkdir(parents=True, exist_ok=True)
        with log_of(name).open("wb") as log:
            while cpu_s >= 1 and not self.over.is_set():
                process = subprocess.Popen(
                    [
                        str(BUILD / "fuzz" / f"fuzz_{name}"),
                        f"-max_total_time={cpu_s:.0f}",
                        "-timeout=20",
                        "-rss_limit_mb=4096",
                        "-print_final_stats=1",
                        f"-artifact_prefix={findings}/",
                        str(corpus),
                        str(SEEDS / name),
                    ],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
                self.processes[process.pid] = process
                _, status, used = os.wait4(process.pid, 0)
                del self.processes[process.pid]
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode != 0:
                    return f"ended with {process.returncode}"
                cpu_s -= used.ru_utime + used.ru_stime
        return NOTHING


def log_of(name: str) -> Path:
    return BUILD / f"{name}.log"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
