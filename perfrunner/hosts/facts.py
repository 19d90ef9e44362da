"""Read the facts of a host: its hardware, kernel and settings.

The facts are recorded with every experiment and compared before and after it. One shell program reads all of them from
files, in one exchange. A fact that a host does not show (no cpufreq in a virtual machine) is absent, never guessed.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from perfrunner.hosts import scripts
from perfrunner.hosts.process import BASE_ENVIRONMENT
from perfrunner.spec.units import cpu_list, cpu_numbers

if TYPE_CHECKING:
    from perfrunner.hosts.transport import Transport

Facts: TypeAlias = dict[str, object]
NO_LIMIT = 2**62  # cgroups v1 express "no memory limit" by a number near 2**63
COMPILER_BYTES = 10**9  # of memory for one compiler

# The numbers of `df -P`, between two names that may contain blanks and line breaks.
_DF = re.compile(r"\s(?P<total>\d+)\s+\d+\s+(?P<free>\d+)\s+(\d+%|-)\s")

# Soft limits of /proc/PID/limits that an engine may meet; a word in place of the number is no limit.
_LIMITS = re.compile(
    r"^Max (cpu time|file size|data size|processes|address space) +([0-9]+)", re.MULTILINE
)

NETWORK_FILE_SYSTEMS = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs",
    "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.rclone", "fuse.s3fs",
}  # fmt: skip

# A mounted source that names a server (host:/directory, user@host:, //host/share), whatever the file system's type.
_SERVER = re.compile(r"//|[^/]+:")


def read_facts(transport: Transport) -> Facts:
    """Return the current facts of the transport's host."""
    done = transport.run(["sh", "-c", scripts.FACTS, "sh", transport.work_dir], check=False)
    return parse_facts(done.stdout)


