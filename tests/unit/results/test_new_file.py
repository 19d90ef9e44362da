"""Files that users name are replaced as a whole; pipes and devices are written to."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
from pathlib import Path

from perfrunner.results.files import new_file, write_whole


def test_a_pipe_stays_a_pipe_and_takes_an_archive(tmp_path: Path) -> None:
    """For root, /dev/stdout and /dev/null would be replaced by a file."""
    pipe, received = tmp_path / "pipe", tmp_path / "received.zip"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with new_file(pipe) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("member", b"content")
    received.write_bytes(os.read(reader, 1 << 16))
    os.close(reader)
    assert pipe.is_fifo()
    with zipfile.ZipFile(received) as archive:
        assert archive.read("member") == b"content"


def test_an_open_file_is_written_to(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        write_whole(Path(f"/proc/self/fd/{file.fileno()}"), b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_file_in_shared_memory_is_replaced_only_when_it_is_complete() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        kept = Path(directory) / "kept"
        kept.write_bytes(b"old")
        with contextlib.suppress(ValueError), new_file(kept) as file:
            file.write(b"new")
            raise ValueError("half")
        assert kept.read_bytes() == b"old"
