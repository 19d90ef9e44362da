"""Explain the difference between two variants of a run: read their CPU profiles, and write tables and values.

`profiled_pairs` reads the profiles that the trials of a workload with `profile: perf` keep, and compares them
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
from perfrunner.report.flame import short_name
from perfrunner.report.numbers import bracket, interval_places, minus, p_text, signed
from perfrunner.results.raw import read_profile, trial_profile
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.analysis.model import Comparison
    from perfrunner.domain import Case
    from perfrunner.results import ExperimentData, TrialRecord
    from perfrunner.results.raw import TrialProfile

CPU_METRIC = "server_cpu_us_per_op"
MORE_BLOCKS = "add blocks with `perfrunner run --extend N`"
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
    """Two variants of a case: their profiles, each the sum over all blocks, and what changed.

    `explanation` is None if there are too few blocks to test. `per_op` tells whether its values are µs of CPU per
    operation; otherwise they are shares of the CPU time. `event` is what perf sampled. `cut_short` is the number of
    profiles whose recording ended before the load did. `unread` has a line for each block that is left out because a
    profile cannot be read.
    """

    case: Case
    base: str
    variant: str
    blocks: int
    base_stacks: Folded
    variant_stacks: Folded
    event: str
    frequency: int
    cut_short: int
    per_op: bool
    explanation: Explanation | None
    unread: tuple[str, ...] = ()

    @property
    def tested(self) -> Explanation:
        """The explanation. Raises TrialError if there are too few blocks to test."""
        if self.explanation is None:
            raise TrialError(f"{self.case}: {too_few_text(self)}", hint=MORE_BLOCKS)
        return self.explanation


def too_few_text(pair: ProfiledPair) -> str:
    """Return why the functions of a pair are not compared: there are too few blocks."""
    reason = f"; {pair.unread[0]}" if pair.unread else ""
    return (
        f"{count_of(pair.blocks, 'block')} with profiles of {pair.base} and {pair.variant}, expected at least"
        f" {FEWEST_BLOCKS}{reason}"
    )


def profiled_cases(data: ExperimentData) -> list[CaseBlocks]:
    """Return the cases whose trials keep profiles."""
    return [
        case
        for case in clean_blocks(data.trials).values()
        if any(trial_profile(trial) is not None for trial in case.trials)
    ]


def profiled_pair(data: ExperimentData, case: CaseBlocks, base: str, variant: str) -> ProfiledPair:
    """Compare a variant with `base`. Raises TrialError if no block has profiles of both."""
    pairs, unread = [], []
    for trials in case.blocks.values():
        pair = _pair(trials, base, variant)
        if pair is None:
            continue
        try:
            pairs.append(
                ((pair[0], read_profile(data, pair[0])), (pair[1], read_profile(data, pair[1])))
            )
        except TrialError as error:
            unread.append(_left_out(pair[0], error))
    if not pairs:
        reason = f": {unread[0]}" if unread else ""
        raise TrialError(f"{case.case}: no block has profiles of {base} and {variant}{reason}")
    per_op = all(CPU_METRIC in trial.metrics for pair in pairs for trial, _ in pair)
    recorded = [_recorded(trial) for pair in pairs for trial, _ in pair]
    tested = [(_profiled(*x, per_op), _profiled(*y, per_op)) for x, y in pairs]
    return ProfiledPair(
        case=case.case,
        base=base,
        variant=variant,
        blocks=len(pairs),
        base_stacks=added(stacks for (_, stacks), _ in pairs),
        variant_stacks=added(stacks for _, (_, stacks) in pairs),
        event=recorded[0].event,
        frequency=recorded[0].frequency,
        cut_short=sum(profile.cut_short for profile in recorded),
        per_op=per_op,
        explanation=explain(tested) if len(tested) >= FEWEST_BLOCKS else None,
        unread=tuple(unread),
    )


def variant_stacks(
    data: ExperimentData, case: CaseBlocks, variant: str
) -> tuple[Folded, tuple[str, ...]]:
    """Return the stacks of a variant, summed over its trials, and a line for each unreadable profile.

    Raises TrialError if no profile can be read.
    """
    read, unread = [], []
    for trial in case.of(variant):
        if trial_profile(trial) is None:
            continue
        try:
            read.append(read_profile(data, trial))
        except TrialError as error:
            unread.append(_left_out(trial, error))
    if not read:
        reason = f": {unread[0]}" if unread else ""
        raise TrialError(f"{case.case}: no block has a profile of {variant}{reason}")
    return added(read), tuple(unread)


def profiled_pairs(
    data: ExperimentData, comparison: Comparison
) -> tuple[tuple[ProfiledPair, ...], tuple[str, ...]]:
    """Compare each variant of a report with the baseline; return a line for what cannot be compared."""
    pairs, notes = [], []
    for case in profiled_cases(data):
        for variant in comparison.variants:
            if variant == comparison.baseline or case.case not in comparison.cases:
                continue
            try:
                pair = profiled_pair(data, case, comparison.baseline, variant)
            except TrialError as error:
                notes.append(f"CPU profiles: {error}")
                continue
            pairs.append(pair)
            lines = pair.unread if pair.explanation is not None else (too_few_text(pair),)
            notes += [f"CPU profiles of {pair.case}: {line}" for line in lines]
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


def _left_out(trial: TrialRecord, error: TrialError) -> str:
    return f"block {trial.block} is left out: {error}"


def _recorded(trial: TrialRecord) -> TrialProfile:
    profile = trial_profile(trial)
    assert profile is not None
    return profile


def _profiled(trial: TrialRecord, stacks: Folded, per_op: bool) -> ProfiledTrial:
    cpu = trial.metrics[CPU_METRIC] if per_op else 1.0
    return ProfiledTrial(stacks, cpu, _recorded(trial).counters)


# -- text


@dataclass(frozen=True)
class PairFormat:
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
        places = max(3, interval_places((low, high))) if self.pair.per_op else 2
        value = signed(self.factor * change.difference, places)
        return f"{value} {bracket(signed(low, places), signed(high, places), value)}"

    def share(self, difference: float) -> str:
        """Return a difference in % of the first variant's whole CPU time."""
        return f"{minus(f'{100 * difference / self.pair.tested.total.base:+.2f}')} %"


