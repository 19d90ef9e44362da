"""Explain the difference between two variants of a run: read their CPU profiles, and write tables and values.

`explanations` reads the profiles that the trials of a workload with `profile: blocks` keep, and compares them
(analysis/explain.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cases import clean_blocks
from perfrunner.analysis.explain import (
    FEWEST_BLOCKS,
    FEWEST_SAMPLES,
    Change,
    Explanation,
    ProfiledTrial,
    explain,
)
from perfrunner.errors import TrialError
from perfrunner.measure.cpu_profile import Folded, added
from perfrunner.report.numbers import bracket, decimals, minus, p_text, signed
from perfrunner.report.profiles import short_name
from perfrunner.results.profiles import read_profile, trial_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfrunner.analysis import Comparison
    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.domain import Case
    from perfrunner.results import ExperimentData, TrialRecord

CPU_METRIC = "server_cpu_us_per_op"
NO_COUNTERS = (
    "Hardware events: not counted, because the processor of the host offers no counters (most virtual machines have"
    " none) or perf may not read them."
)
EVENT_TITLES = {
    "instructions": "instructions per operation",
    "cycles": "cycles per operation",
    "branches": "branches per operation",
    "branch-misses": "branch misses per operation",
    "cache-misses": "cache misses per operation",
    "ipc": "instructions per cycle",
}


@dataclass(frozen=True)
class ProfiledPair:
    """Two variants of a case: what changed, and their profiles, each the sum over all blocks.

    `per_op` tells whether values are µs of CPU per operation; otherwise they are shares of the CPU time. `unread` has
    a line for each block that is left out because a profile cannot be read. `event` is what perf sampled.
    """

    case: Case
    base: str
    variant: str
    explanation: Explanation
    base_stacks: Folded
    variant_stacks: Folded
    event: str
    frequency: int
    per_op: bool
    unread: tuple[str, ...] = ()


def profiled_cases(data: ExperimentData) -> list[CaseBlocks]:
    """Return the cases whose trials keep profiles."""
    return [
        case
        for case in clean_blocks(data.trials).values()
        if any(trial_profile(trial) is not None for trial in case.trials)
    ]


def explained(data: ExperimentData, case: CaseBlocks, base: str, variant: str) -> ProfiledPair:
    """Compare a variant with `base`. Raises TrialError if there are too few blocks with profiles of both."""
    pairs, unread = [], []
    for trials in case.blocks.values():
        pair = _pair(trials, base, variant)
        if pair is None:
            continue
        try:
            pairs.append(((pair[0], _read(data, pair[0])), (pair[1], _read(data, pair[1]))))
        except TrialError as error:
            unread.append(f"block {pair[0].block} is left out: {error}")
    if len(pairs) < FEWEST_BLOCKS:
        reason = f"; {unread[0]}" if unread else ""
        raise TrialError(
            f"{case.case}: {len(pairs)} blocks have profiles of {base} and {variant}, expected at least"
            f" {FEWEST_BLOCKS}{reason}",
            hint="add blocks with `perfrunner run --extend N`",
        )
    per_op = all(CPU_METRIC in trial.metrics for pair in pairs for trial, _ in pair)
    first = trial_profile(pairs[0][0][0])
    assert first is not None
    stacks = [added(pair[side][1] for pair in pairs) for side in (0, 1)]
    return ProfiledPair(
        case=case.case,
        base=base,
        variant=variant,
        explanation=explain([(_profiled(*x, per_op), _profiled(*y, per_op)) for x, y in pairs]),
        base_stacks=stacks[0],
        variant_stacks=stacks[1],
        event=first.event,
        frequency=first.frequency,
        per_op=per_op,
        unread=tuple(unread),
    )


def explanations(
    data: ExperimentData, comparison: Comparison
) -> tuple[tuple[ProfiledPair, ...], tuple[str, ...]]:
    """Compare each variant of a report with the baseline; return a line for what cannot be compared."""
    pairs, notes = [], []
    for case in profiled_cases(data):
        for variant in comparison.variants:
            if variant == comparison.baseline or case.case not in comparison.cases:
                continue
            try:
                pair = explained(data, case, comparison.baseline, variant)
            except TrialError as error:
                notes.append(f"CPU profiles: {error}")
                continue
            pairs.append(pair)
            notes += [f"CPU profiles of {pair.case}: {line}" for line in pair.unread]
    return tuple(pairs), tuple(dict.fromkeys(notes))


def _pair(
    trials: Sequence[TrialRecord], base: str, variant: str
) -> tuple[TrialRecord, TrialRecord] | None:
    """Return the profiled trials of both variants in a block, of the same group if there is one."""
    of_base, of_variant = (
        {t.group: t for t in trials if t.variant == name and trial_profile(t) is not None}
        for name in (base, variant)
    )
    if not of_base or not of_variant:
        return None
    group = next((g for g in of_base if g in of_variant), None)
    if group is not None:
        return of_base[group], of_variant[group]
    return next(iter(of_base.values())), next(iter(of_variant.values()))


def _read(data: ExperimentData, trial: TrialRecord) -> Folded:
    taken = trial_profile(trial)
    assert taken is not None
    return read_profile(data, taken)


def _profiled(trial: TrialRecord, stacks: Folded, per_op: bool) -> ProfiledTrial:
    events = dict(trial.facts["profile"].get("counters") or {})
    return ProfiledTrial(stacks, trial.metrics[CPU_METRIC] if per_op else 1.0, events)


# -- text


@dataclass(frozen=True)
class Numbers:
    """Format the changes of a pair, in µs per operation or in % of the CPU time."""

    pair: ProfiledPair

    @property
    def unit(self) -> str:
        return "µs" if self.pair.per_op else "%"

    @property
    def factor(self) -> float:
        return 1.0 if self.pair.per_op else 100.0

    def value(self, value: float) -> str:
        return f"{self.factor * value:.3f}" if value else "-"

    def change(self, change: Change) -> str:
        """Return a difference with its interval: `+0.081 [+0.060, +0.102]`."""
        low, high = (self.factor * end for end in change.ci95)
        places = max(3, decimals((high - low) / 2)) if self.pair.per_op else 2
        value = signed(self.factor * change.difference, places)
        return f"{value} {bracket(signed(low, places), signed(high, places), value)}"

    def share(self, difference: float) -> str:
        """Return a difference in % of the first variant's whole CPU time."""
        return f"{minus(f'{100 * difference / self.pair.explanation.total.base:+.2f}')} %"


