"""Run commands on this machine as on a host."""

from __future__ import annotations

import contextlib
import filecmp
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from perfrunner.errors import HostError, is_full
from perfrunner.hosts import scripts
from perfrunner.hosts.process import BASE_ENVIRONMENT, CommandTimeout, Raw
from perfrunner.hosts.transport import CHUNK, Sink, Transport, hint_of
from perfrunner.paths import home

_TERM_PATIENCE_S = 1.0


def supervised(argv: Sequence[str], *, fed: bool) -> list[str]:
    """Wrap `argv` in a shell that ends it when our end of its standard input closes.

    A command that is `fed` reads its standard input itself and ends by its own rules.
    """
    return ["sh", "-c", scripts.FED if fed else scripts.TIED, "sh", *argv]


class LocalTransport(Transport):
    """A transport to this machine.

    Commands are children in a new session, so that a terminal's Ctrl-C reaches perfrunner only. They end when
    perfrunner ends, for any reason. Processes started with `start` keep running.
    """

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        return {name: os.environ[name] for name in names if os.environ.get(name)}

    def _execute(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        source: Iterable[bytes] | None = None,
        sink: Sink | None = None,
    ) -> Raw:
        out: list[bytes] = []
        fed = source is not None
        with tempfile.TemporaryFile() as stderr:
            try:
                child = subprocess.Popen(
                    supervised(argv, fed=fed),
                    stdin=subprocess.PIPE,  # closes at the latest when we die, which ends a command that is not fed
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,
                    env={"HOME": home(), **BASE_ENVIRONMENT},
                )
            except OSError as error:
                reason = str(error.strerror)
                raise HostError(
                    f"{self.name}: cannot start {argv[0]}: {reason}", hint_of(reason)
                ) from error
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                if source is not None:
                    _feed_in_background(child.stdin, source)
                self._drain(child, child.stdout, argv[0], timeout, sink or out.append)
            except BaseException:
                end_group(child)
                raise
            finally:
                child.stdout.close()
                if not fed:
                    child.stdin.close()
            stderr.seek(0)
            return Raw(child.returncode, b"".join(out), stderr.read())

    def _drain(
        self,
        child: subprocess.Popen[bytes],
        stdout: IO[bytes],
        what: str,
        timeout: float,
        sink: Sink,
    ) -> None:
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(stdout.fileno(), CHUNK)
                if not chunk:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(max(0.0, deadline - time.monotonic()))
                        return
                    break
                sink(chunk)
        raise CommandTimeout(f"{self.name}: {what} did not end within {timeout:g} s")

    def put_file(self, local: Path, remote: str) -> bool:
        """Copy a file without a pipe through a shell, because every block may have its own programs to copy."""
        target = Path(self._path(remote))
        part = target.with_name(f"{target.name}.part.{os.getpid()}")
        try:
            mode = local.stat().st_mode & 0o777
            if (
                target.is_file()
                and target.stat().st_mode & 0o777 == mode
                and filecmp.cmp(local, target, shallow=False)
            ):
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(local, part)
            part.chmod(mode)
            part.replace(target)
        except OSError as error:
            hint = "free some disk space on the host" if is_full(error) else None
            raise HostError(f"{self.name}: cannot copy {local}: {error}", hint) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """Do nothing: there is no connection."""


def _feed_in_background(stdin: IO[bytes], source: Iterable[bytes]) -> None:
    def feed() -> None:
        # After a broken pipe the command's status reports the failure.
        with contextlib.suppress(BrokenPipeError), stdin:
            for chunk in source:
                stdin.write(chunk)

    threading.Thread(target=feed, daemon=True, name="feed").start()


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Send TERM, then KILL, to the whole process group.

    The leader is reaped last, because the number of the group may be reused after that.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + _TERM_PATIENCE_S
    while time.monotonic() < deadline and not _is_zombie(child):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _is_zombie(child: subprocess.Popen[bytes]) -> bool:
    if child.returncode is not None:
        return True
    if not hasattr(os, "waitid"):  # macOS: wait for the full time
        return False
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
