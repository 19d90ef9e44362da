"""Describe the method of a run: interleaved or sequential, slices, CPUs, link order, and the noise floor."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cases import type_of
from perfrunner.analysis.noise import FLOORS_FACT, NoiseFloor, is_aa, noise_floors
from perfrunner.analysis.quality import APART, NAMED, ROBUST, SLOW, TOTAL
from perfrunner.analysis.verdict import smallest_visible
from perfrunner.report.model import Fact
from perfrunner.report.numbers import LARGE_RATIO, factor, scale_of, significant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfrunner.analysis.model import Comparison
    from perfrunner.results import ExperimentData, TrialRecord


IN_OPERATIONS = ("append",)  # workload types whose slices are counted in operations, not seconds


@dataclass(frozen=True)
class Method:
    """The way in which one workload was measured.

    `group_size` of the `variants` ran at once; `why` explains fewer than all.

    `slice` is in seconds, or in operations if `slice_ops`. It and the rounds are None if the variants ran alone.
    """

    workload: str
    interleaved: bool
    group_size: int
    variants: int
    why: str
    slice: float | None
    slice_ops: bool
    rounds: int | None  # median of the blocks
    warmup_rounds: int | None

    @property
    def slice_text(self) -> str:
        """Return the length of a slice: `2 ms`, `400 operations`."""
        if self.slice is None:
            return ""
        return f"{self.slice:g} operations" if self.slice_ops else f"{1000 * self.slice:g} ms"


def methods(data: ExperimentData) -> tuple[Method, ...]:
    """Return the method of every workload that recorded it, in the order of the spec."""
    spec = data.experiment.spec_json.get("workloads") or {}
    groupings = data.experiment.facts.get("groupings") or {}
    names = dict.fromkeys([*spec, *(t.workload for t in data.trials)])
    recorded = (_method(name, data, spec.get(name), groupings.get(name) or {}) for name in names)
    return tuple(method for method in recorded if method is not None)


def method_facts(
    measured: Sequence[Method], data: ExperimentData, comparison: Comparison
) -> tuple[Fact, ...]:
    """Return the lines of the section; none if no trial recorded its method (an older store)."""
    if not measured:
        return ()
    ended = [t for t in data.trials if t.status == "ok"]
    lines = [Fact(method.workload, _sentence(method)) for method in measured]
    lines += [Fact("CPUs", text) for text in _cpus_used(ended, data.experiment.facts)]
    if any(method.interleaved for method in measured):
        lines.append(Fact("frozen", "nothing: background work of the waiting variants continues"))
    lines.append(Fact("linked", _linked(ended)))
    if any(row.metric.id == TOTAL for row in comparison.rows):
        lines.append(Fact("robust and totals", _slow_slices(comparison)))
    lines += [Fact("instructions_per_op", text) for text in _counted(ended)]
    return tuple(lines)


def method_line(measured: Sequence[Method]) -> str:
    """Return the method in a line: `interleaved (pillowfight: slices of 2 ms, ...); one after the other: append`."""
    interleaved = [f"{m.workload}: {_in_slices(m)}" for m in measured if m.interleaved]
    alone = [m.workload for m in measured if not m.interleaved]
    parts = [f"interleaved ({'; '.join(interleaved)})"] if interleaved else []
    parts += [f"one after the other: {', '.join(alone)}"] if alone else []
    return "; ".join(parts)


def method_record(method: Method) -> dict[str, Any]:
    """Return a method as plain values for the JSON document."""
    return {**vars(method), "schedule": "interleaved" if method.interleaved else "sequential"}


def _method(
    name: str, data: ExperimentData, workload: Any, grouping: Mapping[str, Any]
) -> Method | None:
    trials = [t for t in data.trials if t.workload == name and t.status == "ok"]
    schedules = {str(t.facts["schedule"]) for t in trials if "schedule" in t.facts}
    schedule = grouping.get("schedule") or (schedules.pop() if len(schedules) == 1 else None)
    if schedule is None or not trials:
        return None
    kind = workload.get("type", name) if isinstance(workload, dict) else name
    return Method(
        workload=name,
        interleaved=schedule == "interleaved",
        group_size=max((len(t.facts.get("variants") or ()) for t in trials), default=0) or 1,
        variants=len({t.variant for t in data.trials if t.workload == name}),
        why=str(grouping.get("why", "")),
        slice=_middle(trials, "slice"),
        slice_ops=kind in IN_OPERATIONS,
        rounds=_whole(_middle(trials, "rounds")),
        warmup_rounds=_whole(_middle(trials, "warmup_rounds")),
    )


def _sentence(method: Method) -> str:
    because = f": {method.why}" if method.why else ""
    if not method.interleaved:
        return f"one after the other, each engine alone{because}"
    variants = f"{method.group_size} variants at once"
    if method.group_size < method.variants:
        variants = f"groups of at most {method.group_size} of {method.variants} variants, the baseline in each{because}"
    text = f"interleaved, {variants}"
    if method.slice is None:
        return text
    return f"{text}; {_in_slices(method)} (median), after {method.warmup_rounds or 0:,} of warm-up"


def _in_slices(method: Method) -> str:
    rounds = "" if method.rounds is None else f", {method.rounds:,} rounds a block"
    return f"slices of {method.slice_text}{rounds}" if method.slice is not None else "no slices"


def _cpus_used(trials: Iterable[TrialRecord], facts: Mapping[str, Any]) -> Iterable[str]:
    """Yield how many CPUs the hosts have, and on which of them engines and load ran.

    There is a line for each pair of CPU sets: one, unless the host changed. Trials without an engine have none.
    """
    hosts = facts.get("hosts")
    known = hosts.items() if isinstance(hosts, dict) else ()
    counts = [f"{n} has {h['cpus']}" for n, h in known if isinstance(h, dict) and "cpus" in h]
    has = f"{', '.join(counts)}: " if counts else ""
    cpu_sets = dict.fromkeys(
        (str(cpus.get("engine", "")), str(cpus.get("client", "")))
        for t in trials
        if isinstance(cpus := t.facts.get("cpus"), dict)
    )
    for engine, client in cpu_sets:
        if engine or client:
            yield f"{has}servers on {_cpus(engine)}, load on {_cpus(client)}, the same for every variant"
        else:
            yield f"{has}not pinned: the kernel chooses the CPUs"


def _cpus(text: str) -> str:
    if not text:
        return "any CPU"
    return f"CPU{'' if text.isdigit() else 's'} {text}"


def _linked(trials: Sequence[TrialRecord]) -> str:
    if any(t.facts.get("relinked") is not None for t in trials):
        return "again for each block, with a new order of functions: the intervals include the effect of layout"
    if len({t.build_id for t in trials}) == 1:
        return "once: all variants share one binary and its layout (order of functions)"
    return "once: every block uses the same layout (order of functions), so layout can be part of a difference"


def _slow_slices(comparison: Comparison) -> str:
    """Describe whether slow slices differ between variants, and if not, which difference could have been seen."""
    parts = [
        f"{begin}: {'; '.join(apart)}"
        for begin, name in ((f"disagree, {NAMED}", NAMED), (APART, APART))
        if (apart := _noted(comparison, name))
    ]
    if parts:
        return "; ".join(parts)
    visible = [
        seen
        for row in comparison.rows
        if row.metric.id == SLOW and row.effect is not None
        if (seen := smallest_visible(row.effect)) is not None
    ]
    if not visible:
        return "not shown to differ"
    return (
        "not shown to differ: a difference of"
        f" \N{PLUS-MINUS SIGN}{significant(max(visible), 2)} points in the share of slow slices could have been seen"
    )


def _noted(comparison: Comparison, name: str) -> list[str]:
    """Return the notes on slow slices that have this name."""
    return [
        f"{row.case}, {row.variant} {note.replace(f': {name}', '')}"
        for row in comparison.rows
        if row.metric.id == ROBUST
        for note in row.notes
        if name in note
    ]


def _counted(trials: Iterable[TrialRecord]) -> Iterable[str]:
    """Yield how exact counts were made, and what they cannot see."""
    counts = (t.facts.get("instructions") for t in trials)
    for method, ops, blind in dict.fromkeys(
        (str(fact.get("method")), int(fact.get("ops", 0)), tuple(fact.get("blind_to") or ()))
        for fact in counts
        if isinstance(fact, dict)
    ):
        yield f"counted by {method} over {ops:,} operations of each variant; it cannot see {'; '.join(blind)}"


def _middle(trials: Iterable[TrialRecord], fact: str) -> float | None:
    values = [float(t.facts[fact]) for t in trials if isinstance(t.facts.get(fact), (int, float))]
    return float(median(values)) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


NOISE_FLOOR = "noise floor"  # the label of its line


def known_floors(data: ExperimentData, comparison: Comparison) -> list[NoiseFloor]:
    """Return the floors of an A/A experiment, otherwise those known when the experiment started."""
    if is_aa(data.experiment.spec_json):
        floors = noise_floors(data)
    else:
        records = data.experiment.facts.get(FLOORS_FACT) or []
        floors = [NoiseFloor.of_record(record) for record in records]
    return [floor for floor in floors if floor.case in comparison.cases]


def noise_text(floors: Iterable[NoiseFloor], comparison: Comparison) -> str:
    """Return the floors of the primary metrics by metric, followed by their source."""
    primary = dict.fromkeys(row.metric.id for row in comparison.rows if row.primary)
    shown = [floor for floor in floors if floor.metric in primary]
    if not shown:
        return "unknown for these workloads on this host: measure it with perfrunner aa SPEC"
    parts = [
        f"{metric} " + ", ".join(f"{_size(f)} {f.case}" for f in shown if f.metric == metric)
        for metric in primary
        if any(f.metric == metric for f in shown)
    ]
    newest = max(shown, key=lambda floor: floor.measured_at)
    return f"{'; '.join(parts)} ({newest.blocks} A/A blocks, {newest.source})"


def aa_alarms(data: ExperimentData, comparison: Comparison) -> Iterable[str]:
    """Yield a warning for each primary metric in which a build differs from itself."""
    if not is_aa(data.experiment.spec_json):
        return
    for row in comparison.rows:
        if row.primary and row.verdict in ("better", "worse"):
            yield (
                f"{row.case}: {row.metric.id} is {row.verdict} although the builds are identical. This happens"
                " by chance in 1 of 20 runs. Repeat the run: if it happens again, this host favours one variant"
                " and its verdicts are wrong"
            )


def _size(floor: NoiseFloor) -> str:
    if floor.kind == "ratio":
        if floor.floor > LARGE_RATIO:
            return f"a factor of {factor(1 + floor.floor)}"
        return f"±{significant(100 * floor.floor, 2)} %"
    metric = type_of(floor.metric)
    if metric.unit == "%":
        return f"±{significant(floor.floor, 2)} pt"
    scale = scale_of(metric, floor.floor)
    return f"±{scale.number(floor.floor, 2)}{scale.joint}{scale.unit}"
