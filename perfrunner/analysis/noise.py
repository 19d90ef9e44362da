"""Estimate the noise floor of a host from A/A experiments, and the cost of sampling."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cases import CaseBlocks, clean_blocks
from perfrunner.analysis.compare import compare
from perfrunner.analysis.environment import hosts_of, same_hosts
from perfrunner.analysis.inference import ratio_of, t_critical
from perfrunner.analysis.model import ALPHA, CONFIDENCE, Effect, EffectKind, Interval
from perfrunner.analysis.verdict import deviation, smallest_visible
from perfrunner.domain import NO_BUCKET, Case

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData, ExperimentRecord, ResultStore
    from perfrunner.spec.model import Spec


@dataclass(frozen=True)
class NoiseFloor:
    """The smallest visible change of a metric on a host.

    `floor` is a share for a ratio, otherwise in the metric's unit. `source` is the id of the A/A experiment.
    """

    workload: str
    bucket: str
    metric: str
    kind: EffectKind
    floor: float
    blocks: int
    source: str
    measured_at: str  # ISO 8601, UTC

    @property
    def case(self) -> Case:
        """The case to which the floor applies."""
        return Case(self.workload, self.bucket)

    def record(self) -> dict[str, Any]:
        """Return plain values, for the facts of the experiments to which the floor applies."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> NoiseFloor:
        """Return the floor of a record that `record` returned."""
        return cls(**record)


def half_width(effect: Effect) -> float | None:
    """Return half of the effect's 95 % interval: a share for a ratio, otherwise in the metric's unit."""
    if effect.ci95 is None:
        return None
    low, high = deviation(effect, effect.ci95)
    half = (high - low) / 2
    return float(ratio_of(half)) - 1 if effect.kind == "ratio" else half


def is_aa(spec_json: Mapping[str, Any]) -> bool:
    """Tell whether a recorded spec compares a variant with itself: its two variants differ in name only."""
    variants = spec_json.get("variants")
    if not isinstance(variants, Mapping) or len(variants) != 2:
        return False
    first, second = ({**variant, "name": ""} for variant in variants.values())
    return bool(first == second)


def noise_floors(data: ExperimentData) -> list[NoiseFloor]:
    """Return the floor of every case and metric of an A/A experiment that has two blocks or more.

    The level is what the correction for multiple testing leaves to the only row that changed: ALPHA divided by the
    number of tests of its family.
    """
    floors = []
    rows = [row for row in compare(data).rows if row.verdict != "not comparable"]
    tests = Counter((row.primary, row.companion) for row in rows if row.effect is not None)
    for row in rows:
        floor = None
        if row.effect is not None:
            floor = smallest_visible(row.effect, ALPHA / tests[row.primary, row.companion])
        if row.effect is None or floor is None:
            continue
        floors.append(
            NoiseFloor(
                workload=row.case.workload,
                bucket=row.case.bucket,
                metric=row.metric.id,
                kind=row.effect.kind,
                floor=floor,
                blocks=row.effect.n,
                source=data.experiment.id,
                measured_at=data.experiment.created_at.isoformat(timespec="seconds"),
            )
        )
    return floors


@dataclass(frozen=True)
class SamplingCost:
    """The cost of the samplers in a case: `ratio` is the metric without samplers / with them; 1 means no cost."""

    case: Case
    metric: str
    ratio: float
    interval: Interval

    @property
    def visible(self) -> bool:
        """Return whether the interval excludes a cost of zero."""
        return not self.interval[0] <= 1.0 <= self.interval[1]

    @property
    def floor(self) -> float:
        """The smallest cost that would be visible, as a share."""
        return self.interval[1] / self.ratio - 1


@dataclass(frozen=True)
class _Spread:
    """The standard deviation of the log ratio of two sampled trials, and its degrees of freedom."""

    sd: float
    freedom: int

    def half_width(self, confidence: float) -> float:
        """Return half of the interval's width, as a log ratio."""
        return float(t_critical((1 - confidence) / 2, self.freedom)) * self.sd


