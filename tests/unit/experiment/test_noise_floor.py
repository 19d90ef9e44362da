"""Which noise floor a run finds in the store."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from perfrunner.analysis.noise import known_noise_floor
from perfrunner.experiment.session import resolved
from perfrunner.results import ExperimentRecord, ExperimentState, ResultStore, TrialRecord
from perfrunner.spec.loader import load_spec
from perfrunner.spec.model import Spec
from perfrunner.spec.server import ServerSpec
from tests.support.fakes import spec_text

HOSTS = {"here": {"hostname": "box", "cpus": 2, "cpu_model": "M", "boot_id": "a"}}
START = datetime(2026, 11, 20, tzinfo=timezone.utc)


def make(tmp_path: Path, **changes: Any) -> Spec:
    path = tmp_path / "spec.yaml"
    path.write_text(spec_text(tmp_path / "work", **changes))
    return load_spec(path, [], None)


def keep(
    store: ResultStore, spec: Spec, name: str, *, day: int = 0, state: ExperimentState = "done"
) -> None:
    """Store an experiment of `spec` with four blocks on HOSTS."""
    created = START + timedelta(days=day)
    record = ExperimentRecord(
        name, spec.name, resolved(spec), "", "spec.yaml", 1, created, "0", {"hosts": HOSTS}, state
    )
    store.create_experiment(record)
    for block in range(1, 5):
        for position, variant in enumerate(spec.variants, 1):
            for workload, bucket in spec.cases:
                rate = 1e6 * (1 + 0.01 * ((block * 3 + position * (day + 1)) % 4))
                store.add_trial(name, TrialRecord(
                    block, 1, position, workload, bucket, variant, "b", "ok", "", created, created,
                    {"ops_per_s": rate}, {}, "raw",
                ))  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore.open(tmp_path / "results")


def sources(matches: list[dict[str, Any]]) -> set[str]:
    return {record["source"] for record in matches}


def test_the_newest_finished_aa_run_of_the_same_workloads_counts(
    tmp_path: Path, store: ResultStore
) -> None:
    spec = make(tmp_path)
    keep(store, spec.against_itself(), "aa-old")
    keep(store, spec.against_itself(), "aa-new", day=1)
    keep(store, spec.against_itself(), "aa-half", day=2, state="interrupted")
    keep(store, spec, "no-aa", day=3)
    matches = known_noise_floor(store, spec, HOSTS)
    assert sources(matches) == {"aa-new"}
    assert {(r["workload"], r["bucket"]) for r in matches} == set(spec.cases)
    assert all(r["floor"] > 0 for r in matches)


def test_nothing_is_known_before_it_was_measured(tmp_path: Path, store: ResultStore) -> None:
    assert known_noise_floor(store, make(tmp_path), HOSTS) == []


@pytest.mark.parametrize(
    "change", [{"cpus": 4}, {"hostname": "other"}, {"cpu_model": "N"}, {"governor": "powersave"}]
)
def test_another_host_has_another_floor(
    tmp_path: Path, store: ResultStore, change: dict[str, object]
) -> None:
    spec = make(tmp_path)
    keep(store, spec.against_itself(), "aa")
    assert known_noise_floor(store, spec, {"here": {**HOSTS["here"], **change}}) == []
    assert known_noise_floor(store, spec, {**HOSTS, "more": HOSTS["here"]}) == []


def test_a_reboot_does_not_matter(tmp_path: Path, store: ResultStore) -> None:
    spec = make(tmp_path)
    keep(store, spec.against_itself(), "aa")
    assert known_noise_floor(store, spec, {"here": {**HOSTS["here"], "boot_id": "b"}})


def test_another_workload_or_engine_has_another_floor(tmp_path: Path, store: ResultStore) -> None:
    spec = make(tmp_path)
    keep(store, spec.against_itself(), "aa")
    name = next(iter(spec.workloads))
    other = spec.workloads[name].model_copy(update={"items": 77})
    workloads = {**spec.workloads, name: other}
    changed = known_noise_floor(store, spec.model_copy(update={"workloads": workloads}), HOSTS)
    assert name not in {record["workload"] for record in changed}
    engine = spec.engine.model_copy(update={"threads": 9})
    assert known_noise_floor(store, spec.model_copy(update={"engine": engine}), HOSTS) == []


def test_another_server_has_another_floor(tmp_path: Path, store: ResultStore) -> None:
    """Another revision of it has not: its build is compared."""

    engine = make(tmp_path)

    def served(**server: object) -> Spec:
        update = {"server": ServerSpec.model_validate(server)}
        variants = {key: item.model_copy(update=update) for key, item in engine.variants.items()}
        return engine.model_copy(update={"variants": variants})

    built = {"command": ["./srv", "{port}"], "git": "/srv"}
    spec = served(**built, revision="1.0")
    keep(store, spec.against_itself(), "aa")
    assert known_noise_floor(store, served(**built, revision="2.0"), HOSTS)
    for other in ({**built, "git": "/other"}, {**built, "command": ["./srv", "{port}", "-t", "9"]}):
        assert known_noise_floor(store, served(**other), HOSTS) == []
