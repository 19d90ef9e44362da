"""Select what is compared: the analysis settings of a recorded spec, and the clean blocks of each case.

The spec as it was recorded counts, not today's file.

A discarded or failed trial removes its whole block of that case, with all variants of all groups. The attempt
that repeats the block counts instead. There is one exception: a variant that never succeeded in a case cannot
be compared at all. It is left out without removing the other variants' blocks, except those of a group that
it ended by failing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.account import THROUGHPUT, TOTAL_CPU, lacks_total_cpu
from perfrunner.analysis.model import DiscardedTrial
from perfrunner.domain import Case
from perfrunner.errors import UsageError
from perfrunner.spec.metrics import METRICS, MetricType, is_metric, metric_type
from perfrunner.spec.suggest import did_you_mean
from perfrunner.spec.units import parse_share

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from perfrunner.results import ExperimentData, TrialRecord


def no_variant(experiment: str, name: str, variants: Sequence[str]) -> UsageError:
    """Return the error of a name that no variant of an experiment has."""
    return UsageError(
        f"experiment {experiment} has no variant {name!r}{did_you_mean(name, variants)}",
        f"its variants: {', '.join(variants)}",
    )


@dataclass(frozen=True)
class AnalysisPlan:
    """The analysis settings of a spec. `variants` starts with the baseline."""

    baseline: str
    variants: tuple[str, ...]
    primary: tuple[str, ...]
    workloads: tuple[str, ...]
    buckets: tuple[str, ...]
    margins: Mapping[str, float] = field(default_factory=dict)
    # Workloads whose trials may be short because the spec says so.
    short: frozenset[str] = frozenset()
    # Share of the busiest load thread above which the client is saturated.
    client_busy: float = 1.0
    allocators: Mapping[str, str] = field(default_factory=dict)  # by variant, if the spec says

    @classmethod
    def of(cls, data: ExperimentData, baseline: str | None = None) -> AnalysisPlan:
        """Return the plan of an experiment. `baseline` replaces the spec's. Raises UsageError if it is unknown."""
        spec = data.experiment.spec_json
        measured = dict.fromkeys(t.variant for t in data.trials)
        variants = tuple(dict.fromkeys([*_names(spec.get("variants")), *measured]))
        chosen = baseline if baseline is not None else str(spec.get("baseline", ""))
        if not chosen and variants:
            chosen = variants[0]
        if chosen not in variants:
            raise no_variant(data.experiment.id, chosen, variants)
        return cls(
            baseline=chosen,
            variants=(chosen, *(v for v in variants if v != chosen)),
            primary=primary_metrics(spec),
            workloads=tuple(_names(spec.get("workloads"))),
            buckets=tuple(spec.get("buckets") or ()),
            margins={name: _margin(name, v) for name, v in (spec.get("margins") or {}).items()},
            short=frozenset(_short(spec.get("workloads"))),
            client_busy=float((spec.get("limits") or {}).get("client_busy", 1.0)),
            allocators=dict(_allocators(spec.get("variants"))),
        )

    def companion(self, metrics: Collection[str]) -> str:
        """Return which of a case's metrics is the total CPU to judge next to throughput.

        Empty if there is none, or if the spec names one itself.
        """
        followed = TOTAL_CPU if lacks_total_cpu(self.primary) else ()
        return next((name for name in followed if name in metrics), "")

    def margin(self, metric: MetricType) -> float:
        """Return the margin of a metric: the spec's, or the metric's default."""
        return self.margins.get(metric.id, metric.default_margin)

    def order(self, metrics: Iterable[str]) -> list[str]:
        """Sort metrics: primary metrics in the spec's order, then the registry's order, then the rest."""
        known = [*self.primary, *METRICS]
        place = {name: i for i, name in reversed(list(enumerate(known)))}
        return sorted(set(metrics), key=lambda m: (place.get(m, len(known)), m))


