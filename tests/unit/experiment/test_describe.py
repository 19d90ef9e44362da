from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfrunner.experiment.preflight.requirements import describe, note_tools
from perfrunner.spec.loader import load_spec
from perfrunner.spec.model import Spec
from tests.support.fakes import spec_text

CALM = {"here": {"thp_enabled": "madvise", "cpus": 2, "boot_id": "a"}}


def make(tmp_path: Path, **changes: Any) -> Spec:
    path = tmp_path / "spec.yaml"
    path.write_text(spec_text(tmp_path / "work", **changes))
    return load_spec(path, [], None)


def thp_variants() -> dict[str, Any]:
    def jemalloc(mode: str) -> dict[str, Any]:
        return {"allocator": {"name": "jemalloc-5.1.0", "options": {"metadata_thp": mode}}}

    return {"base": jemalloc("disabled"), "changed": jemalloc("always")}


def test_a_first_run_records_its_hosts_and_warns_of_nothing(tmp_path: Path) -> None:
    results = describe(make(tmp_path, preconditions=["thp_madvise"]), {}, CALM, 0)
    assert results.facts["hosts"] == CALM
    assert results.facts["preconditions"] == {"thp_madvise": True}
    assert (results.changes, results.warnings) == ([], [])
    json.dumps(results.facts)


def test_a_resumed_run_keeps_the_first_facts_and_tells_each_change_once(tmp_path: Path) -> None:
    spec = make(tmp_path)
    first = describe(spec, {}, CALM, 0)
    rebooted = {"here": {**CALM["here"], "boot_id": "b"}}
    second = describe(spec, first.facts, rebooted, 1)
    assert second.facts["hosts"] == CALM
    assert second.changes == ["here: boot_id changed from a to b"]
    assert [w.message for w in second.warnings] == [
        "the hosts changed since the previous trials: here: boot_id changed from a to b"
    ]
    assert second.facts["changed_after"] == [1]
    third = describe(spec, second.facts, rebooted, 1)
    assert third.changes == []
    assert third.facts["changed_after"] == [1]
    assert third.facts["changes"] == second.changes


@pytest.mark.parametrize(("mode", "warns"), [("madvise", 0), ("always", 1), ("never", 1)])
def test_metadata_thp_that_can_do_nothing_is_reported(
    tmp_path: Path, mode: str, warns: int
) -> None:
    spec = make(tmp_path, variants=thp_variants())
    results = describe(spec, {}, {"here": {**CALM["here"], "thp_enabled": mode}}, 0)
    assert len(results.warnings) == warns
    if warns:
        assert results.warnings[0].message.startswith("metadata_thp of changed has no effect")
        assert "madvise" in results.warnings[0].remedy


def test_a_precondition_that_does_not_hold_is_reported(tmp_path: Path) -> None:
    spec = make(tmp_path, preconditions=["two_cores", "thp_madvise"])
    results = describe(spec, {}, {"here": {"cpus": 1}}, 0)
    assert [w.message for w in results.warnings] == [
        "precondition two_cores does not hold on the engine node",
        "precondition thp_madvise cannot be checked on the engine node",
    ]


def test_load_tools_that_are_built_again_are_reported() -> None:
    facts: dict[str, object] = {}
    assert note_tools(facts, "aaaa") is None
    assert note_tools(facts, "aaaa") is None
    output = note_tools(facts, "bbbb")
    assert output == "the build of the load tools changed from aaaa to bbbb"
    assert facts == {"tools_builds": ["aaaa", "bbbb"]}
