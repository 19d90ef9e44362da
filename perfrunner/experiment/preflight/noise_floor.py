"""Find the known noise floor of a run: what A/A experiments on the same hosts could not have seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.environment import hosts_of, same_hosts
from perfrunner.analysis.noise import NoiseFloor, is_aa, noise_floors
from perfrunner.domain import NO_BUCKET
from perfrunner.experiment.preflight.describe import HostFacts
from perfrunner.experiment.session import resolved
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import measured_settings

if TYPE_CHECKING:
    from perfrunner.results import ExperimentRecord, ResultStore


FACT = "noise_floor"


def known_noise_floor(store: ResultStore, spec: Spec, hosts: HostFacts) -> list[dict[str, Any]]:
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


def _aa_experiments(store: ResultStore, hosts: HostFacts) -> Iterator[ExperimentRecord]:
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
    workload, bucket = case
    then, now = experiment.spec_json, resolved(spec)
    return (
        measured_settings(then.get("workloads", {}).get(workload) or {})
        == measured_settings(now["workloads"][workload])
        and then.get("engine") == now["engine"]
        and bucket in [*then.get("buckets", []), NO_BUCKET]
    )
