"""Record CPU profiles and count hardware events with perf; convert stacks to the folded format."""

from __future__ import annotations

import contextlib
import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from perfrunner.errors import HostError, TrialError

if TYPE_CHECKING:
    from perfrunner.hosts.transport import Transport


Stack: TypeAlias = tuple[str, ...]

UNKNOWN = "[unknown]"
KERNEL_MARK = "_[k]"  # suffix of kernel functions, as in stackcollapse-perf.pl
# Parts that the compiler moved out of a function count as the function: which parts it moves differs between builds.
_CLONE = re.compile(r"(?: \[clone [^]]*\]|\.(?:constprop|isra|part|cold|lto_priv)(?:\.\d+)*)+$")
_NUMBER = re.compile(r"(?<=[^\d\s])[-_:#./ ]*\d+$")  # of a thread among threads of the same kind
_NAMELESS = re.compile(r":-?\d+")  # the id of a thread that ended before perf read its name
_SYMBOL_VERSION = re.compile(r"@@?[A-Z][\w.]*$")


@dataclass(frozen=True)
class Folded:
    """Samples by stack, the outermost frame first."""

    counts: Mapping[Stack, int]

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(self.counts.values())

    def text(self) -> str:
        """Return the content of a file; the same samples give the same text."""
        return "".join(f"{';'.join(stack)} {n}\n" for stack, n in sorted(self.counts.items()))


def fold(lines: Iterable[str]) -> Folded:
    """Fold the output of `perf script -F comm,ip,sym,dso`.

    A sample is the name of a thread, its frames from the innermost outwards, and an empty line. Raises
    TrialError for anything else.
    """
    counts: Counter[Stack] = Counter()
    thread, frames = "", list[str]()
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if not text:
            if thread:
                counts[_stack(thread, frames)] += 1
            thread, frames = "", []
        elif line[0].isspace() and thread:
            frames.append(_frame(text, number))
        elif not line[0].isspace() and not thread:
            thread = UNKNOWN if _NAMELESS.fullmatch(text) else _clean(_NUMBER.sub("", text))
        else:
            raise TrialError(f"perf script, line {number}: expected a sample, got {text[:200]}")
    if thread:
        counts[_stack(thread, frames)] += 1
    return Folded(counts)


def added(profiles: Iterable[Folded]) -> Folded:
    """Add the profiles of several processes."""
    total: Counter[Stack] = Counter()
    for profile in profiles:
        total.update(profile.counts)
    return Folded(total)


def parse_folded(text: str, where: str) -> Folded:
    """Parse a file of folded stacks. Raises TrialError, which names the line."""
    counts: Counter[Stack] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdigit():
            raise TrialError(f"{where}:{number}: expected a folded stack, got {line[:200]}")
        counts[tuple(stack.split(";"))] += int(count)
    return Folded(counts)


def _stack(thread: str, frames: list[str]) -> Stack:
    return (thread, *_joined(reversed(frames)))


def _joined(frames: Iterable[str]) -> Iterator[str]:
    """Yield the frames without repetitions of a library without symbols, whose number of frames has no meaning."""
    last = ""
    for frame in frames:
        if frame != last or not frame.startswith("["):
            yield frame
        last = frame


def _frame(text: str, number: int) -> str:
    """Return the function of ` ADDRESS FUNCTION (FILE)`, or the file in brackets if there is no symbol."""
    address, _, rest = text.strip().partition(" ")
    if not rest.endswith(")") or not re.fullmatch(r"[0-9a-f]+", address):
        raise TrialError(f"perf script, line {number}: expected a frame, got {text[:200]}")
    name, _, place = rest.replace(" (deleted)", "").rpartition(" (")
    file = place[:-1].rsplit("/", 1)[-1].strip("[]")
    kernel = place.startswith("[") and file != "unknown" and file not in ("vdso", "vsyscall")
    if name in ("", UNKNOWN):
        return f"[{file}]"
    return f"{_plain(name)}{KERNEL_MARK if kernel else ''}"


def _plain(name: str) -> str:
    return _clean(_SYMBOL_VERSION.sub("", _CLONE.sub("", name)))


def _clean(name: str) -> str:
    """Make a name safe for the folded format, in which `;` and line breaks separate."""
    return " ".join(name.replace(";", ":").split())


PROGRAM = "perf"
FREQUENCY = 499  # Hz; avoids beating with periodic tasks
MOST_BYTES = 32 * 2**20  # of samples per process, about 150 000
_EVENT = "cycles"
# Pages of each CPU's buffer. With 16, all variants of a group stay below the kernel's limit of locked memory per user.
_PAGES = 16
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_SELINUX = "/sys/fs/selinux/enforce"
# The highest level at which users may record their own programs; Debian's default is 3.
_MOST_PARANOID = 2
_NOT_FOUND = 127
_READ_TIMEOUT_S = 300.0