def sampling_costs(data: ExperimentData) -> list[SamplingCost]:
    """Return the cost for every case that was checked and has enough sampled trials; failed checks are left out."""
    records = data.experiment.facts.get("sampling_check") or []
    cases = clean_blocks(data.trials)
    checked: list[tuple[Case, str, float, _Spread]] = []
    for record in records:
        case = Case(str(record["workload"]), str(record["bucket"]))
        if record["status"] != "ok" or case not in cases:
            continue
        spread = _paired_spread if record.get("interleaved") else _unpaired_spread
        for metric, bare in record["bare"].items():
            sampled = record["sampled"].get(metric, 0.0)
            variation = spread(cases[case], metric, str(record["variant"]))
            if variation is not None and min(bare, sampled) > 0:
                checked.append((case, metric, float(bare) / float(sampled), variation))
    together = 1 - (1 - CONFIDENCE) / max(1, len(checked))
    return [
        SamplingCost(case, metric, ratio, _around(ratio, spread.half_width(together)))
        for case, metric, ratio, spread in checked
    ]


def failed_checks(facts: Mapping[str, Any]) -> Iterable[str]:
    """Yield a line for each case whose trial without samplers did not count."""
    for record in facts.get("sampling_check") or []:
        if record["status"] != "ok":
            case = Case(str(record["workload"]), str(record["bucket"]))
            yield f"the cost of sampling is unknown for {case}: {record['reason']}"


def _around(ratio: float, half: float) -> Interval:
    return ratio * ratio_of(-half), ratio * ratio_of(half)


def _paired_spread(blocks: CaseBlocks, metric: str, baseline: str) -> _Spread | None:
    """Return the spread of one paired log ratio; None unless a variant shares two blocks with the baseline."""
    import numpy as np

    squares, freedom = 0.0, 0
    for variant in sorted({trial.variant for trial in blocks.trials} - {baseline}):
        paired = blocks.paired(metric, baseline, variant)
        if len(paired.base) < 2 or min(*paired.base.values(), *paired.other.values()) <= 0:
            continue
        logs = np.log([paired.other[b] / paired.base[b] for b in paired.base])
        squares += float(((logs - logs.mean()) ** 2).sum())
        freedom += len(logs) - 1
    return _Spread(math.sqrt(squares / freedom), freedom) if freedom else None


def _unpaired_spread(blocks: CaseBlocks, metric: str, variant: str) -> _Spread | None:
    """Return the spread of the log ratio of two trials; None with fewer than two."""
    import numpy as np

    trials = list(blocks.values(metric, variant).values())
    if len(trials) < 2 or min(trials) <= 0:
        return None
    return _Spread(float(np.log(trials).std(ddof=1)) * math.sqrt(2), len(trials) - 1)


FLOORS_FACT = "noise_floor"


def known_noise_floor(
    store: ResultStore, spec: Spec, hosts: Mapping[str, Mapping[str, object]]
) -> list[dict[str, Any]]:
    """Return the noise floors of the spec's cases, as records, from A/A experiments on the same hosts."""
    by_case: dict[tuple[str, str], list[NoiseFloor]] = {}
    for experiment in _aa_experiments(store, hosts):
        fits = [
            case for case in spec.cases if case not in by_case and _fits(experiment, spec, case)
        ]
        if fits:
            floors = noise_floors(store.load(experiment.id))
            for case in fits:
                if of_case := [floor for floor in floors if floor.case == case]:
                    by_case[case] = of_case
    return [floor.record() for floors in by_case.values() for floor in floors]


def _aa_experiments(
    store: ResultStore, hosts: Mapping[str, Mapping[str, object]]
) -> Iterator[ExperimentRecord]:
    """Yield the finished A/A experiments on the same hosts, newest first."""
    for summary in reversed(store.list()):
        experiment = summary.experiment
        if (
            experiment.state == "done"
            and is_aa(experiment.spec_json)
            and same_hosts(hosts_of(experiment.facts), hosts)
        ):
            yield experiment


def _fits(experiment: ExperimentRecord, spec: Spec, case: tuple[str, str]) -> bool:
    from perfrunner.spec.workloads import measured_settings  # late: reports do not need pydantic

    workload, bucket = case
    then, now = experiment.spec_json, spec.model_dump(mode="json")
    return (
        measured_settings(then.get("workloads", {}).get(workload) or {})
        == measured_settings(now["workloads"][workload])
        and then.get("engine") == now["engine"]
        and _server(then) == _server(now)
        and bucket in [*then.get("buckets", []), NO_BUCKET]
    )


def _server(spec_json: Mapping[str, Any]) -> dict[str, Any]:
    """Return the server that a recorded spec's baseline starts, of any revision; empty for the engine."""
    server = spec_json.get("variants", {}).get(spec_json.get("baseline"), {}).get("server") or {}
    return {key: value for key, value in server.items() if value and key != "revision"}
