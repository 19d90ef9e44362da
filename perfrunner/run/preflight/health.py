"""What makes a host noisy or unfit for a measurement: judged from its facts and from watching it for a second.

A *problem* stops a run; a *warning* costs precision or comparability; *ok* was looked at and is as it should be.
A fact that a host does not show (a virtual machine has no governor) is not judged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.build.place import Platform
from perfrunner.cluster import scripts
from perfrunner.spec.cpus import cpu_numbers

if TYPE_CHECKING:
    from perfrunner.cluster import Host

Grade: TypeAlias = Literal["ok", "warning", "problem"]
Facts: TypeAlias = Mapping[str, object]

WATCH_S = 1.0
MOST_BUSY = 0.10  # of all CPU time, by whatever else runs there
MOST_STOLEN = 0.01  # of all CPU time, by the hypervisor
MOST_CLOCK_OFFSET_S = 1.0
LEAST_DISK_BYTES, LITTLE_DISK_BYTES = 1e9, 10e9
LEAST_OPEN_FILES = 1024
STEADY_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")

_PLATFORM_REMEDY = (
    "name a build host in the cluster file (build_host: one like it, or the host itself)"
)


@dataclass(frozen=True)
class Finding:
    """`place` is a host of the cluster or the controller; `remedy` a command or an advice, empty where all is well."""

    place: str
    subject: str
    grade: Grade
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Judgement:
    """What one check says; None in its place where the host does not show the fact."""

    grade: Grade
    text: str
    remedy: str = ""


def host_findings(place: str, facts: Facts, built_for: Platform | None = None) -> list[Finding]:
    """Every check of the facts that the host shows. `built_for`: of the programs that are to run there, if of any."""
    judged = [(subject, check(facts)) for subject, check in CHECKS.items()]
    if built_for is not None:
        judged.insert(0, ("programs", judge_platform(facts, built_for)))
    return [
        Finding(place, subject, found.grade, found.text, found.remedy)
        for subject, found in judged
        if found is not None
    ]


def platform_finding(place: str, facts: Facts, built_for: Platform) -> Finding | None:
    """Why programs that are built for this platform cannot run on the host; None when nothing speaks against it."""
    found = judge_platform(facts, built_for)
    if found is None or found.grade == "ok":
        return None
    return Finding(place, "programs", found.grade, found.text, found.remedy)


def judge_platform(facts: Facts, built: Platform) -> Judgement | None:
    """Whether the host can run what is built for `built`; None where the host does not show what it is."""
    if "machine" not in facts:
        return None
    where, machine, there = built.where, facts["machine"], str(facts.get("glibc") or "")
    if built.system != "Linux" and "boot_id" in facts:  # of /proc
        text = f"it runs Linux, and programs are built {where} for {built.system}"
        return Judgement("problem", text, _PLATFORM_REMEDY)
    if machine != built.machine:
        text = f"it is a {machine}, and programs are built {where} for {built.machine}"
        return Judgement("problem", text, _PLATFORM_REMEDY)
    bits = facts.get("bits", built.bits)
    if bits != built.bits:
        text = f"its programs have {bits} bits, and ours are built {where} with {built.bits}"
        return Judgement("problem", text, _PLATFORM_REMEDY)
    if bool(there) != bool(built.libc):
        text = f"it has {there or 'no glibc'}; programs are built {where} with {built.libc or 'another libc'}"
        return Judgement("problem", text, _PLATFORM_REMEDY)
    if _version(there) < _version(built.libc):
        text = f"it has {there}, and programs are built {where} with {built.libc}"
        return Judgement("problem", text, _PLATFORM_REMEDY)
    return Judgement("ok", f"{machine}, {there or 'no glibc'}")


def _version(libc: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", libc)]


def watch(host: Host, place: str) -> Iterator[Finding]:
    """Looks at the host for WATCH_S: who else uses its CPUs, and whether its clock agrees with this machine's."""
    begun = time.time()
    output = host.transport.run(["sh", "-c", scripts.WATCH_CPUS, "sh", str(WATCH_S)]).stdout
    ended = time.time()
    first, second, clock = output.split("\n")[:3]
    busy, stolen = cpu_shares(first, second)
    yield Finding(place, "other work", *_judge_busy(busy))
    yield Finding(place, "stolen time", *_judge_stolen(stolen))
    # The clock was read at the end, after the sleep; the way there and back is the uncertainty.
    offset = float(clock) - ended
    way = max(0.0, ended - begun - WATCH_S)
    yield Finding(place, "clock", *_judge_offset(offset, way))


def cpu_shares(first: str, second: str) -> tuple[float, float]:
    """(busy, stolen) shares of all CPU time between two `cpu` lines of /proc/stat."""
    before, after = ([int(word) for word in line.split()[1:9]] for line in (first, second))
    spent = [b - a for a, b in zip(before, after, strict=True)]
    total = sum(spent)
    if total == 0:
        return 0.0, 0.0
    _, _, _, idle, iowait, _, _, stolen = spent
    return (total - idle - iowait - stolen) / total, stolen / total


