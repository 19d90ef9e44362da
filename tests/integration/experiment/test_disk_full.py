"""A disk under the results that is full, fails or goes: one clear message, exit 3, what is stored stays readable."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfrunner.errors import HostError, StoreError
from perfrunner.experiment.run import _report_disk
from perfrunner.experiment.trial.placement import log_tail
from perfrunner.hosts import ExitStatus, open_host
from perfrunner.results import ResultStore
from perfrunner.spec.cluster import HostSpec
from tests.support.fakes import Lab, variant
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


@contextlib.contextmanager
def mounted(directory: Path, megabytes: int) -> Iterator[Path]:
    directory.mkdir(mode=0o700)
    options = f"size={megabytes}m,mode=700"
    done = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], capture_output=True, check=False
    ).returncode == 0  # fmt: skip
    if not done:
        pytest.skip("needs root, to mount a small file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[Path]:
    """A file system of 1 MB for the results."""
    with mounted(lab.out, 1) as directory:
        yield directory


def fill(directory: Path) -> Path:
    """Write a file until no byte is left; return it."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    return ballast


def test_a_work_directory_that_fills_ends_the_run_with_the_reason(lab: Lab) -> None:
    slow = variant(sleep=1)
    lab.write_spec(blocks=2, variants={"base": slow, "changed": slow})
    with mounted(lab.work, 250) as work:
        driver = lab.start()
        driver.wait_for("TrialPhase", phase="access")
        ballast = fill(work)
        assert driver.finish() == 3
        output = driver.stderr()
        assert output.startswith("error: here: No space left on device")
        assert "\nhint: free some space" in output
        lab.assert_nothing_left()
        ballast.unlink()
        code, again = lab.run(resume=True)
        assert code == 0, again.stderr()


def test_the_status_of_a_process_is_known_although_the_disk_is_full(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    script = 'until [ -e "$1" ]; do sleep 0.02; done; exit 7'
    with mounted(tmp_path / "work", 1) as work:
        spec = HostSpec(work_dir=str(work))
        with open_host(spec, "local", name="here", run_id="r") as host:
            process = host.start(
                ["sh", "-c", script, "sh", str(go_on)],
                name="it",
                log_stdout="out",
                log_stderr="err",
            )
            fill(work)
            go_on.touch()
            assert process.wait(PATIENCE_S) == ExitStatus(code=7)
            assert process.stop(0.0).status == ExitStatus(code=7)
            assert not any((work / "registry").iterdir())
            fill(work)
            assert "No space left" in log_tail(host.transport, f"{work}/out"), "the log is empty"


def test_a_full_disk_ends_the_run_with_one_message(lab: Lab, small_disk: Path) -> None:
    lab.write_spec(blocks=20)
    driver = lab.start()
    driver.wait_for("TrialFinished")
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - 30_000))
    code = driver.finish(120)
    output = driver.stderr()
    assert code == 3, output
    assert output.startswith(f"error: the disk of {lab.out} is full")
    assert "--resume" in output
    assert "Traceback" not in output
    lab.assert_nothing_left()
    with ResultStore.open(lab.out, create=False) as store:
        (summary,) = store.list()
        stored = store.load(summary.experiment.id).trials
    finished = len(driver.of("TrialFinished"))
    assert len(stored) == finished >= 1
    (small_disk / "ballast").unlink()
    again = lab.start(resume=True)
    assert again.wait_for("PlanReady")["trials_done"] == finished
    again.wait_for("TrialFinished")
    again.process.terminate()
    assert again.finish() == 130


def test_a_file_that_may_not_grow_is_the_same(lab: Lab) -> None:
    """Without root: every file of the process is limited, which is met as EFBIG (SQLite says: I/O error)."""
    lab.write_spec(blocks=40)
    code, driver = lab.run(fakes={"file_size_limit": 60_000})
    output = driver.stderr()
    assert code == 3, output
    assert output.startswith(f"error: the disk of {lab.out}")
    assert "Traceback" not in output
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_store_that_goes_is_not_replaced_by_an_empty_one(lab: Lab) -> None:
    """The disk with the results is unmounted; put back, the run continues."""
    lab.write_spec(blocks=20)
    driver = lab.start()
    driver.wait_for("TrialFinished")
    store, away = lab.out / "results.sqlite", lab.directory / "away"
    store.rename(away)
    assert driver.finish(120) == 3
    output = driver.stderr()
    assert output.startswith(f"error: {store} is not there any more")
    assert "--resume" in output
    assert not store.exists()
    lab.assert_nothing_left()
    away.rename(store)
    again = lab.start(resume=True)
    assert again.wait_for("PlanReady")["trials_done"] >= 1
    again.wait_for("TrialFinished")
    again.process.terminate()
    assert again.finish() == 130


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ESTALE])
def test_a_disk_that_fails_is_named_with_what_to_do(tmp_path: Path, number: int) -> None:
    """Linux makes a file system read-only when its disk fails. The error may be the cause of another one."""
    error = HostError("cannot write client.json")
    error.__cause__ = OSError(number, os.strerror(number))
    with pytest.raises(StoreError) as raised, _report_disk(tmp_path):
        raise error
    assert f"{os.strerror(number)}); completed trials are stored" in raised.value.message
    assert "--resume" in str(raised.value.hint)
