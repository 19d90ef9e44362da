"""The valid spec: defaults, normal forms, round trips."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import ValidationError

from perfrunner.spec.allocator import AllocatorSpec
from perfrunner.spec.loader import load_cluster, load_spec
from perfrunner.spec.metrics import METRICS, metric_type
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ServerWorkload, ToolWorkload, measured_settings

ROOT = Path(__file__).resolve().parents[3]


def test_defaults(specs):
    spec = specs.spec()
    assert (spec.blocks, spec.buckets, spec.primary) == (10, ("persistent",), ("ops_per_s",))
    assert (spec.engine.threads, spec.engine.quota_mb, spec.limits.trial_timeout) == (2, 1024, 600)
    assert spec.variants["je"].name == "je"


def test_allocator_options_are_text(specs):
    allocator = specs.spec().variants["je"].allocator
    assert allocator.options == {"metadata_thp": "always", "background_thread": "true"}
    assert allocator.option_string == "metadata_thp:always,background_thread:true"


def test_switches_that_yaml_reads_as_truth_values(specs):
    spec = specs.changed(
        "{name: system}", "{name: system}, options: {ht_stats_padded: on, ht_stats: 4}"
    )
    assert spec.variants["glibc"].options == {"ht_stats_padded": "on", "ht_stats": "4"}


def test_a_spec_survives_json(specs):
    spec = specs.changed("items: 10k", "items: 10k, value_size: [16, 1KiB]")
    assert Spec.model_validate_json(spec.model_dump_json()) == spec
    assert Spec.model_validate(spec.model_dump(mode="json")) == spec


def test_a_spec_does_not_change(specs):
    with pytest.raises(ValidationError, match="frozen"):
        specs.spec().blocks = 3


def test_one_size_is_a_range_of_itself(specs):
    assert specs.spec().workloads["pf"].value_size == (256, 256)


def test_cases_are_workloads_times_buckets(specs):
    spec = specs.spec(None, "buckets=[persistent, ephemeral]")
    assert spec.cases == (("pf", "persistent"), ("pf", "ephemeral"))


def test_a_comparison_with_itself_has_no_profiles(specs):
    spec = specs.changed("items: 10k", "items: 10k, profile: perf")
    (load,) = spec.workloads.values()
    assert load.profile == "perf"
    plain = load.model_copy(update={"profile": None})
    for bare in (spec.only_compared(), spec.against_itself()):
        assert (bare.sampling_check, bare.workloads["pf"]) == (False, plain)


def test_profiles_are_part_of_what_is_measured():
    """They cost throughput, so results with them are not compared with results without them."""
    recorded = {"items": 1, "profile": "perf"}
    assert measured_settings(recorded) == recorded
    assert measured_settings({"items": 1, "profile": None}) == {"items": 1}


def test_a_variants_own_params_win(specs):
    spec = specs.spec(None, "engine.params={a: 1, b: 1}", "variants.je.params={b: 2}")
    assert spec.params_of("je") == {"a": "1", "b": "2"}
    assert spec.params_of("glibc") == {"a": "1", "b": "1"}


def test_a_restricted_spec_keeps_its_baseline(specs):
    spec = specs.spec().restricted(None, ("je",))
    assert list(spec.variants) == ["glibc", "je"]
    assert list(specs.spec().restricted(None, ("glibc",)).variants) == ["glibc"]


def test_margins_default_by_metric(specs):
    spec = specs.spec(None, "margins={fragmentation_rss: 2, ops_per_s: 3%}")
    assert spec.margin("fragmentation_rss") == 2.0
    assert spec.margin("ops_per_s") == pytest.approx(0.03)
    assert spec.margin("rss_bytes") == 0.01
    assert spec.margin("fragmentation_mapped") == 1.0


@pytest.mark.parametrize(
    "path", sorted((ROOT / "specs" / "experiments").glob("*.yaml")), ids=lambda p: p.name
)
def test_every_spec_of_the_repository_is_valid(path):
    load_spec(path)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "specs" / "clusters").glob("*.yaml")), ids=lambda p: p.name
)
def test_every_cluster_of_the_repository_is_valid(path):
    load_cluster(path)


def test_the_quickstart_is_what_the_readme_promises():
    spec = load_spec(ROOT / "specs" / "experiments" / "quickstart.yaml")
    assert [v.allocator.name for v in spec.variants.values()] == ["system", "jemalloc-5.1.0"]
    assert (spec.blocks, len(spec.cases)) == (10, 4)
    pillowfight = spec.workloads["pillowfight"]
    assert (pillowfight.set_share, pillowfight.value_size) == (80, (256, 256))


# Direction and effect of all other metrics are compared with the table of docs/reference/metrics.md (test_docs.py).
OF_MICROBENCHMARKS = {
    "HTB/Insert/threads:2": ("lower", "ratio"),
    "HTB/Insert/threads:2/items_per_second": ("higher", "ratio"),
    "CheckpointBench/GetCursorsToDrop/10000": ("lower", "ratio"),
    "FlushVBucket/Insert/10000/PeakBytesPerItem": ("lower", "ratio"),
}


@pytest.mark.parametrize(("metric", "expected"), OF_MICROBENCHMARKS.items())
def test_a_figure_of_a_micro_benchmark_has_its_direction_and_effect(metric, expected):
    kind = metric_type(metric)
    assert (kind.direction, kind.effect) == expected
    assert kind.id == metric


def test_every_metric_has_a_unit_and_a_margin():
    kinds = [metric_type(metric) for metric in (*METRICS, *OF_MICROBENCHMARKS)]
    assert all(kind.unit and kind.default_margin > 0 for kind in kinds)


def test_an_unknown_metric_gets_the_nearest_name():
    with pytest.raises(KeyError, match="did you mean ops_per_s"):
        metric_type("ops_per_sec")


def test_the_historic_preset_is_one_arena_and_own_options_win():
    plain = AllocatorSpec(name="jemalloc-5.1.0", preset="historic")
    assert plain.option_string == "narenas:1"
    more = AllocatorSpec(
        name="jemalloc-5.1.0", preset="historic", options={"narenas": "4", "metadata_thp": "auto"}
    )
    assert more.option_string == "narenas:4,metadata_thp:auto"


def test_options_of_a_linked_allocator_become_its_environment():
    jemalloc = AllocatorSpec(name="jemalloc-5.1.0", preset="historic")
    assert jemalloc.linked_environment == {"_RJEM_MALLOC_CONF": "narenas:1"}
    assert AllocatorSpec(name="jemalloc-5.3.1").linked_environment == {"_RJEM_MALLOC_CONF": ""}
    mimalloc = AllocatorSpec(
        name="mimalloc-3.3.2", options={"purge_delay": "0", "allow_thp": "false"}
    )
    assert mimalloc.linked_environment == {
        "MIMALLOC_PURGE_DELAY": "0",
        "MIMALLOC_ALLOW_THP": "false",
    }
    tcmalloc = AllocatorSpec(name="tcmalloc", options={"heap_limit_mb": "64"})
    assert tcmalloc.linked_environment == {"TCMALLOC_HEAP_LIMIT_MB": "64"}
    for plain in ("system", "snmalloc-0.7.6", "mimalloc-2.3.2"):
        assert AllocatorSpec(name=plain).linked_environment == {}


@pytest.mark.parametrize(
    ("name", "preset", "message"),
    [
        ("jemalloc-5.1.0", "histric", "did you mean historic"),
        ("system", "historic", "expected no preset"),
    ],
)
def test_a_preset_that_cannot_be_is_refused(name, preset, message):
    with pytest.raises(ValueError, match=message):
        AllocatorSpec(name=name, preset=preset)


def test_a_spec_against_itself_has_one_variant_under_two_names(specs):
    spec = specs.spec()
    aa = spec.against_itself("je")
    first, second = aa.variants.values()
    assert (aa.baseline, list(aa.variants), aa.name) == (
        "je",
        ["je", "je-again"],
        f"aa-{spec.name}",
    )
    assert second == first.model_copy(update={"name": "je-again"})
    assert aa.workloads == spec.workloads
    assert Spec.model_validate_json(aa.model_dump_json()) == aa


def test_the_longest_names_stay_valid_in_an_aa_spec(specs):
    spec = specs.spec()
    long = "v" * 100
    variant = spec.variants["je"].model_copy(update={"name": long})
    spec = spec.model_copy(update={"name": "n" * 64, "variants": {long: variant}, "baseline": long})
    aa = spec.against_itself()
    assert len(aa.variants) == 2
    assert Spec.model_validate_json(aa.model_dump_json()) == aa


def test_local_is_this_machine_without_a_file(specs):
    text = (specs.directory / "spec.yaml").read_text()
    with_file = load_cluster(ROOT / "specs" / "clusters" / "local.yaml")
    spec = specs.spec(text.replace("cluster.yaml", "local"))
    assert spec.cluster == with_file == load_cluster(Path("local"))
    elsewhere = specs.spec(text, "cluster=local")
    assert elsewhere.cluster == with_file
    assert load_spec(specs.directory / "spec.yaml", [], Path("local")).cluster == with_file


def test_what_local_stands_for_can_be_overridden(specs):
    text = (specs.directory / "spec.yaml").read_text().replace("cluster.yaml", "local")
    spec = specs.spec(text, "cluster.hosts.here.work_dir=/var/tmp/other")
    assert spec.cluster.hosts["here"].work_dir == "/var/tmp/other"
    assert specs.errors(text, "cluster.replicas=1") == [
        "--set cluster.replicas=1: cluster.replicas: expected fewer replicas than engine nodes; got 1 with 1"
    ]


@pytest.mark.parametrize(
    ("base", "keys", "needed"),
    [
        (ServerWorkload, {"items": 1}, "expected_seconds.*item_bytes"),
        (ToolWorkload, {}, "expected_seconds.*measured_program"),
    ],
)
def test_a_type_of_workload_has_to_define_what_plan_and_build_need(base, keys, needed):
    class Incomplete(base):
        type: Literal["incomplete"]

    with pytest.raises(TypeError, match=needed):
        Incomplete.model_validate({"type": "incomplete", **keys})


def test_a_churn_changes_what_a_load_can_measure(specs):
    """It is part of the record only where it is asked for, so that older records stay the same."""
    plain = specs.spec().workloads["pf"]
    assert not {"churn", "sizes", "key_size"} & plain.model_dump().keys()
    assert not plain.may_give("rss_returned")
    given = "churn: {wait: 3s, value_size: [100, 4k]}, sizes: lognormal"
    churned = specs.changed("items: 10k", f"items: 10k, {given}").workloads["pf"]
    assert (churned.churn.delete, churned.churn.value_size) == (67.0, (100, 4000))
    assert churned.all_sizes == (100, 4000)
    assert churned.may_give("rss_returned")
    assert churned.least_seconds == plain.least_seconds + 3
    assert churned.item_bytes > plain.item_bytes
    dumped = churned.model_dump(mode="json")
    assert (dumped["sizes"], dumped["churn"]["delete"]) == ("lognormal", 67.0)
    assert type(churned).model_validate(dumped) == churned
    (problem,) = specs.changed_errors("items: 10k", "items: 10k, churn: {delete: 0, value_size: 9}")
    assert "workloads.pf.churn.delete: expected more than 0" in problem


def test_interleaved_variants_wait_at_the_same_time(specs):
    churn = "churn: {delete: 80, value_size: 96, wait: 30s}"
    interleaved, sequential = (
        specs.changed("items: 10k", f"items: 10k, schedule: {how}, {churn}")
        for how in ("interleaved", "sequential")
    )
    together, alone = interleaved.expected_seconds("pf"), sequential.expected_seconds("pf")
    waits = 30 + interleaved.workloads["pf"].settle
    variants = len(interleaved.variants)
    assert alone * variants - together * variants == pytest.approx(waits * (variants - 1))


def test_a_churn_may_step_through_sizes_and_lengths_of_keys(specs):
    plain = specs.spec().workloads["pf"]
    churn = "churn: {delete: 80, value_size: 96, steps: [112, 128, [1k, 2k]]}"
    stepped = specs.changed("items: 10k", f"items: 10k, {churn}").workloads["pf"]
    assert stepped.churn.steps == ((112, 112), (128, 128), (1000, 2000))
    assert stepped.all_sizes == (96, 2000)
    assert type(stepped).model_validate(stepped.model_dump(mode="json")) == stepped
    assert stepped.expected_seconds > plain.expected_seconds + 5
    given = "value_size: 8, key_size: [20, 250], churn: {value_size: 8, steps: [8, 8]}"
    keys = specs.changed("items: 10k", f"items: 10k, {given}").workloads["pf"]
    assert keys.key_size == (20, 250)
    assert keys.item_bytes == 128 + 230 + 8
    for wrong in ("19", "[20, 251]", "[30, 20]"):
        (problem,) = specs.changed_errors("items: 10k", f"items: 10k, key_size: {wrong}")
        assert "workloads.pf.key_size" in problem


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ("rate_limit: 10", "expected at least 1000 operations per second, or batch: 1: each of 1 connections sends a batch of 100 only every 10 s; got 10"),
        ("rate_limit: 999", "or batch: 99: each"),
        ("rate_limit: 1000", None),
        ("rate_limit: 10, batch: 1", None),
        ("rate_limit: 9, batch: 1", "expected at least 10 operations per second"),
        ("rate_limit: 100, batch: 1, threads: 4, connections: 4", "or batch: 1 and fewer connections"),
        ("rate_limit: 100000, threads: 4, connections: 4", None),
    ],
)  # fmt: skip
def test_a_rate_is_spread_over_batches_or_refused(specs, settings, wrong):
    if wrong is None:
        specs.changed("items: 10k", f"items: 10k, {settings}")
        return
    (problem,) = specs.changed_errors("items: 10k", f"items: 10k, {settings}")
    assert problem.startswith("spec.yaml:8: workloads.pf.rate_limit: expected at least")
    assert wrong in problem
