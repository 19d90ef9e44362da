"""Define the interface to a host, which is this machine or one behind SSH.

Commands are argument lists. They are quoted in one place (perfrunner.hosts.shell) and never by a caller. Paths are
POSIX paths on the host; relative paths are relative to the host's work directory. Every method may raise HostError: the
link is lost, the disk is full, or a tool is missing. Several threads may use a transport at the same time.

put_tree and get_tree carry a directory as one tar stream that the receiver can check for completeness. It holds
`.sha256sums` (in the format of `sha256sum -c`) in addition to the files. The receiver checks this list against the
sha256 that pack_tree returned, and the files against the list.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from perfrunner.errors import HostError
from perfrunner.hosts.process import ProcessHandle

DEFAULT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Completed:
    """A command that has ended. `exit` is a shell's exit status: 128 + n means that signal n ended the command."""

    argv: tuple[str, ...]
    exit: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Raw:
    """The result of a command, as bytes. `stdout` is empty when a sink received the output."""

    exit: int
    stdout: bytes
    stderr: bytes


class CommandFailed(HostError):  # noqa: N818
    """Raised when a checked command ends with a status other than 0."""

    def __init__(self, host: str, completed: Completed, hint: str | None = None) -> None:
        output = (completed.stderr.strip() or completed.stdout.strip())[-2000:]
        message = f"{host}: {completed.argv[0]} ended with status {completed.exit}"
        super().__init__(f"{message}: {output}" if output else message, hint)
        self.completed = completed


class CommandTimeout(HostError):  # noqa: N818
    """Raised when a command does not end in time. It has been sent TERM, then KILL."""


class LinkLost(HostError):  # noqa: N818
    """Raised when the connection to the host is lost. Started processes keep running until `Host.sweep` stops them."""


class Transport(Protocol):
    """A connection to one host. `name` is the host's name in the cluster file; error messages start with it."""

    @property
    def name(self) -> str: ...

    @property
    def work_dir(self) -> str:
        """Absolute path of the work directory, which open_host creates. Nothing outside it is ever removed."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a command to its end, with an empty standard input.

        A time-out, an exception or a lost link ends the command. Its environment is `env` on top of the base
        environment (perfrunner.hosts.process); nothing else is inherited. With `check`, a status other than 0 raises
        CommandFailed. For megabytes of output, let the command write a file and fetch the file.
        """
        ...

    def follow(
        self,
        argv: Sequence[str],
        on_line: Callable[[str], None],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command as `run` without `check` does, and pass each line of its output to `on_line` as it arrives."""
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        name: str,
        log_stdout: str,
        log_stderr: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        run_id: str = "",
    ) -> ProcessHandle:
        """Start a long-running process in a new session and record it in the host's process registry.

        `env` is as in `run`. `name` is unique among the host's running processes: a second start under the name of a
        running process raises HostError. The process outlives this connection and perfrunner; Host.sweep finds it.
        Output is appended to the logs.
        """
        ...

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """Return those of the variables that are set before `run` clears them: over SSH, that is HOME alone."""
        ...

    def put_bytes(self, data: bytes, remote: str, *, mode: int = 0o644) -> None:
        """Write a file: write to a temporary name, check the sha256, then rename it to `remote`."""
        ...

    def put_file(self, local: Path, remote: str) -> bool:
        """Copy a file and its mode, as put_bytes does; return False when the host already has it (same sha256)."""
        ...

    def put_tree(self, local: Path, remote: str) -> bool:
        """Copy a directory as one stream, verify every file and rename the directory into place.

        Returns False when the host already has it. An incomplete or altered directory at `remote` is replaced, never
        merged. In all cases the modification time of the directory becomes the time of this call.
        """
        ...

    def get_file(self, remote: str, local: Path) -> None:
        """Fetch the current contents of a file and check the sha256. `local` appears complete or not at all."""
        ...

    def get_tree(self, remote: str, local: Path) -> None:
        """Fetch a directory of plain files into `local`, an empty directory. The caller verifies the contents."""
        ...

    def read_text(self, path: str) -> str:
        """Return the text of a small file (also of /proc and /sys), decoded as UTF-8."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory exists."""
        ...

    def makedirs(self, path: str) -> None:
        """Create a directory and its parents."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a file or directory below the work directory, if it exists; raise HostError for other paths."""
        ...

    def close(self) -> None:
        """Close the connection. Started processes keep running."""
        ...


SUMS = ".sha256sums"


def pack_tree(directory: Path, out: IO[bytes]) -> str:
    """Write the stream to `out` and return the sha256 of its list of sums.

    The same files give the same list on every machine.
    """
    try:
        return _pack(directory, out)
    except OSError as error:
        raise _unreadable(directory, error) from error


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
