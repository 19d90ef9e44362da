"""Run perfrunner elsewhere: as a child process on this machine, or packed into one file for another host's Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

from perfrunner.errors import HostError

# `-m` would look for modules in the current directory first: in another clone, or for the user's own random.py.
_MAIN = """\
import sys
sys.path[:] = filter(None, sys.path)
from perfrunner.cli import main
main(prog_name="perfrunner")
"""
PERFRUNNER = (sys.executable, "-c", _MAIN)
JOB_VARIABLE = "PERFRUNNER_JOB"  # environment variable: id of the fleet job that the child runs
# setpriv of util-linux. The signal is sent when the thread that started the child ends; that thread
# has to wait for the child. The shell ends at once if the parent died before the signal was set up:
# then it is no longer the parent.
TIED = ("setpriv", "--pdeathsig", "TERM", "--", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
STORE_VARIABLE = "PERFRUNNER_STORE"  # environment variable: the store URL, instead of --store


def with_store(environment: Mapping[str, str], url: str | None) -> dict[str, str]:
    """Return the environment of a child process that uses the store at `url`.

    The URL may contain a password, and every user of the machine can read command lines.
    """
    return {**environment} if url is None else {**environment, STORE_VARIABLE: url}


def tied() -> list[str]:
    """Return the prefix of a command that the kernel sends SIGTERM when this process dies.

    Raises HostError if the tool for it is missing.
    """
    if shutil.which(TIED[0]) is None:
        raise HostError(
            f"perfrunner needs {TIED[0]}, which is not installed", "apt-get install util-linux"
        )
    return [*TIED, str(os.getpid())]


def run_child(command: Sequence[str], **options: Any) -> int:
    """Run a command to its end and return its exit code. `options` are those of subprocess.Popen.

    A signal that would end this process is passed on instead. The command may take its time to clean up and is never
    killed; then KeyboardInterrupt is raised. It has a session of its own, so a terminal's Ctrl-C reaches it once. If
    this process is killed, the command gets SIGTERM.
    """
    command = [*tied(), *command]
    child: subprocess.Popen[Any] | None = None
    signals: list[int] = []

    def pass_on(signum: int, frame: FrameType | None) -> None:
        del frame
        signals.append(signum)
        if child is not None:
            child.send_signal(signum)

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # under nohup
    ends = (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))
    before = {signum: signal.signal(signum, pass_on) for signum in ends}
    try:
        child = subprocess.Popen(command, start_new_session=True, **options)
        for signum in signals:  # those that came before there was a child
            child.send_signal(signum)
        code = child.wait()
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if signals:
        raise KeyboardInterrupt
    return code


def log_tail(lines: Sequence[str]) -> str:
    """Return the last error line of a log, or its last line when there is no error."""
    errors = [line for line in lines if line.startswith(("error:", "failed:"))]
    return (errors or [line for line in lines if line.strip()] or ["no output"])[-1]


def python_archive(main: str, modules: Iterable[str]) -> bytes:
    """Return a zip file with `main` as its __main__.py; the same perfrunner produces the same bytes.

    `modules` are paths below the package perfrunner ("build/worker.py"). Packages get an empty __init__.py,
    because their own may import modules that only the controller has.
    """
    import io  # imported late: every command imports this module
    import zipfile
    from importlib.resources import files

    package = files("perfrunner")
    content = {"__main__.py": main, "perfrunner/__init__.py": ""}
    for module in modules:
        *folders, _ = module.split("/")
        for depth in range(1, len(folders) + 1):
            content.setdefault(f"perfrunner/{'/'.join(folders[:depth])}/__init__.py", "")
        content[f"perfrunner/{module}"] = (package / module).read_text(encoding="utf-8")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in content.items():
            # ZipInfo's default date is 1980-01-01.
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return out.getvalue()