def title(pair: ProfiledPair) -> str:
    """Return case, variants and amount of data in a line."""
    result = pair.explanation
    return (
        f"{pair.case}: {pair.variant} against {pair.base}, {result.blocks} blocks,"
        f" {result.samples} samples of {pair.event} at {pair.frequency} Hz"
    )


def summary_lines(pair: ProfiledPair) -> Iterator[str]:
    """Yield the change of the whole CPU time, of each kind of thread, and what was tested."""
    result, numbers = pair.explanation, Numbers(pair)
    if pair.per_op:
        yield (
            f"Server CPU per operation: {numbers.value(result.total.base)} to {numbers.value(result.total.variant)} µs,"
            f" {numbers.change(result.total)} µs ({numbers.share(result.total.difference)})"
        )
    else:
        yield "CPU time per operation is unknown for this workload: values are shares of the CPU time."
    threads = "; ".join(
        f"{thread} {numbers.change(change)}" for thread, change in result.threads.items()
    )
    yield f"By thread, {numbers.unit}: {threads}"
    rare = signed(numbers.factor * result.rare, 3)
    yield (
        f"{len(result.functions)} functions were compared (false discovery rate 5 %). {result.rare_functions} with"
        f" fewer than {FEWEST_SAMPLES} samples were not; together {rare} {numbers.unit}."
    )


