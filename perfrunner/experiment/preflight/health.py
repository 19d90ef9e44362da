"""Assess whether a host is noisy or unfit for measurements, from its facts and by observing it for a second.

A *problem* prevents a run, a *warning* costs precision or comparability, and *ok* means that the check passed.
Facts that a host does not report (a virtual machine has no governor) are skipped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from perfrunner.build.builders import Platform
from perfrunner.errors import HostError
from perfrunner.hosts import scripts
from perfrunner.hosts.facts import usable_cpus, usable_memory, work_dir_problem
from perfrunner.spec.units import cpu_numbers

if TYPE_CHECKING:
    from perfrunner.hosts import Host

Grade: TypeAlias = Literal["ok", "warning", "problem"]
Facts: TypeAlias = Mapping[str, object]

WATCH_S = 1.0
MOST_BUSY = 0.10  # of all CPU time, used by other processes
MOST_STOLEN = 0.01  # of all CPU time, taken by the hypervisor
MOST_CLOCK_OFFSET_S = 1.0
LEAST_DISK_BYTES, LITTLE_DISK_BYTES = 200e6, 10e9  # the programs of a run fill some 100 MB
LEAST_INODES = 1000
LITTLE_MEMORY_BYTES = 2 * 2**30
USUAL_PAGE_BYTES = 4096
LEAST_OPEN_FILES = 1024
LEAST_PROCESSES = 1024  # threads count, those of all processes of the user
STEADY_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")

_PLATFORM_REMEDY = "set build_host in the cluster file to this host or a similar one"


@dataclass(frozen=True)
class Finding:
    """The result of one check of one host (or of this machine).

    `remedy` is a command or an advice; empty if the check passed.
    """

    place: str
    subject: str
    grade: Grade
    text: str
    remedy: str = ""


class Judgement(NamedTuple):
    """The result of a check of facts. Checks return None if the host does not report the fact."""

    grade: Grade
    text: str
    remedy: str = ""


def _warn_if(bad: bool, text: str, remedy: str, otherwise: str = "") -> Judgement:
    """Return a warning, or that the check passed (`otherwise` describes it; default: the same text)."""
    return Judgement("warning", text, remedy) if bad else Judgement("ok", otherwise or text)


def refuse(findings: Iterable[Finding | None]) -> None:
    """Raise HostError for the first problem."""
    for finding in findings:
        if finding is not None and finding.grade == "problem":
            raise HostError(f"{finding.place}: {finding.text}", finding.remedy)


def host_findings(place: str, facts: Facts, built_for: Platform | None = None) -> list[Finding]:
    """Run all checks on the facts of a host. `built_for` is the platform of the programs to run, if known."""
    judged = [(subject, check(facts)) for subject, check in CHECKS.items()]
    if built_for is not None:
        judged.insert(0, ("programs", judge_platform(facts, built_for)))
    return [
        Finding(place, subject, *judgement)
        for subject, judgement in judged
        if judgement is not None
    ]


def platform_finding(place: str, facts: Facts, built_for: Platform) -> Finding | None:
    """Return why programs built for `built_for` cannot run on the host; None if they can."""
    judgement = judge_platform(facts, built_for)
    if judgement is None or judgement.grade == "ok":
        return None
    return Finding(place, "programs", *judgement)


def work_dir_finding(place: str, facts: Facts) -> Finding | None:
    """Return why a run cannot use the work directory (noexec, on a network, full); None if it can."""
    for subject, check in (("work directory", _work_dir), ("disk", _disk)):
        judgement = check(facts)
        if judgement is not None and judgement.grade == "problem":
            return Finding(place, subject, *judgement)
    return None


def judge_platform(facts: Facts, built: Platform) -> Judgement | None:
    """Judge whether the host can run programs built for `built`; None if the host does not report its platform."""
    if "machine" not in facts:
        return None
    where, machine, there = built.where, facts["machine"], str(facts.get("glibc") or "")
    bits = facts.get("bits", built.bits)
    text = ""
    if built.system != "Linux" and "boot_id" in facts:  # read from /proc, so the host runs Linux
        text = f"it runs Linux, and programs are built {where} for {built.system}"
    elif machine != built.machine:
        text = f"it is a {machine}, and programs are built {where} for {built.machine}"
    elif bits != built.bits:
        text = f"it runs {bits}-bit programs, and programs are built {where} with {built.bits} bits"
    elif bool(there) != bool(built.libc):
        text = f"it has {there or 'no glibc'}; programs are built {where} with {built.libc or 'another libc'}"
    elif _version(there) < _version(built.libc):
        text = f"it has {there}, and programs are built {where} with {built.libc}"
    if text:
        return Judgement("problem", text, _PLATFORM_REMEDY)
    return Judgement("ok", f"{machine}, {there or 'no glibc'}")


def _version(libc: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", libc)]


def watch(host: Host, place: str) -> Iterator[Finding]:
    """Observe the host for WATCH_S: CPU time used by others, stolen time, and the offset of its clock."""
    begun = time.time()
    output = host.transport.run(["sh", "-c", scripts.WATCH_CPUS, "sh", str(WATCH_S)]).stdout
    ended = time.time()
    first, second, clock = output.split("\n")[:3]
    busy, stolen = cpu_shares(first, second)
    yield Finding(place, "other work", *_judge_busy(busy))
    yield Finding(place, "stolen time", *_judge_stolen(stolen))
    # The clock is read after the sleep; the round trip is the uncertainty.
    offset = float(clock) - ended
    round_trip = max(0.0, ended - begun - WATCH_S)
    yield Finding(place, "clock", *_judge_offset(offset, round_trip))


def cpu_shares(first: str, second: str) -> tuple[float, float]:
    """Return the (busy, stolen) shares of all CPU time between two `cpu` lines of /proc/stat."""
    before, after = ([int(word) for word in line.split()[1:9]] for line in (first, second))
    spent = [b - a for a, b in zip(before, after, strict=True)]
    total = sum(spent)
    if total == 0:
        return 0.0, 0.0
    _, _, _, idle, iowait, _, _, stolen = spent
    return (total - idle - iowait - stolen) / total, stolen / total


def _judge_busy(share: float) -> Judgement:
    text = f"{share:.0%} of the CPU time is used"
    return _warn_if(share > MOST_BUSY, text, "stop other processes on the host")


def _judge_stolen(share: float) -> Judgement:
    text = f"the hypervisor took {share:.1%} of the CPU time"
    return _warn_if(share > MOST_STOLEN, text, "use a host with dedicated CPUs, or more blocks")


def _judge_offset(offset: float, uncertainty: float) -> Judgement:
    return _warn_if(
        abs(offset) > MOST_CLOCK_OFFSET_S + uncertainty,
        f"{offset:+.1f} s against this machine's",
        "synchronize both by NTP, for example with chrony",
        "agrees with this machine's",
    )


def _governor(facts: Facts) -> Judgement | None:
    governor = facts.get("governor")
    if governor is None:
        return None
    remedy = "cpupower frequency-set -g performance"
    return _warn_if(governor != "performance", f"CPU governor is {governor}", remedy)


def _turbo(facts: Facts) -> Judgement | None:
    turbo = facts.get("turbo")
    if not isinstance(turbo, bool):
        return None
    return _warn_if(
        turbo,
        "turbo is on: the clock rate depends on the temperature",
        "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > …/cpu/cpufreq/boost",
        "turbo is off",
    )


def _load(facts: Facts) -> Judgement | None:
    load, cpus = facts.get("load_average"), facts.get("cpus")
    if not isinstance(load, float) or not isinstance(cpus, int):
        return None
    text = f"load average is {load:g} on {cpus} CPUs"
    return _warn_if(load > 0.5 * cpus, text, "stop other processes on the host")


def _pinning(facts: Facts) -> Judgement | None:
    allowed, cpus = facts.get("cpus_allowed"), facts.get("cpus")
    if not isinstance(allowed, str) or not isinstance(cpus, int):
        return None
    count = len(cpu_numbers(allowed))
    return _warn_if(
        count < cpus,
        f"only {count} of {cpus} CPUs are available ({allowed})",
        "start perfrunner (or sshd) without taskset or a cpuset",
        f"all {cpus} CPUs are available",
    )


def _clock_source(facts: Facts) -> Judgement | None:
    source = facts.get("clock_source")
    if not isinstance(source, str):
        return None
    text = f"clock source is {source}"
    return _warn_if(
        source not in STEADY_CLOCKS,
        f"{text}: each time stamp is a slow device access or a system call",
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        text,
    )


def _aslr(facts: Facts) -> Judgement | None:
    aslr = facts.get("aslr")
    if aslr is None:
        return None
    return _warn_if(
        aslr == "0",
        "address randomisation is off: every trial has the same memory layout, which may favour one variant",
        "sysctl kernel.randomize_va_space=2",
        "address randomisation is on",
    )


def _swap(facts: Facts) -> Judgement | None:
    swap = facts.get("swap_bytes")
    if not isinstance(swap, int):
        return None
    text = f"{swap / 1e9:.1f} GB of swap: RSS shrinks when it is used"
    return _warn_if(swap > 0, text, "swapoff -a", "no swap")


def _work_dir(facts: Facts) -> Judgement | None:
    if "work_dir_filesystem" not in facts:
        return None
    if problem := work_dir_problem(facts):
        return Judgement("problem", *problem)
    return Judgement("ok", f"the work directory is on {facts['work_dir_filesystem']}")


def _disk(facts: Facts) -> Judgement | None:
    free, inodes = facts.get("disk_free_bytes"), facts.get("inodes_free")
    if not isinstance(free, int):
        return None
    text = f"{free / 1e9:.1f} GB free for the work directory"
    remedy = "free some space (perfrunner clean), or set another work_dir"
    if isinstance(inodes, int) and inodes < LEAST_INODES:
        return Judgement("problem", f"No space left on device: only {inodes} more files", remedy)
    if free < LEAST_DISK_BYTES:
        return Judgement("problem", f"No space left on device: {text}", remedy)
    if free < LITTLE_DISK_BYTES:
        return Judgement("warning", text, remedy)
    return Judgement("ok", text)


def _open_files(facts: Facts) -> Judgement | None:
    limit = facts.get("open_files_limit")
    if not isinstance(limit, str):
        return None
    few = limit.isdigit() and int(limit) < LEAST_OPEN_FILES
    return _warn_if(few, f"{limit} open files at most", "ulimit -n 65536")


def _process_limits(facts: Facts) -> Judgement | None:
    limits = facts.get("process_limits")
    if not isinstance(limits, Mapping):
        return None
    shown = []
    for name, limit in limits.items():
        if name == "processes":
            shown += [f"{name} {limit}"] if limit < LEAST_PROCESSES else []
        else:
            shown.append(
                f"{name} {limit} s" if name == "cpu time" else f"{name} {limit / 1e9:.2g} GB"
            )
    return _warn_if(
        bool(shown),
        f"the programs of a run are limited: {', '.join(shown)}",
        "raise these limits: ulimit, /etc/security/limits.conf, or LimitAS= and others of systemd",
        "no limits of CPU time, file size and address space",
    )


def _cpu_quota(facts: Facts) -> Judgement | None:
    cpus, usable, quota = facts.get("cpus"), usable_cpus(facts), facts.get("cgroup_cpu_max")
    if not isinstance(cpus, int) or not isinstance(quota, str) or usable is None:
        return None
    return _warn_if(
        not quota.startswith("max") and usable < cpus,
        f"its cgroup has a CPU quota of {usable:g} of {cpus} CPUs and is throttled beyond that",
        "assign whole CPUs instead of a quota: docker run --cpuset-cpus, systemd AllowedCPUs=",
        "no CPU quota",
    )


def _memory_limit(facts: Facts) -> Judgement | None:
    memory, usable = facts.get("memory_bytes"), usable_memory(facts)
    if not isinstance(memory, int) or usable is None:
        return None
    if usable >= memory:
        return Judgement("ok", f"{memory / 1e9:.1f} GB of memory, no limit")
    text = f"its cgroup may use {usable / 1e9:.1f} of {memory / 1e9:.1f} GB of memory"
    remedy = "raise the limit (docker run --memory), or reduce items and limits.group_size"
    return _warn_if(usable < LITTLE_MEMORY_BYTES, text, remedy)


def _huge_pages(facts: Facts) -> Judgement | None:
    mode = facts.get("thp_enabled")
    if not isinstance(mode, str):
        return None
    return _warn_if(
        mode == "never",
        "transparent huge pages are off: the allocator options metadata_thp and thp have no effect",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        f"transparent huge pages are in mode {mode}",
    )


def _overcommit(facts: Facts) -> Judgement | None:
    mode = facts.get("overcommit_memory")
    if not isinstance(mode, str):
        return None
    return _warn_if(
        mode == "2",
        "memory overcommit is off: large reservations of an allocator may fail",
        "sysctl vm.overcommit_memory=0",
        "memory overcommit is on",
    )


def _page_size(facts: Facts) -> Judgement | None:
    size = facts.get("page_bytes")
    if not isinstance(size, int):
        return None
    text = f"the page size is {size >> 10} KiB"
    return _warn_if(
        size != USUAL_PAGE_BYTES,
        f"{text}: a jemalloc built on a host with smaller pages does not start",
        "build on this host or a similar one (build_host in the cluster file)",
        text,
    )


CHECKS: Mapping[str, Callable[[Facts], Judgement | None]] = {
    "governor": _governor,
    "turbo": _turbo,
    "load": _load,
    "pinning": _pinning,
    "CPU quota": _cpu_quota,
    "memory limit": _memory_limit,
    "huge pages": _huge_pages,
    "overcommit": _overcommit,
    "page size": _page_size,
    "clock source": _clock_source,
    "address layout": _aslr,
    "swap": _swap,
    "work directory": _work_dir,
    "disk": _disk,
    "open files": _open_files,
    "process limits": _process_limits,
}
