from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfrunner.errors import EXIT_USAGE, UsageError
from perfrunner.experiment.outdir import OutDirLock


def test_the_second_run_is_told_who_has_the_directory(tmp_path: Path) -> None:
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