def record_command(data: str) -> list[str]:
    """Return the `perf record` command; the caller adds a `--pid` or a command, with which it ends."""
    return [
        PROGRAM,
        "record",
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
    """Return the command that prints every sample with its stack.

    Names come from the symbol tables only; debug information would take minutes.
    """
    return [PROGRAM, "script", f"--input={data}", "--no-inline", "--fields=comm,ip,sym,dso"]


def check_perf(host: Transport, directory: str, workload: str) -> str:
    """Return the event that perf can sample on the host. Raises HostError, with a remedy, if it cannot record.

    `directory` is a directory on the host, below its work directory, for a test recording.
    """
    data = f"{directory}/perf-check.data"
    done = host.run([*record_command(data), "--", "sleep", "0.05"], check=False)
    try:
        if done.exit == 0:
            return recorded_event(host, data)
    finally:
        with contextlib.suppress(HostError):
            host.remove_tree(data)
    without = f"or remove `profile` from workload {workload}"
    if done.exit == _NOT_FOUND:
        raise HostError(
            f"{host.name}: perf is not installed", f"apt-get install linux-perf, {without}"
        )
    paranoid = _paranoid(host)
    if paranoid is not None and paranoid > _MOST_PARANOID:
        raise HostError(
            f"{host.name}: the kernel allows only root to record with perf (perf_event_paranoid is {paranoid})",
            f"sysctl -w kernel.perf_event_paranoid={_MOST_PARANOID}, {without}",
        )
    reason = " ".join((done.stderr.strip() or done.stdout.strip()).split())
    remedy = "in a container: CAP_PERFMON and a seccomp profile with the call perf_event_open"
    if _is_enforcing(host):
        remedy = f"SELinux is enforcing, see ausearch -m avc -ts recent; {remedy}"
    raise HostError(
        f"{host.name}: perf cannot record (status {done.exit}): {reason[:300] or 'no reason given'}",
        f"allow it on the host ({remedy}), {without}",
    )


def recorded_event(host: Transport, data: str) -> str:
    """Return the sampled event, such as `cycles`, `cycles:u` (without the kernel) or `cpu-clock`."""
    lines = host.run([PROGRAM, "evlist", f"--input={data}"]).stdout.split()
    if not lines:
        raise HostError(f"{host.name}: perf does not report the event that it recorded")
    return lines[0]


def is_full(host: Transport, data: str) -> bool:
    """Tell whether recording ended early because of too many samples."""
    size = int(host.run(["stat", "--format=%s", data]).stdout)
    return size >= MOST_BYTES


def fetch_folded(host: Transport, printed: str, temporary: Path) -> Folded:
    """Fetch and fold the output of `script_command`, a file on the host. `kept` is a temporary local file."""
    host.run(["gzip", "--fast", "--force", printed], timeout=_READ_TIMEOUT_S)
    try:
        host.get_file(f"{printed}.gz", temporary)
        with gzip.open(temporary, "rt", encoding="utf-8", errors="replace") as lines:
            return fold(lines)
    except (EOFError, gzip.BadGzipFile) as error:
        raise TrialError(f"{host.name}: the output of perf arrived damaged: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _is_enforcing(host: Transport) -> bool:
    """Tell whether SELinux refuses everything that its policy does not allow."""
    with contextlib.suppress(HostError):
        return host.read_text(_SELINUX).strip() == "1"
    return False


def _paranoid(host: Transport) -> int | None:
    with contextlib.suppress(HostError, ValueError):
        return int(host.read_text(_PARANOID))
    return None


# Hardware events of a process while a load runs. Most virtual machines have no hardware counters: `perf stat` then
# counts the CPU time only. Events are counted for the whole process, so a figure per operation is a rate per CPU time
# multiplied by the CPU time per operation.
EVENTS = ("instructions", "cycles", "branches", "branch-misses", "cache-misses")
CPU_TIME = "task-clock"  # counted in software on every host
_NS_PER_MS = 1e6


def stat_command(pid: int, output: str) -> list[str]:
    """Return the `perf stat` command, which counts until it gets SIGINT or the process ends."""
    return [
        PROGRAM,
        "stat",
        "--field-separator=,",
        f"--event={','.join((CPU_TIME, *EVENTS))}",
        f"--output={output}",
        f"--pid={pid}",
    ]


def parse_stat(text: str) -> dict[str, float]:
    """Return the counted events of `perf stat -x,` by name, CPU time in nanoseconds.

    Events that the host does not count are left out; `cycles:u` (without the kernel) counts as `cycles`.
    """
    counts: dict[str, float] = {}
    for line in text.splitlines():
        value, unit, event, *_ = [*line.split(","), "", "", ""]
        name = event.partition(":")[0]
        if name not in (CPU_TIME, *EVENTS):
            continue
        try:
            count = float(value)
        except ValueError:  # <not supported>, <not counted>
            continue
        counts[name] = count * (_NS_PER_MS if unit == "msec" else 1.0)
    return counts


def added_counts(processes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add the counts of several processes, for the events that all of them counted."""
    counted = list(processes)
    if not counted:
        return {}
    shared = set(counted[0]).intersection(*counted[1:])
    return {event: sum(counts[event] for counts in counted) for event in sorted(shared)}
