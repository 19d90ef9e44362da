"""Run commands and processes on a host, which is this machine or one behind SSH, and exchange files with it.

A subclass implements `_execute`, which runs an argument list. Operations on files, processes and the process registry
are shell programs (perfrunner.hosts.scripts) that are run through it.

Commands are argument lists, and no caller quotes them. Paths are POSIX paths on the host; relative paths are relative
to the host's work directory. Every method may raise HostError: the link is lost, the disk is full, or a tool is
missing. Several threads may use a transport at the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from posixpath import join as posix_join
from typing import IO

from perfrunner.errors import HostError, is_full
from perfrunner.hosts import scripts
from perfrunner.hosts.packing import pack_tree, tree_digest, unpack_tree
from perfrunner.hosts.process import (
    DEFAULT_TIMEOUT_S,
    NAME,
    CommandFailed,
    Completed,
    OutputBuffer,
    Raw,
    with_environment,
)
from perfrunner.hosts.registry import Process, RegistryEntry

CHUNK = 1 << 18
_TRANSFER_TIMEOUT_S = 600.0

Sink = Callable[[bytes], None]


class Transport(ABC):
    """A connection to one host. `name` is the host's name in the cluster file; error messages start with it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work_dir: str | None = None

    @abstractmethod
    def _execute(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        source: Iterable[bytes] | None = None,
        sink: Sink | None = None,
    ) -> Raw:
        """Run argv to its end. `source` is its standard input (default: empty).

        Raises CommandTimeout or LinkLost. After any exception the command has been ended.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection. Started processes keep running."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def work_dir(self) -> str:
        """Absolute path of the work directory, which open_host creates. Nothing outside it is ever removed."""
        if self._work_dir is None:
            raise RuntimeError(f"{self._name}: the work directory is not open yet")
        return self._work_dir

    def open_work_dir(self, directory: str) -> None:
        """Create the work directory and resolve its real path. Must be called once, before anything else."""
        raw = self._script(scripts.OPEN_WORK_DIR, directory, check=False)
        lines = raw.stdout.decode("utf-8", "surrogateescape").splitlines()
        if raw.exit == scripts.NO_PROGRAMS:
            raise HostError(
                f"{self._name}: the host is without these programs:{lines[-1]}",
                "install them there: the packages bash, coreutils, findutils, grep, sed, tar and util-linux",
            )
        if raw.exit != 0 or not lines:
            reason = raw.stderr.decode(errors="replace").strip() or "it is not writable"
            hint = "set another work_dir for the host in the cluster file, or free some disk space"
            raise HostError(
                f"{self._name}: cannot use the work directory {directory}: {reason}",
                hint_of(reason) or hint,
            )
        self._work_dir = lines[-1]

    # --- commands ---

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
        directory = self._path(cwd) if cwd is not None else None
        raw = self._execute(with_environment(argv, env, directory), timeout=timeout)
        done = Completed(
            tuple(argv),
            raw.exit,
            raw.stdout.decode(errors="replace"),
            raw.stderr.decode(errors="replace"),
        )
        if check and done.exit != 0:
            raise CommandFailed(self._name, done)
        return done

    def follow(
        self,
        argv: Sequence[str],
        on_line: Callable[[str], None],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command as `run` without `check` does, and pass each line of its output to `on_line` as it arrives."""
        line = OutputBuffer(self._name)  # the line that has not ended yet

        def take(chunk: bytes) -> None:
            nonlocal line
            first, *others = chunk.split(b"\n")
            line.take(first)
            for other in others:
                on_line(line.whole().decode(errors="replace"))
                line = OutputBuffer(self._name)
                line.take(other)

        raw = self._execute(with_environment(argv, env), timeout=timeout, sink=take)
        if last := line.whole():
            on_line(last.decode(errors="replace"))
        return Completed(tuple(argv), raw.exit, "", raw.stderr.decode(errors="replace"))

    def _script(
        self,
        script: str,
        *arguments: str,
        timeout: float = DEFAULT_TIMEOUT_S,
        check: bool = True,
        source: Iterable[bytes] | None = None,
        sink: Sink | None = None,
    ) -> Raw:
        raw = self._execute(
            ["sh", "-c", script, "sh", *arguments], timeout=timeout, source=source, sink=sink
        )
        if check and raw.exit != 0:
            raise self._failure(raw)
        return raw

    def _failure(self, raw: Raw) -> HostError:
        reason = _reason(raw)
        return HostError(f"{self._name}: {reason}", hint_of(reason))

    def _path(self, path: str) -> str:
        if "\0" in path or not path:
            raise ValueError(f"not a path: {path!r}")
        return posix_join(self.work_dir, path)

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """Return those of the variables that are set before `run` clears them: over SSH, that is HOME alone."""
        printed = self._script(scripts.VARIABLES, *names).stdout.decode(errors="replace")
        return dict(entry.partition("=")[::2] for entry in printed.split("\0") if entry)

    # --- processes ---

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
    ) -> Process:
        """Start a long-running process in a new session and record it in the host's process registry.

        `env` is as in `run`. `name` is unique among the host's running processes: a second start under the name of a
        running process raises HostError. The process outlives this connection and perfrunner; Host.sweep finds it.
        Output is appended to the logs.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"not a name for a process: {name!r}")
        entry = {
            "name": name,
            "run_id": run_id,
            "argv": list(argv),
            "started_at": time.time(),
            "stderr": self._path(log_stderr),
        }
        raw = self._script(
            scripts.START,
            scripts.KEEPER,
            scripts.PROGRAM,
            self._path(f"registry/{name}"),
            self._path(log_stdout),
            self._path(log_stderr),
            json.dumps(entry)[:-1],  # PROGRAM completes it with its own identity
            *with_environment(argv, env, self._path(cwd) if cwd is not None else None),
            check=False,
        )
        if raw.exit == scripts.IN_USE:
            raise HostError(f"{self._name}: {_still_running(name, raw.stdout)}", _IN_USE_HINT)
        if raw.exit != 0:
            reason = _reason(raw)
            raise HostError(f"{self._name}: cannot start {name}: {reason}", hint_of(reason))
        return Process(self, RegistryEntry.parse(raw.stdout.decode()))

    def processes(self) -> list[Process]:
        """Return every process of this host's process registry, including those of earlier runs."""
        raw = self._script(scripts.LIST_REGISTRY, self._path("registry"))
        try:
            return [
                Process(self, RegistryEntry.parse(line))
                for line in raw.stdout.decode(errors="replace").splitlines()
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(
                f"{self._name}: {self._path('registry')} has an entry that perfrunner did not write: {error}",
                hint="inspect the directory and remove the entry by hand",
            ) from error

    def registry_script(
        self, script: str, entry: RegistryEntry, *arguments: str, timeout: float
    ) -> Raw:
        """Run one of the programs that take a process identity as their first arguments (used by Process)."""
        identity = (str(entry.id.pid), str(entry.id.start_time), entry.id.boot_id)
        base = self._path(f"registry/{entry.name}")
        return self._script(script, base, *identity, *arguments, timeout=timeout, check=False)

    # --- files ---

    def put_bytes(self, data: bytes, remote: str, *, mode: int = 0o644) -> None:
        """Write a file: write to a temporary name, check the sha256, then rename it to `remote`."""
        self._put(iter([data]), remote, hashlib.sha256(data).hexdigest(), mode)

    def put_file(self, local: Path, remote: str) -> bool:
        """Copy a file and its mode, as put_bytes does; return False when the host already has it (same sha256)."""
        try:
            mode = local.stat().st_mode & 0o777
            with local.open("rb") as file:
                digest = _sha256(file)
                path = self._path(remote)
                if self._script(scripts.HAS_FILE, path, digest, f"{mode:o}", check=False).exit == 0:
                    return False
                file.seek(0)
                self._put(_chunks(file), remote, digest, mode)
        except OSError as error:
            raise HostError(f"cannot read {local}: {error.strerror}") from error
        return True

    def _put(self, source: Iterator[bytes], remote: str, digest: str, mode: int) -> None:
        self._script(
            scripts.PUT_FILE,
            self._path(remote),
            digest,
            f"{mode:o}",
            source=source,
            timeout=_TRANSFER_TIMEOUT_S,
        )

    def put_tree(self, local: Path, remote: str) -> bool:
        """Copy a directory as one stream, verify every file and rename the directory into place.

        Returns False when the host already has it. An incomplete or altered directory at `remote` is replaced, never
        merged. In all cases the modification time of the directory becomes the time of this call.
        """
        path = self._path(remote)
        with ThreadPoolExecutor(1) as pool:  # compute both digests at the same time
            here = pool.submit(tree_digest, local)
            there = self._script(scripts.HAS_TREE, path, check=False)
            if there.exit == 0 and there.stdout.decode().strip() == here.result():
                return False
        with tempfile.TemporaryFile() as packed:
            digest = pack_tree(local, packed)
            packed.seek(0)
            self._script(
                scripts.PUT_TREE,
                path,
                digest,
                source=_chunks(packed),
                timeout=_TRANSFER_TIMEOUT_S,
            )
        return True

    def artifacts(self) -> list[tuple[str, float, int]]:
        """Return the build id, last use (seconds since 1970) and size in bytes of every artifact on the host."""
        raw = self._script(
            scripts.LIST_ARTIFACTS, self._path("artifacts"), timeout=_TRANSFER_TIMEOUT_S
        )
        rows = [line.split(" ", 2) for line in raw.stdout.decode(errors="replace").splitlines()]
        return [(name, float(used), int(kib) * 1024) for used, kib, name in rows]

    def get_file(self, remote: str, local: Path) -> None:
        """Fetch the current contents of a file and check the sha256. `local` appears complete or not at all."""
        part = local.with_name(f"{local.name}.part.{os.getpid()}")
        header, digest, size = bytearray(), hashlib.sha256(), 0
        try:
            with part.open("wb") as file:

                def take(chunk: bytes) -> None:
                    nonlocal size
                    missing = scripts.GET_FILE_HEADER - len(header)
                    header.extend(chunk[:missing])
                    body = chunk[missing:] if missing > 0 else chunk
                    size += file.write(body)
                    digest.update(body)

                self._script(
                    scripts.GET_FILE, self._path(remote), sink=take, timeout=_TRANSFER_TIMEOUT_S
                )
            if header.decode().split() != [digest.hexdigest(), str(size)]:
                raise HostError(
                    f"{self._name}: {remote} changed or was truncated while it was fetched"
                )
            part.replace(local)
        except OSError as error:
            raise HostError(f"cannot write {local}: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)

    def get_tree(self, remote: str, local: Path) -> None:
        """Fetch a directory of plain files into `local`, an empty directory. The caller verifies the contents."""
        try:
            with tempfile.TemporaryFile(dir=local.parent) as packed:

                def take(chunk: bytes) -> None:
                    packed.write(chunk)

                self._script(
                    scripts.GET_TREE, self._path(remote), sink=take, timeout=_TRANSFER_TIMEOUT_S
                )
                packed.seek(0)
                unpack_tree(packed, local)
        except OSError as error:
            hint = "free some disk space here" if is_full(error) else None
            raise HostError(f"cannot write {local}: {error.strerror or error}", hint) from error

    def read_text(self, path: str) -> str:
        """Return the text of a small file (also of /proc and /sys), decoded as UTF-8."""
        raw = self._execute(["cat", "--", self._path(path)], timeout=DEFAULT_TIMEOUT_S)
        if raw.exit != 0:
            raise self._failure(raw)
        return raw.stdout.decode(errors="replace")

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory exists."""
        raw = self._execute(["test", "-e", self._path(path)], timeout=DEFAULT_TIMEOUT_S)
        if raw.exit > 1:
            raise self._failure(raw)
        return raw.exit == 0

    def makedirs(self, path: str) -> None:
        """Create a directory and its parents."""
        self.run(["mkdir", "-p", "--", self._path(path)])

    def remove_tree(self, path: str) -> None:
        """Remove a file or directory below the work directory, if it exists; raise HostError for other paths."""
        self._script(
            scripts.REMOVE_TREE, self.work_dir, self._path(path), timeout=_TRANSFER_TIMEOUT_S
        )


_IN_USE_HINT = "`perfrunner run --resume` stops processes that an interrupted run left behind"


def _reason(raw: Raw) -> str:
    """Return why a command failed: its standard error, or its status."""
    return raw.stderr.decode(errors="replace").strip()[-2000:] or f"status {raw.exit}"


_LIMITED = re.compile(
    "Cannot fork|Resource temporarily unavailable|Too many open files|Cannot allocate memory|File too large"
    "|limit of processes"
)


def hint_of(reason: str) -> str | None:
    """Return what to do about the failure of a command, judging by its message; None if nothing is known."""
    if _LIMITED.search(reason):
        return (
            "raise the user's limits on the host (processes, open files, memory, file size): see ulimit -a and"
            " /etc/security/limits.conf there"
        )
    is_full = "No space left" in reason or "quota exceeded" in reason
    return "free some disk space on the host" if is_full else None


def _still_running(name: str, registry: bytes) -> str:
    try:
        entry = RegistryEntry.parse(registry.decode())
    except (ValueError, KeyError, TypeError):
        return f"a process of {name} is still running"
    return f"{name} (pid {entry.id.pid}, run {entry.run_id or 'unknown'}) is still running"


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
    return digest.hexdigest()
