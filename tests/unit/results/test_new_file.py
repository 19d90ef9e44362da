"""Files that users name are replaced as a whole; pipes and devices are written to."""

from __future__ import annotations

import os
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
