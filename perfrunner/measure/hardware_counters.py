"""Count hardware events of a process with `perf stat` while a load runs.

Most virtual machines have no hardware counters: `perf stat` then counts the CPU time only. Events are counted for
the whole process, so a figure per operation is a rate per CPU time multiplied by the CPU time per operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perfrunner.measure import cpu_profile

EVENTS = ("instructions", "cycles", "branches", "branch-misses", "cache-misses")
CPU_TIME = "task-clock"  # counted in software on every host
_NS_PER_MS = 1e6


def stat_command(pid: int, output: str) -> list[str]:
    """Return the `perf stat` command, which counts until it gets SIGINT or the process ends."""
    return [
        cpu_profile.PROGRAM,
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
