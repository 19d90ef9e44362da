"""Quieten a host, and put it back: frequency governor, turbo, mode of huge pages, swappiness, interrupts' CPUs.

What is changed is first written down beside the host's ledger, with the value that it had; a file that does not take
or give back its value is left alone. `restore` writes only what still has our value: what somebody else has set
meanwhile is theirs. After a reboot there is nothing to put back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.cluster import scripts
from perfrunner.cluster.host import Host
from perfrunner.errors import HostError
from perfrunner.spec.cpus import cpu_list, cpu_numbers

STATE = "tuned.json"
BY_HAND = "perfrunner tune"  # the owner that no run puts back
SYS_CPU = "/sys/devices/system/cpu"
# (what it is, files, the value that measures most steadily)
SETTINGS: Sequence[tuple[str, str, str]] = (
    ("governor", f"{SYS_CPU}/cpu[0-9]*/cpufreq/scaling_governor", "performance"),
    ("turbo", f"{SYS_CPU}/intel_pstate/no_turbo", "1"),
    ("turbo", f"{SYS_CPU}/cpufreq/boost", "0"),
    ("huge pages", "/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
    ("swappiness", "/proc/sys/vm/swappiness", "1"),
)
INTERRUPTS = "/proc/irq/[0-9]*/smp_affinity_list"


@dataclass(frozen=True)
class Change:
    """One file of the host, from one value to another."""

    what: str
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} -> {self.after} ({self.path})"


@dataclass(frozen=True)
class Tuning:
    """`refused`: files that could not be changed (no permission, or the hardware says no)."""

    changed: tuple[Change, ...]
    refused: tuple[str, ...]


def tune(host: Host, owner: str, engine_cpus: str = "", *, root: str = "") -> Tuning:
    """Set what is not set yet. `owner` may be a run's id: `restore` can be asked for that one's alone.

    Interrupts are kept off `engine_cpus`, a list as the kernel writes it, where that leaves them a CPU; empty: they
    stay where they are. Under the host's lock. `root` is put before every path (tests have a /sys of their own).
    """
    known = _state(host)
    kept: dict[str, list[str]] = dict(known["files"]) if known else {}
    wanted = [
        Change(what, path, value, after)
        for what, pattern, after in SETTINGS
        for path, value in _read(host, root, [pattern]).items()
        if value != after
    ]
    wanted += _interrupts(host, root, engine_cpus) if engine_cpus else []
    if not wanted:
        return Tuning((), ())
    # Written down before anything is changed: a kill in the middle loses no value.
    kept |= {c.path: [c.before, c.after] for c in wanted if c.path not in kept}
    _keep(host, known["owner"] if known else owner, kept)
    refused = set(_write(host, root, {change.path: change.after for change in wanted}))
    now = _read(host, root, [change.path for change in wanted])
    refused |= {change.path for change in wanted if now.get(change.path) != change.after}
    for path in refused:
        if now.get(path) == kept[path][0]:
            del kept[path]
    _keep(host, known["owner"] if known else owner, kept)
    return Tuning(tuple(c for c in wanted if c.path not in refused), tuple(sorted(refused)))


def _interrupts(host: Host, root: str, engine_cpus: str) -> list[Change]:
    """Each that may come to a CPU of the engine: to its other CPUs, or to all others where it has none."""
    online = cpu_numbers(_read(host, root, [f"{SYS_CPU}/online"])[f"{SYS_CPU}/online"])
    engine = set(cpu_numbers(engine_cpus))
    others = set(online) - engine
    changes = []
    for path, value in _read(host, root, [INTERRUPTS]).items():
        now = set(cpu_numbers(value)) if value else set()
        if now & engine and others:
            after = cpu_list((now - engine) or others)
            changes.append(Change("interrupt", path, value, after))
    return changes


def restore(host: Host, owner: str | None = None, *, root: str = "") -> tuple[Change, ...]:
    """Put back what `tune` changed (for `owner`; None: whoever asked for it). HostError when a value is not taken."""
    state = _state(host)
    if state is None or (owner is not None and state["owner"] != owner):
        return ()
    now = _read(host, root, list(state["files"])) if state["boot_id"] == host.boot_id() else {}
    ours = [
        Change("put back", path, after, before)
        for path, (before, after) in state["files"].items()
        if now.get(path) == after
    ]
    if ours and (left := _write(host, root, {c.path: c.after for c in ours})):
        raise HostError(
            f"{host.name}: cannot be put back: {', '.join(left)}",
            hint=f"{host.work_dir}/{STATE} has the values; perfrunner untune tries again",
        )
    host.transport.remove_tree(STATE)
    return tuple(ours)


def told(refused: Sequence[str]) -> list[str]:
    """For people: interrupts, of which a host may have hundreds that the kernel itself places, in one."""
    others = [path for path in refused if not path.startswith("/proc/irq/")]
    count = len(refused) - len(others)
    return others + ([f"the CPUs of {count} interrupts (/proc/irq)"] if count else [])


def tuned_by(host: Host) -> str | None:
    """For whom the host is tuned now."""
    state = _state(host)
    return None if state is None else str(state["owner"])


def _state(host: Host) -> dict[str, Any] | None:
    if not host.transport.exists(STATE):
        return None
    try:
        state = json.loads(host.transport.read_text(STATE))
        files = state["files"]
        if not all(_ours(path) and len(values) == 2 for path, values in files.items()):
            raise ValueError("a file that perfrunner does not tune")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(f"{host.name}: {host.work_dir}/{STATE} is damaged ({error})") from error
    return dict(state)


def _ours(path: str) -> bool:
    """Only these files are ever written to, whatever the state says."""
    known = (*(pattern for _, pattern, _ in SETTINGS), INTERRUPTS)
    patterns = (re.escape(pattern).replace(r"\[0\-9\]\*", "[0-9]+") for pattern in known)
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def _keep(host: Host, owner: object, files: Mapping[str, list[str]]) -> None:
    state = {"owner": owner, "boot_id": host.boot_id(), "files": files}
    host.transport.put_bytes(json.dumps(state, indent=1).encode(), STATE, mode=0o600)


def _read(host: Host, root: str, patterns: Sequence[str]) -> dict[str, str]:
    said = host.transport.run(["sh", "-c", scripts.READ_SETTINGS, "sh", root, *patterns]).stdout
    rows = (line.partition("\t") for line in said.splitlines())
    return {path: _chosen(value) for path, _, value in rows}


def _chosen(value: str) -> str:
    """`always [madvise] never` has chosen madvise."""
    match = re.search(r"\[([^]]+)\]", value)
    return match[1] if match else value.strip()


def _write(host: Host, root: str, values: Mapping[str, str]) -> list[str]:
    words = [word for pair in values.items() for word in pair]
    return host.transport.run(
        ["sh", "-c", scripts.WRITE_SETTINGS, "sh", root, *words]
    ).stdout.splitlines()
