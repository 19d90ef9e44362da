"""Every spec of the project: it is valid, it can be run, and its names are those that its programs report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfrunner.domain import MEASURED_PRECONDITIONS, PRECONDITIONS
from perfrunner.experiment.plan import make_plan
from perfrunner.spec.loader import load_spec
from perfrunner.spec.model import Spec
from perfrunner.spec.switches import own_table
from perfrunner.spec.workloads import LatencySpec, MicrobenchSpec

ROOT = Path(__file__).parents[3]
EXPERIMENTS = sorted((ROOT / "specs" / "experiments").glob("*.yaml"))
HISTORIC = {
    "jemalloc-metadata-thp",
    "hashtable-stats-striping",
    "dcp-ready-queue",
    "flush-persistence-callback",
    "cursors-to-drop",
}
_COMMAND = re.compile(r"perfrunner run (specs/\S+\.yaml)((?:\\\n|[^\n])*)")


def load(path: Path) -> Spec:
    return load_spec(path, [], None)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_a_spec_is_valid_and_can_be_planned_and_run(path: Path) -> None:
    spec = load(path)
    assert spec.name == path.stem
    assert spec.description
    assert spec.blocks >= 6, "fewer give no verdict"
    plan = make_plan(spec, 1)
    assert len(plan.trials) == len(spec.variants) * len(spec.cases) * spec.blocks


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_the_commands_in_its_comments_are_valid(path: Path) -> None:
    text = re.sub(r"(?m)^# ?", "", path.read_text(encoding="utf-8"))
    for named, rest in _COMMAND.findall(text):
        assert ROOT / named == path or named == "specs/experiments/quickstart.yaml"
        words = _words(rest)
        overrides = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        spec = load_spec(path, overrides, None, next(iter(_after(words, "--profile")), None))
        for name in _after(words, "--workloads"):
            assert name in spec.workloads


def test_the_five_historic_experiments_are_there() -> None:
    assert {path.stem for path in EXPERIMENTS} >= HISTORIC


@pytest.mark.parametrize("name", sorted(HISTORIC))
def test_a_historic_experiment_keeps_its_before_and_its_after(name: str) -> None:
    spec = load(ROOT / "specs" / "experiments" / f"{name}.yaml")
    variants = {
        (v.allocator.name, v.allocator.option_string, tuple(v.options.items()), tuple(v.env))
        for v in spec.variants.values()
    }
    assert len(variants) == len(spec.variants) >= 2


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_primary_metrics_and_growth_are_benchmarks_that_the_filters_choose(path: Path) -> None:
    spec = load(path)
    tools = [w for w in spec.workloads.values() if isinstance(w, MicrobenchSpec)]
    latency = any(isinstance(w, LatencySpec) for w in spec.workloads.values())
    for metric in spec.primary:
        if "/" not in metric:
            continue
        family, _, last = metric.rpartition("/")
        benchmark = family if last.isidentifier() and not last.startswith("threads") else metric
        if metric.startswith("Latency/"):
            assert latency
        elif last == "growth":
            assert any(family in w.growth and re.search(w.filter, f"{family}/1") for w in tools)
        else:
            assert any(re.search(w.filter, benchmark) for w in tools), metric


@pytest.mark.parametrize("name", ["dcp-ready-queue", "hashtable-stats-striping"])
def test_what_a_profile_explains_has_one_and_says_so(name: str) -> None:
    path = ROOT / "specs" / "experiments" / f"{name}.yaml"
    usual, profiled = load(path), load_spec(path, [], None, "perf")
    assert not any(w.profile for w in usual.workloads.values())
    assert any(w.profile == "perf" for w in profiled.workloads.values())
    assert profiled.variants == usual.variants
    page = (ROOT / "docs" / "experiments" / f"{name}.md").read_text(encoding="utf-8")
    assert f"perfrunner run specs/experiments/{name}.yaml --profile perf" in page


def test_every_lookup_and_design_of_the_ready_queue_is_in_a_spec() -> None:
    compared = {
        v.options.get("dcp_ready")
        for path in EXPERIMENTS
        if path.stem.startswith("dcp-ready")
        for v in load(path).variants.values()
    }
    assert compared == set(own_table()["dcp_ready"].values)


def test_a_table_by_more_threads_than_cpus_has_two_cpus_on_every_host() -> None:
    spec = load(ROOT / "specs" / "experiments" / "hashtable-stats-striping-oversubscribed.yaml")
    assert spec.engine.cpus == "0-1"
    table = spec.workloads["table"]
    assert isinstance(table, MicrobenchSpec)
    for name, chosen in {
        "HTB/Insert/sized/iterations:100000/real_time/threads:2": True,
        "HTB/Insert/sized/iterations:100000/real_time/threads:16": False,
        "HTBOversubscribed/Insert/sized/iterations:100000/real_time/threads:4": True,
        "HTB/Find/sized/iterations:100000/real_time/threads:1": False,
    }.items():
        assert bool(re.search(table.filter, name)) is chosen, name


def test_the_pattern_for_commands_finds_them() -> None:
    results = [
        c for path in EXPERIMENTS
        for c in _COMMAND.findall(re.sub(r"(?m)^# ?", "", path.read_text(encoding="utf-8")))
    ]  # fmt: skip
    assert len(results) >= 5


def test_measured_preconditions_are_preconditions() -> None:
    assert set(PRECONDITIONS) >= MEASURED_PRECONDITIONS


def _words(rest: str) -> list[str]:
    import shlex

    return shlex.split(rest.replace("\\\n", " "))


def _after(words: list[str], flag: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == flag]
