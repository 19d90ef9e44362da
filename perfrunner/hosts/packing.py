"""Pack a directory into one tar stream that the receiver can check for completeness, and unpack such a stream.

The stream holds `.sha256sums` (in the format of `sha256sum -c`) in addition to the files. The receiver checks this list
against the sha256 that pack_tree returned, and the files against the list.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from perfrunner.errors import HostError, is_full

SUMS = ".sha256sums"


def pack_tree(directory: Path, out: IO[bytes]) -> str:
    """Write the stream to `out`, a temporary file, and return the sha256 of its list of sums.

    The same files give the same list on every machine.
    """
    try:
        digest = _pack(directory, out)
        out.flush()
        return digest
    except OSError as error:
        failed = error
    if not is_full(failed):
        raise _unreadable(directory, failed) from failed
    with contextlib.suppress(OSError):
        os.ftruncate(out.fileno(), 0)  # else closing it fails as well
    # Without its cause, from which a run would conclude that the disk of the results is full.
    raise HostError(
        f"cannot pack {directory} in {tempfile.gettempdir()}: {failed.strerror}",
        "set TMPDIR to a directory with free space",
    )


def tree_digest(directory: Path) -> str:
    """Return the value that pack_tree would return, without packing."""
    try:
        sums = [_sum(p.read_bytes(), name) for p, name in _entries(directory) if _is_plain(p)]
    except OSError as error:
        raise _unreadable(directory, error) from error
    return hashlib.sha256(os.fsencode("".join(sums))).hexdigest()


def _entries(directory: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if "\n" in name or "\\" in name:
            raise HostError(f"{directory}: {name!r} is not a valid file name in an artifact")
        if name != SUMS:
            yield path, name


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _sum(data: bytes, name: str) -> str:
    """Return a line in the format of `sha256sum -c`."""
    return f"{hashlib.sha256(data).hexdigest()}  {name}\n"


def _unreadable(directory: Path, error: OSError) -> HostError:
    return HostError(f"cannot read {directory}: {error.strerror or error}")


def _pack(directory: Path, out: IO[bytes]) -> str:
    sums: list[str] = []
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for path, name in _entries(directory):
            info = tar.gettarinfo(path, arcname=name)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            if not _is_plain(path):
                tar.addfile(info)
                continue
            data = path.read_bytes()  # read once, so that the sum is of the data that is sent
            info.size = len(data)
            sums.append(_sum(data, name))
            tar.addfile(info, io.BytesIO(data))
        listing = os.fsencode("".join(sums))
        info = tarfile.TarInfo(SUMS)
        info.size = len(listing)
        tar.addfile(info, io.BytesIO(listing))
    return hashlib.sha256(listing).hexdigest()


def unpack_tree(packed: IO[bytes], directory: Path) -> None:
    """Unpack files and directories with their modes, and nothing outside `directory`. Raises HostError or OSError."""
    try:
        with tarfile.open(fileobj=packed, mode="r|") as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts:
                    raise HostError(f"{member.name!r} is not a valid file name in an artifact")
                target = directory / name
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                content = tar.extractfile(member) if member.isreg() else None
                if content is None:
                    raise HostError(f"{member.name!r} is neither a file nor a directory")
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    shutil.copyfileobj(content, file)
                target.chmod(member.mode & 0o777)
    except tarfile.TarError as error:
        raise HostError(f"the received archive is incomplete or damaged: {error}") from error
