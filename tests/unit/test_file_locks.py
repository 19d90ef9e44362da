"""File systems without locks: a network file system, or an overlay that does not implement them."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from perfrunner.build.cache import locked
from perfrunner.build.tools import silent
from perfrunner.cli.nightly_place import Place
from perfrunner.errors import HostError, UsageError
from perfrunner.experiment.outdir import OutDirLock
from perfrunner.hosts.local import LocalTransport
from perfrunner.hosts.lock import lock_host


@pytest.fixture(autouse=True)
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, how: int) -> None:
        del fd, how
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_a_results_directory_without_locks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{tmp_path}.*No locks available") as refused:
        OutDirLock(tmp_path).__enter__()
    assert "local disk" in (refused.value.hint or "")


def test_a_work_directory_without_locks_is_refused(tmp_path: Path) -> None:
    host = LocalTransport("here")
    host.open_work_dir(str(tmp_path / "work"))
    with pytest.raises(HostError, match=f"{tmp_path}.*No locks available") as refused:
        lock_host(host, "r", machine=False)
    assert "work_dir" in (refused.value.hint or "")


def test_the_file_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make()
    with pytest.raises(OSError, match="No locks available") as night, place.alone():
        pass
    with (
        pytest.raises(OSError, match="No locks available") as build,
        locked(tmp_path / "b", silent),
    ):
        pass
    assert (night.value.filename, build.value.filename) == (
        f"{tmp_path}/nightly/lock",
        f"{tmp_path}/b",
    )