def facts_here() -> Facts:
    """Return the current facts of this machine."""
    done = subprocess.run(
        ["/bin/sh", "-c", scripts.FACTS, "sh", "/"],
        env=BASE_ENVIRONMENT,  # the user's PATH may lack everything
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return parse_facts(done.stdout)


def memory_available_here() -> int | None:
    """Return the bytes of memory available on this machine or in our cgroup; None if the kernel does not report it."""
    available = facts_here().get("memory_available_bytes")
    return available if isinstance(available, int) else None


def usable_cpus(facts: Mapping[str, object]) -> float | None:
    """Return the number of CPUs that a process on the host can use, given affinity and the cgroup's quota."""
    online, allowed, quota = (
        facts.get(name) for name in ("cpus", "cpus_allowed", "cgroup_cpu_max")
    )
    counts: list[float] = []
    if isinstance(online, int):
        counts.append(online)
    if isinstance(allowed, str):
        counts.append(len(cpu_numbers(allowed)))
    if isinstance(quota, str):
        counts.append(_cpus_of(quota))
    least = min(counts, default=math.inf)
    return None if math.isinf(least) else least


def compile_jobs(facts: Mapping[str, object]) -> int:
    """Return how many compilers may run at the same time on a host: one for each usable CPU and each free GB."""
    cpus, memory = usable_cpus(facts), facts.get("memory_available_bytes")
    counts = [] if cpus is None else [math.ceil(cpus)]
    if isinstance(memory, int):
        counts.append(memory // COMPILER_BYTES)
    return max(1, min(counts, default=NO_LIMIT))


def usable_memory(facts: Mapping[str, object]) -> int | None:
    """Return the bytes of the host's memory, or its cgroup's limit if that is smaller."""
    known = [facts.get(name) for name in ("memory_bytes", "cgroup_memory_max_bytes")]
    return min((size for size in known if isinstance(size, int)), default=None)


def parse_facts(text: str) -> Facts:
    """Parse the output of facts.sh: records end with RS, name and content are separated by US."""
    raw = dict(record.split("\037", 1) for record in text.split("\036") if "\037" in record)
    shown = {name: content.strip() for name, content in raw.items() if content.strip()}
    facts: Facts = {
        name: shown[key]
        for name, key in (
            ("hostname", "host"),
            ("kernel", "kernel"),
            ("machine", "machine"),
            ("clock_source", "clock"),
            ("boot_id", "boot_id"),
            ("aslr", "aslr"),
            ("overcommit_memory", "overcommit"),
            ("swappiness", "swappiness"),
            ("numa_nodes", "nodes"),
            ("glibc", "glibc"),
            ("virtualization", "virt"),
        )
        if key in shown
    }
    facts.update(_cpu_facts(shown))
    facts.update(_memory_facts(shown))
    facts.update(_limits(shown, facts.get("memory_available_bytes")))
    for fact, key in (("bits", "bits"), ("page_bytes", "page")):
        if shown.get(key, "").isdecimal():
            facts[fact] = int(shown[key])
    if "ipv6" in shown:
        facts["ipv6"] = shown["ipv6"] == "yes"
    if "container" in shown:
        facts["container"] = True  # Docker or podman; the name differs each time
    if "os" in shown:
        facts["distribution"] = shown["os"].partition("=")[2].strip('"')
    if "load" in shown:
        facts["load_average"] = float(shown["load"].split()[0])
    if "cgroup" in shown:
        facts["cgroup"] = shown["cgroup"].splitlines()[-1]
    if "open_files" in shown:
        facts["open_files_limit"] = shown["open_files"]
    if "limits" in shown:
        facts["process_limits"] = {
            name: int(limit) for name, limit in _LIMITS.findall(shown["limits"])
        }
    if (disk := _DF.search(shown.get("disk", ""))) is not None:
        facts["disk_free_bytes"] = int(disk["free"]) * 1024
    facts.update(_mount_facts(shown))
    return facts


def work_dir_problem(facts: Mapping[str, object]) -> tuple[str, str] | None:
    """Return why no program can be measured in the work directory, and what to do; None if nothing is known."""
    kind, options = facts.get("work_dir_filesystem"), facts.get("work_dir_options")
    if isinstance(options, str) and "noexec" in options.split(","):
        text = "the work directory is mounted noexec: no program can be started in it"
        return text, "set another work_dir in the cluster file, or: mount -o remount,exec"
    server = facts.get("work_dir_server")
    if kind in NETWORK_FILE_SYSTEMS or server is not None:
        place = kind if server is None else f"{kind} of {server}"
        text = f"the work directory is on {place}: locks and disk times would be those of a network"
        return text, "set work_dir in the cluster file to a local disk"
    return None


def _mount_facts(shown: dict[str, str]) -> Facts:
    facts: Facts = {}
    if len(words := shown.get("mount", "").split()) >= 2:
        facts["work_dir_filesystem"], facts["work_dir_options"], *source = words
        if source and _SERVER.match(source[0]):
            facts["work_dir_server"] = source[0]
    inodes = _DF.search(shown.get("inodes", ""))
    if inodes is not None and int(inodes["total"]) > 0:  # btrfs has no such number
        facts["inodes_free"] = int(inodes["free"])
    return facts


def _limits(shown: dict[str, str], available: object) -> Facts:
    """Return the tightest limits of the process's cgroup and those above it, in cgroups of either version.

    A memory limit and a niceness are absent if there is none. The memory left under a limit, with caches counted as
    free, may be less than the host's `available` bytes.
    """
    facts: Facts = {}
    if quotas := shown.get("cpu_max", "").splitlines():
        facts["cgroup_cpu_max"] = min(quotas, key=_cpus_of)
    limits = [
        tuple(map(int, words))
        for line in shown.get("memory_limits", "").splitlines()
        if len(words := line.split()) == 3 and all(word.isdecimal() for word in words)
    ]
    limits = [limit for limit in limits if limit[0] < NO_LIMIT]
    if limits:
        facts["cgroup_memory_max_bytes"] = min(limit for limit, _, _ in limits)
        left = [max(0, limit - max(0, used - cached)) for limit, used, cached in limits]
        known = [available] if isinstance(available, int) else []
        facts["memory_available_bytes"] = min([*left, *known])
    if shown.get("nice", "0") != "0":
        facts["niceness"] = int(shown["nice"])
    return facts


def _cpus_of(quota: str) -> float:
    """Parse a CPU quota such as `max 100000` or `50000 100000` (microseconds of CPU time and of wall time).

    Any other text is no limit: some containers show files of their own instead of the kernel's.
    """
    match = re.fullmatch(r"([0-9]+) ([1-9][0-9]*)", quota)
    return int(match[1]) / int(match[2]) if match else math.inf


def _cpu_facts(shown: dict[str, str]) -> Facts:
    facts: Facts = {}
    if "model" in shown:
        facts["cpu_model"] = shown["model"].partition(":")[2].strip()
    if "microcode" in shown:
        facts["microcode"] = shown["microcode"].partition(":")[2].strip()
    if "online" in shown:
        facts["cpus"] = len(cpu_numbers(shown["online"]))
    if "affinity" in shown:
        allowed = facts["cpus_allowed"] = shown["affinity"].split()[-1]
        # The kernel also allows CPUs that are offline.
        online = set(cpu_numbers(shown.get("online", allowed)))
        if both := online.intersection(cpu_numbers(allowed)):
            facts["cpus_allowed"] = cpu_list(both)
    if "governor" in shown:
        facts["governor"] = " ".join(shown["governor"].split())
    if "turbo_off" in shown:
        facts["turbo"] = shown["turbo_off"] == "0"
    elif "boost" in shown:
        facts["turbo"] = shown["boost"] == "1"
    if "smt" in shown:
        facts["smt"] = shown["smt"] == "1"
    if "l3" in shown:
        domains = [line.split() for line in shown["l3"].splitlines()]
        facts["l3_domains"] = [{"cpus": words[0], "size": words[-1]} for words in domains]
    return facts


def _memory_facts(shown: dict[str, str]) -> Facts:
    facts: Facts = {}
    names = {
        "MemTotal": "memory_bytes",
        "MemAvailable": "memory_available_bytes",
        "SwapTotal": "swap_bytes",
    }
    for line in shown.get("memory", "").splitlines():
        key, value = line.split(":")
        facts[names[key]] = int(value.split()[0]) * 1024
    for fact, key in (("thp_enabled", "thp"), ("thp_defrag", "thp_defrag")):
        if chosen := re.search(r"\[([^]]+)\]", shown.get(key, "")):
            facts[fact] = chosen.group(1)
    return facts