def primary_metrics(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the primary metrics of a recorded spec."""
    return tuple(spec.get("primary") or (THROUGHPUT,))


def type_of(metric_id: str) -> MetricType:
    """Return the registry's type of a metric. An unknown metric has no direction, so it gets no verdict."""
    if is_metric(metric_id):
        return metric_type(metric_id)
    return MetricType(metric_id, "", "none", "difference", 0.0, metric_id)


def _names(value: Any) -> list[str]:
    return [str(name) for name in value] if value else []


def _short(workloads: Any) -> Iterable[str]:
    for name, workload in workloads.items() if isinstance(workloads, dict) else ():
        if isinstance(workload, dict) and workload.get("schedule") == "interleaved":
            yield str(name)


def _allocators(variants: Any) -> Iterable[tuple[str, str]]:
    for name, variant in variants.items() if isinstance(variants, dict) else ():
        allocator = variant.get("allocator") if isinstance(variant, dict) else None
        if isinstance(allocator, dict) and allocator.get("name"):
            yield str(name), str(allocator.get("preload") or allocator["name"])


def _margin(metric_id: str, value: Any) -> float:
    return parse_share(value) if type_of(metric_id).effect == "ratio" else float(value)


@dataclass(frozen=True)
class Paired:
    """Two variants' values in the blocks that hold both.

    `apart` lists the blocks in which the two ran in different groups.
    """

    base: dict[int, float]
    other: dict[int, float]
    apart: tuple[int, ...] = ()


@dataclass(frozen=True)
class CaseBlocks:
    """The trials of a case that count, by block. `dead` variants never succeeded.

    A block has one trial per variant. If its variants ran in several groups, it has one trial of the baseline
    per group.
    """

    case: Case
    blocks: dict[int, tuple[TrialRecord, ...]]
    dead: tuple[str, ...]

    @property
    def trials(self) -> Iterator[TrialRecord]:
        """Yield all trials that count, block by block."""
        for trials in self.blocks.values():
            yield from trials

    def of(self, variant: str) -> Sequence[TrialRecord]:
        """Return a variant's trials that count, block by block."""
        return self._by_variant.get(variant, ())

    def values(self, metric: str, variant: str) -> Mapping[int, float]:
        """Return the metric's value by block. The baseline's value is the mean over the block's groups."""
        return self._means.get((metric, variant), {})

    def paired(self, metric: str, baseline: str, variant: str) -> Paired:
        """Pair each variant with the baseline's trial of its own group: the same block and the same milliseconds.

        Two variants that were never in one group (when another variant is chosen as baseline) are paired by
        block only.
        """
        figures, other_figures = (
            self._figures.get((metric, name), {}) for name in (baseline, variant)
        )
        both = [block for block in figures if block in other_figures]
        base, other = (
            {block: values[block] for block in both}
            for values in (self.values(metric, baseline), self.values(metric, variant))
        )
        apart = []
        for block in both:
            x, y = figures[block], other_figures[block]
            if x.keys() == y.keys():
                continue
            shared = sorted(x.keys() & y.keys())
            if shared:
                base[block], other[block] = (_mean([side[e] for e in shared]) for side in (x, y))
            else:
                apart.append(block)
        return Paired(base, other, tuple(apart))

    @cached_property
    def metrics(self) -> frozenset[str]:
        """Return the metrics that any trial has."""
        return frozenset(metric for metric, _ in self._figures)

    @cached_property
    def _by_variant(self) -> dict[str, list[TrialRecord]]:
        trials: dict[str, list[TrialRecord]] = defaultdict(list)
        for trial in self.trials:
            trials[trial.variant].append(trial)
        return trials

    @cached_property
    def _means(self) -> dict[tuple[str, str], dict[int, float]]:
        return {
            key: {block: _mean([*groups.values()]) for block, groups in blocks.items()}
            for key, blocks in self._figures.items()
        }

    @cached_property
    def _figures(self) -> dict[tuple[str, str], dict[int, dict[int, float]]]:
        """Map metric and variant to their values by block and group, in the order of blocks."""
        figures: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
        for block, trials in sorted(self.blocks.items()):
            for trial in trials:
                for metric, value in trial.metrics.items():
                    blocks = figures.setdefault((metric, trial.variant), {})
                    blocks.setdefault(block, {})[trial.group] = float(value)
        return figures


def clean_blocks(trials: Iterable[TrialRecord]) -> dict[Case, CaseBlocks]:
    """Return the clean blocks of each case, in the order of the cases' first trials."""
    by_case: dict[Case, list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        by_case[trial.case].append(trial)
    return {case: _clean(case, members) for case, members in by_case.items()}


def counted_trials(
    trials: Iterable[TrialRecord], cases: Iterable[Case] | None = None
) -> Iterator[TrialRecord]:
    """Yield the trials that count, case by case (default: all cases)."""
    clean = clean_blocks(trials)
    for case in clean if cases is None else cases:
        if case in clean:
            yield from clean[case].trials


def discarded_trials(trials: Iterable[TrialRecord]) -> tuple[DiscardedTrial, ...]:
    """Return every trial that was itself discarded or failed."""
    return tuple(
        DiscardedTrial(
            block=t.block,
            attempt=t.attempt,
            case=t.case,
            variant=t.variant,
            status=t.status,
            reason=t.reason,
        )
        for t in trials
        if t.status != "ok"
    )


def _clean(case: Case, trials: list[TrialRecord]) -> CaseBlocks:
    succeeded = {t.variant for t in trials if t.status == "ok"}
    dead = tuple(dict.fromkeys(t.variant for t in trials if t.variant not in succeeded))
    attempts: dict[tuple[int, int], list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        attempts[trial.block, trial.attempt].append(trial)
    blocks: dict[int, tuple[TrialRecord, ...]] = {}
    for (block, _), variants in sorted(attempts.items()):
        blocks.pop(block, None)  # only the latest attempt counts, whole or not
        alive = [t for t in variants if t.variant not in dead]
        ended = {t.group for t in variants if t.group and t.variant in dead}
        ended &= {t.group for t in alive if t.status != "ok"}  # else it was left out of them
        left = tuple(t for t in alive if t.group not in ended)
        if left and all(t.status == "ok" for t in left):
            blocks[block] = left
    return CaseBlocks(case, blocks, dead)


def _mean(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else sum(values) / len(values)