COLUMNS = ("thread", "function", "{base}", "{variant}", "change", "of all CPU", "q")


def heading(pair: ProfiledPair) -> list[str]:
    """Return the headings of the table of functions."""
    unit = Numbers(pair).unit
    names = {"base": f"{pair.base}, {unit}", "variant": f"{pair.variant}, {unit}"}
    return [
        column.format(**names) if column != "change" else f"change, {unit}" for column in COLUMNS
    ]


def function_rows(pair: ProfiledPair, *, every: bool = False) -> list[tuple[str, ...]]:
    """Return the rows of the functions that changed, or of every function that was compared."""
    result, numbers = pair.explanation, Numbers(pair)
    return [
        (
            place.thread,
            place.function,
            numbers.value(change.base),
            numbers.value(change.variant),
            numbers.change(change),
            numbers.share(change.difference),
            p_text("", change.q).lstrip("="),
        )
        for place, change in (result.functions if every else result.changed).items()
    ]


def event_rows(pair: ProfiledPair) -> list[tuple[str, ...]]:
    """Return a row for each hardware event: title, both means, and the change with its interval in %."""
    return [
        (
            EVENT_TITLES[row.event],
            f"{row.change.base:,.2f}",
            f"{row.change.variant:,.2f}",
            _percent(row.change),
            p_text("", row.change.q).lstrip("="),
        )
        for row in pair.explanation.events
    ]


def _percent(change: Change) -> str:
    if not change.base:
        return ""
    value, low, high = (100 * x / change.base for x in (change.difference, *change.ci95))
    places = decimals((high - low) / 2, abs(value))
    shown = signed(value, places)
    return f"{shown} % {bracket(signed(low, places), signed(high, places), shown)}"


def changed_text(pair: ProfiledPair, most: int) -> str:
    """Return the functions that changed most in a line: `front-end malloc -0.156 [-0.170, -0.142]; 4 more`."""
    numbers, changed = Numbers(pair), list(pair.explanation.changed.items())
    named = [
        f"{place.thread} {short_function(place.function)} {numbers.change(change)}"
        for place, change in changed[:most]
    ]
    more = [f"{len(changed) - most} more"] if len(changed) > most else []
    text = "; ".join([*named, *more]) or "no function changed"
    return f"{pair.variant} · {pair.case}, {numbers.unit}: {text}"


def short_function(name: str) -> str:
    """Shorten a function's name for a table."""
    return short_name(name, 60)


# -- values


def explain_document(pairs: Iterable[ProfiledPair]) -> list[dict[str, Any]]:
    """Return the explanations as plain values for JSON."""
    return [
        {
            "workload": pair.case.workload,
            "bucket": pair.case.bucket,
            "baseline": pair.base,
            "variant": pair.variant,
            "blocks": pair.explanation.blocks,
            "samples": pair.explanation.samples,
            "event": pair.event,
            "frequency": pair.frequency,
            "unit": "us_per_op" if pair.per_op else "share",
            "total": _record(pair.explanation.total),
            "threads": {name: _record(c) for name, c in pair.explanation.threads.items()},
            "functions": [
                {"thread": place.thread, "function": place.function, **_record(change)}
                for place, change in pair.explanation.functions.items()
            ],
            "rare_functions": pair.explanation.rare_functions,
            "rare_difference": pair.explanation.rare,
            "events": {row.event: _record(row.change) for row in pair.explanation.events},
            "left_out": list(pair.unread),
        }
        for pair in pairs
    ]


def _record(change: Change) -> dict[str, Any]:
    return {
        "baseline": change.base,
        "value": change.variant,
        "difference": change.difference,
        "difference_ci95": list(change.ci95),
        "p": change.p,
        "q": change.q,
        "changed": change.changed,
        "samples": change.samples,
    }
