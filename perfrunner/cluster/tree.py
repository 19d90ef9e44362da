"""A directory as one tar stream; one that we send proves its own completeness.

The stream holds `.sha256sums` (what `sha256sum -c` reads) beside the files; whoever unpacks it checks that list
against the sha256 that pack_tree returned, and the files against the list.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from perfrunner.errors import HostError

SUMS = ".sha256sums"


def pack_tree(directory: Path, out: IO[bytes]) -> str:
    """Write the stream to `out`; the sha256 of its list of sums. Same files, same list, on every machine."""
    try:
        return _pack(directory, out)
    except OSError as error:
        raise _unreadable(directory, error) from error


def tree_digest(directory: Path) -> str:
    """What pack_tree would return, and nothing is packed."""
    try:
        sums = [_sum(p.read_bytes(), name) for p, name in _entries(directory) if _is_plain(p)]
    except OSError as error:
        raise _unreadable(directory, error) from error
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def _entries(directory: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if "\n" in name or "\\" in name:
            raise HostError(f"{directory}: {name!r} is no name for a file of an artifact")
        if name != SUMS:
            yield path, name


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _sum(data: bytes, name: str) -> str:
    """A line that `sha256sum -c` reads."""
    return f"{hashlib.sha256(data).hexdigest()}  {name}\n"


def _unreadable(directory: Path, error: OSError) -> HostError:
    return HostError(f"{directory} cannot be read: {error.strerror or error}")


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
            data = path.read_bytes()  # one reading for both, so that the sum is of what was sent
            info.size = len(data)
            sums.append(_sum(data, name))
            tar.addfile(info, io.BytesIO(data))
        listing = "".join(sums).encode()
        info = tarfile.TarInfo(SUMS)
        info.size = len(listing)
        tar.addfile(info, io.BytesIO(listing))
    return hashlib.sha256(listing).hexdigest()


def unpack_tree(packed: IO[bytes], directory: Path) -> None:
    """The other way: files and directories with their modes, and nothing outside `directory`. HostError, OSError."""
    try:
        with tarfile.open(fileobj=packed, mode="r|") as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts:
                    raise HostError(f"{member.name!r} is no name for a file of an artifact")
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
        raise HostError(f"what arrived is no whole archive ({error})") from error
