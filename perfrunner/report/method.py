"""How it was measured: side by side or one after the other, in which slices, on which CPUs, from which links."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.rare import NAMED, ROBUST, TOTAL
from perfrunner.report.model import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfrunner.analysis import Comparison
    from perfrunner.results import ExperimentData, TrialRecord

IN_OPERATIONS = ("append",)  # types of workloads whose slices are so many operations, not seconds


@dataclass(frozen=True)
class Method:
    """Of one workload. `arms` were alive at once, of `variants`; `why` where that is not all of them.

    `slice` is in seconds, or in operations where `slice_ops`; it and the rounds are None where the arms ran alone.
    """

    workload: str
    side_by_side: bool
    arms: int
    variants: int
    why: str
    slice: float | None
    slice_ops: bool
    rounds: int | None  # median of the blocks
    warmup_rounds: int | None

    @property
    def slice_text(self) -> str:
        """`2 ms`, `400 operations`."""
        if self.slice is None:
            return ""
        return f"{self.slice:g} operations" if self.slice_ops else f"{1000 * self.slice:g} ms"


def methods(data: ExperimentData) -> tuple[Method, ...]:
    """Of every workload whose trials say how they ran, in the order of the spec."""
    spec = data.experiment.spec_json.get("workloads") or {}
    layouts = data.experiment.facts.get("layouts") or {}
    names = dict.fromkeys([*spec, *(t.workload for t in data.trials)])
    found = (_method(name, data, spec.get(name), layouts.get(name) or {}) for name in names)
    return tuple(method for method in found if method is not None)


def method_facts(
    found: Sequence[Method], data: ExperimentData, comparison: Comparison
) -> tuple[Fact, ...]:
    """The section, line by line; nothing where no trial says how it ran (an older store)."""
    if not found:
        return ()
    ended = [t for t in data.trials if t.status == "ok"]
    lines = [Fact(method.workload, _sentence(method)) for method in found]
    lines += [Fact("CPUs", text) for text in _cpus_used(ended, data.experiment.facts)]
    if any(method.side_by_side for method in found):
        lines.append(
            Fact("frozen", "nothing: background work of the arms that are not in turn goes on")
        )
    lines.append(Fact("linked", _linked(ended)))
    if any(row.metric.id == TOTAL for row in comparison.rows):
        lines.append(Fact("robust and totals", _rare(comparison)))
    lines += [Fact("instructions_per_op", text) for text in _counted(ended)]
    return tuple(lines)


def method_line(found: Sequence[Method]) -> str:
    """In a line: `side by side (pillowfight: slices of 2 ms, 1,900 rounds a block); one after the other: append`."""
    beside = [f"{m.workload}: {_in_slices(m)}" for m in found if m.side_by_side]
    alone = [m.workload for m in found if not m.side_by_side]
    parts = [f"side by side ({'; '.join(beside)})"] if beside else []
    parts += [f"one after the other: {', '.join(alone)}"] if alone else []
    return "; ".join(parts)


def method_record(method: Method) -> dict[str, Any]:
    """As plain values, for programs."""
    return {**vars(method), "schedule": "side-by-side" if method.side_by_side else "sequential"}


def _method(
    name: str, data: ExperimentData, workload: Any, layout: Mapping[str, Any]
) -> Method | None:
    trials = [t for t in data.trials if t.workload == name and t.status == "ok"]
    schedules = {str(t.facts["schedule"]) for t in trials if "schedule" in t.facts}
    schedule = layout.get("schedule") or (schedules.pop() if len(schedules) == 1 else None)
    if schedule is None or not trials:
        return None
    kind = workload.get("type", name) if isinstance(workload, dict) else name
    return Method(
        workload=name,
        side_by_side=schedule == "side-by-side",
        arms=max((len(t.facts.get("arms") or ()) for t in trials), default=0) or 1,
        variants=len({t.variant for t in data.trials if t.workload == name}),
        why=str(layout.get("why", "")),
        slice=_middle(trials, "slice"),
        slice_ops=kind in IN_OPERATIONS,
        rounds=_whole(_middle(trials, "rounds")),
        warmup_rounds=_whole(_middle(trials, "warmup_rounds")),
    )


def _sentence(method: Method) -> str:
    because = f": {method.why}" if method.why else ""
    if not method.side_by_side:
        return f"one after the other, each engine alone{because}"
    arms = f"{method.arms} arms at once"
    if method.arms < method.variants:
        arms = f"groups of at most {method.arms} of {method.variants} arms, the baseline in each{because}"
    text = f"side by side, {arms}"
    if method.slice is None:
        return text
    return f"{text}; {_in_slices(method)} (median), after {method.warmup_rounds or 0:,} of warm-up"


def _in_slices(method: Method) -> str:
    rounds = "" if method.rounds is None else f", {method.rounds:,} rounds a block"
    return f"slices of {method.slice_text}{rounds}" if method.slice is not None else "no slices"


def _cpus_used(trials: Iterable[TrialRecord], facts: Mapping[str, Any]) -> Iterable[str]:
    """How many the hosts have, and who ran on which of them.

    A line for each pair of CPU sets (one, unless the host changed). What runs without an engine has none.
    """
    hosts = facts.get("hosts")
    known = hosts.items() if isinstance(hosts, dict) else ()
    counts = [f"{n} has {h['cpus']}" for n, h in known if isinstance(h, dict) and "cpus" in h]
    has = f"{', '.join(counts)}: " if counts else ""
    found = dict.fromkeys(
        (str(cpus.get("engine", "")), str(cpus.get("client", "")))
        for t in trials
        if isinstance(cpus := t.facts.get("cpus"), dict)
    )
    for engine, client in found:
        if engine or client:
            yield f"{has}engines on {_cpus(engine)}, load on {_cpus(client)}, the same for every arm"
        else:
            yield f"{has}not pinned, wherever the kernel likes"


def _cpus(text: str) -> str:
    if not text:
        return "any CPU"
    return f"CPU{'' if text.isdigit() else 's'} {text}"


def _linked(trials: Sequence[TrialRecord]) -> str:
    if any(t.facts.get("relinked") is not None for t in trials):
        return "anew for each block, functions in an order of its own: the intervals cover the luck of layout"
    if len({t.build_id for t in trials}) == 1:
        return "once: all arms share one binary, and with it the order of its functions"
    return "once: functions lie in the same order in every block, so a lucky order is a part of a difference"


def _rare(comparison: Comparison) -> str:
    """Where what nearly every slice says and what all of them say are not the same."""
    rows = [row for row in comparison.rows if row.metric.id == ROBUST]
    apart = [
        f"{row.cell}, {row.variant} {note.replace(f': {NAMED}', '')}"
        for row in rows
        for note in row.notes
        if NAMED in note
    ]
    if apart:
        return f"disagree, {NAMED}: {'; '.join(apart)}"
    return "agree: no arm's throughput differs by what only rare slices meet"


def _counted(trials: Iterable[TrialRecord]) -> Iterable[str]:
    """How exact counts were made, and what they are blind to."""
    told = (t.facts.get("instructions") for t in trials)
    for method, ops, blind in dict.fromkeys(
        (str(fact.get("method")), int(fact.get("ops", 0)), tuple(fact.get("blind_to") or ()))
        for fact in told
        if isinstance(fact, dict)
    ):
        yield f"counted by {method} over {ops:,} operations of each arm; it cannot see {'; '.join(blind)}"


def _middle(trials: Iterable[TrialRecord], fact: str) -> float | None:
    values = [float(t.facts[fact]) for t in trials if isinstance(t.facts.get(fact), (int, float))]
    return float(median(values)) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