def _judge_busy(share: float) -> tuple[Grade, str, str]:
    text = f"{share:.0%} of the CPU time is used"
    if share > MOST_BUSY:
        return "warning", text, "stop what else runs there"
    return "ok", text, ""


def _judge_stolen(share: float) -> tuple[Grade, str, str]:
    text = f"the hypervisor took {share:.1%} of the CPU time"
    if share > MOST_STOLEN:
        return "warning", text, "a host with CPUs of its own; otherwise more blocks"
    return "ok", text, ""


def _judge_offset(offset: float, uncertainty: float) -> tuple[Grade, str, str]:
    text = f"{offset:+.1f} s against this machine's"
    if abs(offset) > MOST_CLOCK_OFFSET_S + uncertainty:
        return "warning", text, "set both by NTP, such as with chrony"
    return "ok", "agrees with this machine's", ""


def _governor(facts: Facts) -> Judgement | None:
    governor = facts.get("governor")
    if governor is None:
        return None
    if governor != "performance":
        return Judgement(
            "warning", f"CPU governor is {governor}", "cpupower frequency-set -g performance"
        )
    return Judgement("ok", "CPU governor is performance")


def _turbo(facts: Facts) -> Judgement | None:
    turbo = facts.get("turbo")
    if not isinstance(turbo, bool):
        return None
    if turbo:
        return Judgement(
            "warning",
            "turbo is on: the clock rate follows the temperature",
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > …/cpu/cpufreq/boost",
        )
    return Judgement("ok", "turbo is off")


def _load(facts: Facts) -> Judgement | None:
    load, cpus = facts.get("load_average"), facts.get("cpus")
    if not isinstance(load, float) or not isinstance(cpus, int):
        return None
    text = f"load average is {load:g} on {cpus} CPUs"
    if load > 0.5 * cpus:
        return Judgement("warning", text, "stop what else runs there")
    return Judgement("ok", text)


def _pinning(facts: Facts) -> Judgement | None:
    allowed, cpus = facts.get("cpus_allowed"), facts.get("cpus")
    if not isinstance(allowed, str) or not isinstance(cpus, int):
        return None
    count = len(cpu_numbers(allowed))
    if count < cpus:
        return Judgement(
            "warning",
            f"only {count} of {cpus} CPUs may be used ({allowed})",
            "start perfrunner (or sshd) without taskset or a cpuset",
        )
    return Judgement("ok", f"all {cpus} CPUs may be used")


def _clock_source(facts: Facts) -> Judgement | None:
    source = facts.get("clock_source")
    if not isinstance(source, str):
        return None
    if source not in STEADY_CLOCKS:
        return Judgement(
            "warning",
            f"clock source is {source}: each time stamp is a slow device access or a system call",
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
    return Judgement("ok", f"clock source is {source}")


def _aslr(facts: Facts) -> Judgement | None:
    aslr = facts.get("aslr")
    if aslr is None:
        return None
    if aslr == "0":
        return Judgement(
            "warning",
            "address randomisation is off: every trial repeats one memory layout, lucky or not",
            "sysctl kernel.randomize_va_space=2",
        )
    return Judgement("ok", "address randomisation is on")


def _swap(facts: Facts) -> Judgement | None:
    swap = facts.get("swap_bytes")
    if not isinstance(swap, int):
        return None
    if swap > 0:
        return Judgement(
            "warning", f"{swap / 1e9:.1f} GB of swap: RSS shrinks when it is used", "swapoff -a"
        )
    return Judgement("ok", "no swap")


def _disk(facts: Facts) -> Judgement | None:
    free = facts.get("disk_free_bytes")
    if not isinstance(free, int):
        return None
    text = f"{free / 1e9:.1f} GB free for the work directory"
    if free < LEAST_DISK_BYTES:
        return Judgement("problem", text, "perfrunner clean, or another work_dir")
    if free < LITTLE_DISK_BYTES:
        return Judgement("warning", text, "perfrunner clean, or another work_dir")
    return Judgement("ok", text)


def _open_files(facts: Facts) -> Judgement | None:
    limit = facts.get("open_files_limit")
    if not isinstance(limit, str):
        return None
    if limit.isdigit() and int(limit) < LEAST_OPEN_FILES:
        return Judgement("warning", f"{limit} open files at most", "ulimit -n 65536")
    return Judgement("ok", f"{limit} open files at most")


CHECKS: Mapping[str, Callable[[Facts], Judgement | None]] = {
    "governor": _governor,
    "turbo": _turbo,
    "load": _load,
    "pinning": _pinning,
    "clock source": _clock_source,
    "address layout": _aslr,
    "swap": _swap,
    "disk": _disk,
    "open files": _open_files,
}
