"""perfrunner as a child of itself, for nights and for jobs of a fleet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import perfrunner
from perfrunner.children import PERFRUNNER
from tests.support.waiting import PATIENCE_S, until


def test_it_does_not_load_what_lies_in_the_current_directory(tmp_path: Path) -> None:
    """Users have a random.py of their own, and older clones of perfrunner."""
    (tmp_path / "perfrunner").mkdir()
    for name in ("random.py", "click.py", "perfrunner/__init__.py"):
        (tmp_path / name).write_text("raise SystemExit('not this one')\n")
    done = subprocess.run(
        [*PERFRUNNER, "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"perfrunner, version {perfrunner.__version__}\n"


# A run that takes a second to stop its servers. It ends soon when its parent has gone.
RUN = """
import os, signal, sys, time
def stop(*_):
    print("stopping", flush=True)
    time.sleep(1.0)
    print("restored", flush=True)
    sys.exit(130)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, stop)
parent = os.getppid()
print("begun", flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
time.sleep(1.0)
"""
NIGHT = f"""
import sys
from pathlib import Path
from perfrunner.cli import nightly
nightly.PERFRUNNER = (sys.executable, "-c", {RUN!r})
nightly._perfrunner([], Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("signum", "send"),
    [
        (signal.SIGINT, os.killpg),
        (signal.SIGTERM, os.kill),
        (signal.SIGHUP, os.killpg),
        (signal.SIGKILL, os.kill),
    ],
    ids=["Ctrl-C", "kill", "closed terminal", "out of memory"],
)
def test_a_night_that_is_stopped_lets_its_run_clean_up(
    tmp_path: Path, signum: signal.Signals, send: Callable[[int, int], None]
) -> None:
    log = tmp_path / "log"
    log.touch()
    night = subprocess.Popen(
        # nohup may have started the tests
        ["env", "--default-signal=HUP", sys.executable, "-c", NIGHT, str(log)],
        start_new_session=True,
    )
    try:
        until(lambda: "begun" in log.read_text(), "the run has begun")
        send(night.pid, signum)
        night.wait(PATIENCE_S)
    finally:
        night.kill()
        night.wait()
    until(
        lambda: log.read_text().splitlines()[-2:] == ["stopping", "restored"],
        "the run has cleaned up",
    )
