from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from perfrunner.errors import EXIT_USAGE, UsageError
from perfrunner.experiment.outdir import OutDirLock
from perfrunner.experiment.session import end_killed
from perfrunner.results import ResultStore
from tests.support.records import experiment


def test_the_second_run_learns_who_has_the_directory(tmp_path: Path) -> None:
    with OutDirLock(tmp_path):
        with pytest.raises(
            UsageError, match=rf"in use by another run \(pid {os.getpid()}\)"
        ) as caught:
            OutDirLock(tmp_path).__enter__()
        assert caught.value.exit_code == EXIT_USAGE
    with OutDirLock(tmp_path):
        pass  # given up by the first


def test_a_stale_file_does_not_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("99999999\n")
    with OutDirLock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_link_in_the_locks_place_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("what somebody keeps")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "lock").symlink_to(precious)
    with pytest.raises(UsageError, match="cannot use"):
        OutDirLock(tmp_path / "out").__enter__()
    assert precious.read_text() == "what somebody keeps"


def test_a_directory_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot use"):
        OutDirLock(tmp_path / "file" / "out").__enter__()


def test_a_run_whose_process_is_gone_is_interrupted(tmp_path: Path) -> None:
    """Whatever ended it; as long as the directory is locked, the run is there."""
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(experiment())

        def states() -> set[str]:
            (record,) = store.own()
            (summary,) = store.list()
            loaded = store.load(record.id).experiment
            return {record.state, summary.experiment.state, loaded.state}

        with OutDirLock(tmp_path):
            assert states() == {"running"}
        assert states() == {"interrupted"}
        with OutDirLock(tmp_path):
            end_killed(store)
            assert states() == {"interrupted"}, "also while another run has the directory"


def test_looking_for_a_run_does_not_keep_one_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").touch()
    fd = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    monkeypatch.setattr("time.sleep", lambda _: os.close(fd))
    with OutDirLock(tmp_path):
        pass
