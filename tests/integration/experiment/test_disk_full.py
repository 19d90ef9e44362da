"""A full disk under the results: one clear message, exit 3, what is stored stays readable, and the run can go on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfrunner.results import ResultStore
from tests.support.fakes import Lab

pytestmark = pytest.mark.integration


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[Path]:
    """A file system of 1 MB for the results."""
    lab.out.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(lab.out)], capture_output=True, check=False
    ).returncode == 0  # fmt: skip
    if not mounted:
        pytest.skip("needs root, to mount a small file system")
    try:
        yield lab.out
    finally:
        subprocess.run(["umount", "-l", str(lab.out)], check=True)


def test_a_full_disk_ends_the_run_with_one_message(lab: Lab, small_disk: Path) -> None:
    lab.write_spec(blocks=20)
    driver = lab.start()
    driver.wait_for("TrialFinished")
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - 30_000))
    code = driver.finish(120)
    said = driver.stderr()
    assert code == 3, said
    assert said.startswith(f"error: the disk of {lab.out} is full")
    assert "--resume" in said
    assert "Traceback" not in said
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
    said = driver.stderr()
    assert code == 3, said
    assert said.startswith(f"error: the disk of {lab.out}")
    assert "Traceback" not in said
    lab.assert_nothing_left()
