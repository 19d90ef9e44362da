"""Linux perf on a host: whether it may record there, how it is called, and its samples as folded stacks.

It samples the processes that it is given, 499 times for each second of CPU time that a thread uses, with the chain of
callers by frame pointers: our programs are built with them; in a library built without (glibc, RocksDB) the chain has
gaps, and a function without a symbol is said as the library's name. `cycles` needs the processor's counters; where a
virtual machine has none, perf itself takes the kernel's clock (`cpu-clock`), and `recorded_event` says which it was.
"""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.errors import HostError, TrialError
from perfrunner.measure.folded import Folded, fold

if TYPE_CHECKING:
    from perfrunner.cluster.transport import Transport

PROGRAM = "perf"
FREQUENCY = 499  # not a divisor of what runs by the clock
MOST_BYTES = 32 * 2**20  # of samples of one process: about 150 000
_EVENT = "cycles"
_PAGES = (
    16  # of each CPU's buffer: so many arms at once stay below what the kernel locks for a user
)
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_MOST_PARANOID = 2  # at which a user may record programs of his own; Debian's default is 3
_NOT_FOUND = 127
_READ_TIMEOUT_S = 300.0


def record_command(data: str) -> list[str]:
    """`perf record`, to which a `--pid` or a command is to be added; it ends with that, or by SIGTERM."""
    return [
        PROGRAM,
        "record",
        "--quiet",
        f"--freq={FREQUENCY}",
        "-g",
        f"--event={_EVENT}",
        f"--mmap-pages={_PAGES}",
        f"--max-size={MOST_BYTES}B",
        "--no-buildid",
        "--no-buildid-cache",
        f"--output={data}",
    ]


def script_command(data: str) -> list[str]:
    """Prints every sample with its stack; names from the symbol tables alone, which takes no minutes."""
    return [PROGRAM, "script", f"--input={data}", "--no-inline", "--fields=comm,ip,sym,dso"]


def check_perf(host: Transport, directory: str, workload: str) -> str:
    """The event that perf can sample on the host. HostError, with what to do, where it cannot record.

    `directory` (on the host, below its work directory) is where it tries.
    """
    data = f"{directory}/perf-check.data"
    done = host.run([*record_command(data), "--", "sleep", "0.05"], check=False)
    try:
        if done.exit == 0:
            return recorded_event(host, data)
    finally:
        with contextlib.suppress(HostError):
            host.remove_tree(data)
    without = f"or take profile: perf out of workload {workload}"
    if done.exit == _NOT_FOUND:
        raise HostError(
            f"{host.name}: perf is not installed", f"apt-get install linux-perf, {without}"
        )
    paranoid = _paranoid(host)
    if paranoid is not None and paranoid > _MOST_PARANOID:
        raise HostError(
            f"{host.name}: the kernel lets only root record with perf (perf_event_paranoid is {paranoid})",
            f"sysctl -w kernel.perf_event_paranoid={_MOST_PARANOID}, {without}",
        )
    said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
    raise HostError(
        f"{host.name}: perf cannot record (status {done.exit}): {said[:300] or 'it does not say why'}",
        f"allow it there (in a container: CAP_PERFMON and the call perf_event_open), {without}",
    )


def recorded_event(host: Transport, data: str) -> str:
    """What was sampled, such as `cycles`, `cycles:u` (without the kernel) or `cpu-clock`."""
    lines = host.run([PROGRAM, "evlist", f"--input={data}"]).stdout.split()
    if not lines:
        raise HostError(f"{host.name}: perf does not say what it recorded")
    return lines[0]


def is_full(host: Transport, data: str) -> bool:
    """Whether recording ended early because there were too many samples."""
    size = int(host.run(["stat", "--format=%s", data]).stdout)
    return size >= MOST_BYTES


def fetch_folded(host: Transport, printed: str, kept: Path) -> Folded:
    """The stacks of what `script_command` printed into a file on the host. `kept` is a name for the time being here."""
    host.run(["gzip", "--fast", "--force", printed], timeout=_READ_TIMEOUT_S)
    try:
        host.get_file(f"{printed}.gz", kept)
        with gzip.open(kept, "rt", encoding="utf-8", errors="replace") as lines:
            return fold(lines)
    except (EOFError, gzip.BadGzipFile) as error:
        raise TrialError(f"{host.name}: what perf printed arrived damaged: {error}") from error
    finally:
        kept.unlink(missing_ok=True)


def _paranoid(host: Transport) -> int | None:
    with contextlib.suppress(HostError, ValueError):
        return int(host.read_text(_PARANOID))
    return None
