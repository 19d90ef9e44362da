"""Read memory, CPU time and state of a process from /proc, as `kvctl sample` prints them for the engine.

Needs the standard library alone, because it runs on the server's host (agent.py).
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_ROLLUP = {
    "rss": "Rss",
    "pss": "Pss",
    "pss_file": "Pss_File",
    "lazyfree": "LazyFree",
    "anon_huge": "AnonHugePages",
}


def read_usage(pid: int) -> dict[str, float | int | None]:
    """Return the figures of a process: bytes, seconds, threads. Raises OSError if it has ended."""
    proc = Path("/proc") / str(pid)
    fields = dict(
        line.split(":", 1) for line in (proc / "smaps_rollup").read_text().splitlines()[1:]
    )
    usage: dict[str, float | int | None] = {
        name: 1024 * int(fields[field].split()[0]) if field in fields else None
        for name, field in _ROLLUP.items()
    }
    stat = (proc / "stat").read_text().rpartition(")")[2].split()  # from field 3 on
    usage["cpu_user_s"], usage["cpu_sys_s"] = int(stat[11]) / _TICKS, int(stat[12]) / _TICKS
    usage["threads"], usage["vsz"] = int(stat[17]), int(stat[20])
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    usage["stacks_vsz"] = (
        None
        if limit == resource.RLIM_INFINITY
        else stack_bytes((proc / "maps").read_text(), limit, _PAGE)
    )
    return usage


def stack_bytes(maps: str, stack_size: int, page: int) -> int:
    """Return the address space of thread stacks: mappings of glibc's size behind a guard page."""
    guard_end, total = 0, 0
    for line in maps.splitlines():
        span, permissions, *_ = line.split()
        begin, end = (int(part, 16) for part in span.split("-"))
        size = end - begin
        if permissions == "---p" and size == page:
            guard_end = end
        elif begin == guard_end and permissions.startswith("rw") and 0 <= stack_size - size <= page:
            total += size
    return total


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