def title(pair: ProfiledPair) -> str:
    """Return case, variants and amount of data in a line."""
    stacks = added((pair.base_stacks, pair.variant_stacks))
    return (
        f"{pair.case}: {pair.variant} against {pair.base}, {count_of(pair.blocks, 'block')},"
        f" {samples_text(pair, stacks)}"
    )


def samples_text(pair: ProfiledPair, stacks: Folded) -> str:
    """Return the number of samples of some stacks of a pair, and how they were taken."""
    return f"{stacks.samples} samples of {pair.event} at {pair.frequency} Hz"


def summary_lines(pair: ProfiledPair) -> Iterator[str]:
    """Yield the change of the whole CPU time, of each kind of thread, and what was tested, or why nothing was."""
    if pair.cut_short:
        yield (
            f"{pair.cut_short} of {2 * pair.blocks} profiles end before the load did: the limit of stored samples"
            " was reached."
        )
    if pair.explanation is None:
        yield f"The functions are not compared: {too_few_text(pair)}. To compare them, {MORE_BLOCKS}."
        return
    result, numbers = pair.explanation, PairFormat(pair)
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
    unit = PairFormat(pair).unit
    names = {"base": f"{pair.base}, {unit}", "variant": f"{pair.variant}, {unit}"}
    return [
        column.format(**names) if column != "change" else f"change, {unit}" for column in COLUMNS
    ]


def function_rows(pair: ProfiledPair, *, every: bool = False) -> list[tuple[str, ...]]:
    """Return the rows of the functions that changed, or of every function that was compared."""
    result, numbers = pair.tested, PairFormat(pair)
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
        for row in pair.tested.events
    ]


def _percent(change: Change) -> str:
    if not change.base:
        return ""
    value, low, high = (100 * x / change.base for x in (change.difference, *change.ci95))
    places = interval_places((low, high), abs(value))
    shown = signed(value, places)
    return f"{shown} % {bracket(signed(low, places), signed(high, places), shown)}"


def changed_text(pair: ProfiledPair, most: int) -> str:
    """Return the functions that changed most in a line: `front-end malloc -0.156 [-0.170, -0.142]; 4 more`."""
    numbers, changed = PairFormat(pair), list(pair.tested.changed.items())
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
            "blocks": pair.tested.blocks,
            "samples": pair.tested.samples,
            "event": pair.event,
            "frequency": pair.frequency,
            "unit": "us_per_op" if pair.per_op else "share",
            "total": _record(pair.tested.total),
            "threads": {name: _record(c) for name, c in pair.tested.threads.items()},
            "functions": [
                {"thread": place.thread, "function": place.function, **_record(change)}
                for place, change in pair.tested.functions.items()
            ],
            "rare_functions": pair.tested.rare_functions,
            "rare_difference": pair.tested.rare,
            "events": {row.event: _record(row.change) for row in pair.tested.events},
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
