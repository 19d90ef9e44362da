"""Programs that the tests begin on a host, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

from perfrunner.hosts import Host, Process
from tests.support.waiting import until


def begin(host: Host, *argv: str, name: str = "worker", **kwargs: object) -> Process:
    return host.start(argv, name=name, log_stdout="logs/out", log_stderr="logs/err", **kwargs)


def begin_shell(host: Host, script: str, name: str = "worker") -> Process:
    return begin(host, "sh", "-c", script, name=name)


def program_environ(process: Process, program: str) -> list[str]:
    """Its environment, once it is the program: the launcher tells the pid before it becomes it."""
    proc = Path(f"/proc/{process.pid}")
    until(lambda: (proc / "exe").readlink().name == program, "the pid is the program's")
    # Empty for the instant in which the kernel has replaced the program and not yet its stack.
    until(lambda: (proc / "environ").read_bytes() != b"", "it has an environment")
    return [word.decode() for word in (proc / "environ").read_bytes().split(b"\0") if word]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (
        FileNotFoundError,
        ProcessLookupError,
    ):  # gone before the opening, or before the reading
        return False
