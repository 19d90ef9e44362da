"""Tune a host and restore it: frequency governor, turbo, huge pages, swappiness, CPUs of interrupts.

Changes are first recorded in the host's work directory, with the original values. A file that does not accept its new
value is left alone. `restore` writes only files that still have our value; a value that somebody else has set since
then stays. After a reboot there is nothing to restore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.errors import HostError
from perfrunner.hosts import scripts
from perfrunner.hosts.host import Host
from perfrunner.spec.units import cpu_list, cpu_numbers

STATE = "tuned.json"
BY_HAND = "perfrunner tune"  # the owner of changes that no run restores
SYS_CPU = "/sys/devices/system/cpu"
# (name, files, the value that gives the steadiest measurements)
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
    """A change of one file of the host from one value to another."""

    what: str
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} -> {self.after} ({self.path})"


@dataclass(frozen=True)
class Tuning:
    """The result of tuning. `refused` are files that could not be changed (no permission, or no hardware support)."""

    changed: tuple[Change, ...]
    refused: tuple[str, ...]


def tune(host: Host, owner: str, engine_cpus: str = "", *, root: str = "") -> Tuning:
    """Set every setting that differs from its steadiest value. The caller holds the host's lock.

    `owner` may be a run's id, so that `restore` can restore the changes of this run only. Interrupts are moved off
    `engine_cpus`, a CPU list in the kernel's format, if that leaves them a CPU; if it is empty, they stay. `root` is
    put before every path (tests have their own /sys).
    """
    known = _current(host)
    originals: dict[str, list[str]] = dict(known["files"]) if known else {}
    wanted = [
        Change(what, path, value, after)
        for what, pattern, after in SETTINGS
        for path, value in _read(host, root, [pattern]).items()
        if value != after
    ]
    wanted += _interrupts(host, root, engine_cpus) if engine_cpus else []
    if not wanted:
        return Tuning((), ())
    # Recorded before anything is changed, so that a kill in the middle loses no original value.
    originals |= {c.path: [c.before, c.after] for c in wanted if c.path not in originals}
    _record(host, known["owner"] if known else owner, originals)
    refused = set(_write(host, root, {change.path: change.after for change in wanted}))
    now = _read(host, root, [change.path for change in wanted])
    refused |= {change.path for change in wanted if now.get(change.path) != change.after}
    for path in refused:
        if now.get(path) == originals[path][0]:
            del originals[path]
    _record(host, known["owner"] if known else owner, originals)
    return Tuning(tuple(c for c in wanted if c.path not in refused), tuple(sorted(refused)))


def _interrupts(host: Host, root: str, engine_cpus: str) -> list[Change]:
    """Plan to move interrupts off the engine's CPUs: to their other CPUs, or to all other CPUs if they have none."""
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
    """Restore the changes of `tune` (of `owner`; None: of any owner). Raises HostError if a value is not accepted."""
    state = _state(host)
    if state is None or (owner is not None and state["owner"] != owner):
        return ()
    now = _read(host, root, list(state["files"])) if state["boot_id"] == host.boot_id() else {}
    ours = [
        Change("restored", path, after, before)
        for path, (before, after) in state["files"].items()
        if now.get(path) == after
    ]
    if ours and (left := _write(host, root, {c.path: c.after for c in ours})):
        raise HostError(
            f"{host.name}: cannot restore {', '.join(left)}",
            hint=f"run `perfrunner untune` to try again; the original values are in {host.work_dir}/{STATE}",
        )
    host.transport.remove_tree(STATE)
    return tuple(ours)


def summarized(refused: Sequence[str]) -> list[str]:
    """Summarize refused files for display: all interrupts as one entry, since a host may have hundreds of them."""
    others = [path for path in refused if not path.startswith("/proc/irq/")]
    count = len(refused) - len(others)
    return others + ([f"the CPUs of {count} interrupts (/proc/irq)"] if count else [])


def tuned_by(host: Host) -> str | None:
    """Return the owner of the current tuning; None if the host is not tuned."""
    state = _current(host)
    return None if state is None else str(state["owner"])


def _current(host: Host) -> dict[str, Any] | None:
    """Return the state of this boot; a reboot has undone the changes of an earlier one."""
    state = _state(host)
    return state if state and state["boot_id"] == host.boot_id() else None


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
    """Tell whether a path is one that perfrunner tunes. Other files are never written, even if the state names them."""
    known = (*(pattern for _, pattern, _ in SETTINGS), INTERRUPTS)
    patterns = (re.escape(pattern).replace(r"\[0\-9\]\*", "[0-9]+") for pattern in known)
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def _record(host: Host, owner: object, files: Mapping[str, list[str]]) -> None:
    state = {"owner": owner, "boot_id": host.boot_id(), "files": files}
    host.transport.put_bytes(json.dumps(state, indent=1).encode(), STATE, mode=0o600)


def _read(host: Host, root: str, patterns: Sequence[str]) -> dict[str, str]:
    output = host.transport.run(["sh", "-c", scripts.READ_SETTINGS, "sh", root, *patterns]).stdout
    rows = (line.partition("\t") for line in output.splitlines())
    return {path: _chosen(value) for path, _, value in rows}


def _chosen(value: str) -> str:
    """Return the selected value of a list: `always [madvise] never` is madvise."""
    match = re.search(r"\[([^]]+)\]", value)
    return match[1] if match else value.strip()


def _write(host: Host, root: str, values: Mapping[str, str]) -> list[str]:
    arguments = [argument for pair in values.items() for argument in pair]
    return host.transport.run(
        ["sh", "-c", scripts.WRITE_SETTINGS, "sh", root, *arguments]
    ).stdout.splitlines()
