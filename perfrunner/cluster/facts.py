"""What a host is and how it is set: recorded with every experiment, compared before and after.

All of it is read from files, by one shell program in one exchange. A fact that a host does not show (no cpufreq in a
virtual machine) is absent from the mapping, never guessed.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from perfrunner.cluster import scripts
from perfrunner.spec.cpus import cpu_numbers

if TYPE_CHECKING:
    from perfrunner.cluster.shell import ShellTransport

Facts: TypeAlias = dict[str, object]

# If one of these differs from the experiment's first reading, what is measured now is not comparable.
STABLE_FACTS = (
    "boot_id", "kernel", "machine", "distribution", "cpu_model", "cpus", "memory_bytes", "thp_enabled", "thp_defrag",
    "governor", "clock_source", "turbo", "smt", "aslr", "numa_nodes", "glibc", "microcode", "swap_bytes",
    "cpus_allowed", "cgroup_cpu_max", "cgroup_memory_max_bytes", "niceness",
)  # fmt: skip


def read_facts(transport: ShellTransport) -> Facts:
    """The facts of the transport's host at this moment."""
    done = transport.run(["sh", "-c", scripts.FACTS, "sh", transport.work_dir], check=False)
    return parse_facts(done.stdout)


def memory_available_here() -> int | None:
    """Bytes that this machine has available now; None where the kernel does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    lines = [line for line in text.splitlines() if line.startswith("MemAvailable:")]
    return int(lines[0].split()[1]) * 1024 if lines else None


def parse_facts(text: str) -> Facts:
    """The program's output: records split by RS, name and content by US."""
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
    facts.update(_limits(shown))
    facts.update(_cpu_facts(shown))
    facts.update(_memory_facts(shown))
    if shown.get("bits", "").isdecimal():
        facts["bits"] = int(shown["bits"])
    if "container" in shown:
        facts["container"] = True  # of Docker or podman: its name is its own each time
    if "os" in shown:
        facts["distribution"] = shown["os"].partition("=")[2].strip('"')
    if "load" in shown:
        facts["load_average"] = float(shown["load"].split()[0])
    if "cgroup" in shown:
        facts["cgroup"] = shown["cgroup"].splitlines()[-1]
    if "open_files" in shown:
        facts["open_files_limit"] = shown["open_files"]
    if "disk" in shown:
        facts["disk_free_bytes"] = int(shown["disk"].splitlines()[-1].split()[3]) * 1024
    return facts


def _limits(shown: dict[str, str]) -> Facts:
    """The tightest of the process's cgroup and those above it. A limit of memory and a niceness: where there is one."""
    facts: Facts = {}
    if quotas := shown.get("cpu_max", "").splitlines():
        facts["cgroup_cpu_max"] = min(quotas, key=_cpus_of)
    sizes = [int(line) for line in shown.get("memory_max", "").splitlines() if line != "max"]
    if sizes:
        facts["cgroup_memory_max_bytes"] = min(sizes)
    if shown.get("nice", "0") != "0":
        facts["niceness"] = int(shown["nice"])
    return facts


def _cpus_of(quota: str) -> float:
    """`max 100000` or `50000 100000`, microseconds of CPU time and of wall time."""
    time_us, _, wall_us = quota.partition(" ")
    return math.inf if time_us == "max" else float(time_us) / float(wall_us)


def _cpu_facts(shown: dict[str, str]) -> Facts:
    facts: Facts = {}
    if "model" in shown:
        facts["cpu_model"] = shown["model"].partition(":")[2].strip()
    if "microcode" in shown:
        facts["microcode"] = shown["microcode"].partition(":")[2].strip()
    if "online" in shown:
        facts["cpus"] = len(cpu_numbers(shown["online"]))
    if "affinity" in shown:
        facts["cpus_allowed"] = shown["affinity"].split()[-1]
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
