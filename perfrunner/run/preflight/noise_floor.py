"""Which noise floor is known for a run: of the same workloads, on hosts that are still what they were.

`perfrunner aa` leaves an A/A experiment in the store like any other. A run that begins looks for the newest one of each
of its cells and keeps its floors with its own facts, so that every report can print them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.circumstances import hosts_of, same_hosts
from perfrunner.analysis.noise import NoiseFloor, is_aa, noise_floors
from perfrunner.run.opening import resolved
from perfrunner.spec.cell import NO_BUCKET
from perfrunner.spec.workloads import measured_settings

if TYPE_CHECKING:
    from perfrunner.results import ExperimentRecord, ResultStore
    from perfrunner.run.preflight.describe import HostFacts
    from perfrunner.spec.model import Spec

FACT = "noise_floor"


def known_noise_floor(store: ResultStore, spec: Spec, hosts: HostFacts) -> list[dict[str, Any]]:
    """The floors of this spec's cells, as records; empty where none was measured."""
    found: dict[tuple[str, str], list[NoiseFloor]] = {}
    for experiment in _aa_experiments(store, hosts):
        fits = [cell for cell in spec.cells if cell not in found and _fits(experiment, spec, cell)]
        if fits:
            floors = noise_floors(store.load(experiment.id))
            for cell in fits:
                if of_cell := [floor for floor in floors if floor.cell == cell]:
                    found[cell] = of_cell
    return [floor.record() for floors in found.values() for floor in floors]


def _aa_experiments(store: ResultStore, hosts: HostFacts) -> Iterator[ExperimentRecord]:
    """Newest first: those that were finished on the same hosts."""
    for summary in reversed(store.list()):
        experiment = summary.experiment
        if (
            experiment.state == "done"
            and is_aa(experiment.spec_json)
            and same_hosts(hosts_of(experiment.facts), hosts)
        ):
            yield experiment


def _fits(experiment: ExperimentRecord, spec: Spec, cell: tuple[str, str]) -> bool:
    workload, bucket = cell
    then, now = experiment.spec_json, resolved(spec)
    return (
        measured_settings(then.get("workloads", {}).get(workload) or {})
        == measured_settings(now["workloads"][workload])
        and then.get("engine") == now["engine"]
        and bucket in [*then.get("buckets", []), NO_BUCKET]
    )
