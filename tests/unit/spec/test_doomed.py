"""A spec that must fail is refused before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.spec.variant import PARAM_NAMES, PARAM_WORDS
from tests.unit.spec.conftest import SPEC

SOURCE = Path(__file__).parents[3] / "engine_src" / "server" / "params.cc"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("duration: 5s", "duration: 20m", "spec.yaml:1: limits.trial_timeout: expected at least 1203 s, the duration of a trial of pf, got 600 s"),
        ("duration: 5s", "value_size: 100M", "pf.value_size: expected at most 20971520"),
        ("metadata_thp: always", "metadata_tph: always", "unknown (did you mean metadata_thp?)"),
        ("metadata_thp: always", "metadata_thp: allways", "expected one of disabled, auto, always; got allways"),
        ("{name: system}", "{name: system}, params: {ht_sise: 47}", "glibc.params.ht_sise: unknown (did you mean ht_size?)"),
        ("{name: system}", "{name: system}, params: {ht_size: banana}", "glibc.params.ht_size: expected a number, got banana"),
        ("{name: system}", "{name: system}, params: {fsync: maybe}", "params.fsync: expected one of never, interval, commit; got maybe"),
        ("metadata_thp: always", "narenas: banana", "options.narenas: expected an integer or default, got banana"),
        ("metadata_thp: always", "dirty_decay_ms: 5s", "options.dirty_decay_ms: expected an integer, got 5s"),
        ("name: jemalloc-5.1.0, options: {metadata_thp: always, background_thread: true}", "name: mimalloc-3.3.2, options: {purge_dely: 1}", "options.purge_dely: unknown (did you mean purge_delay?)"),
        ("name: jemalloc-5.1.0, options: {metadata_thp: always, background_thread: true}", "name: mimalloc-3.3.2, options: {arena_reserve: 1GiB}", "options.arena_reserve: expected an integer (bytes, without a unit) or true or false, got 1GiB"),
        ("name: jemalloc-5.1.0, options: {metadata_thp: always, background_thread: true}", "name: tcmalloc, options: {heap_limit: 1}", "options.heap_limit: unknown (did you mean heap_limit_mb?)"),
        ("name: jemalloc-5.1.0, options: {metadata_thp: always, background_thread: true}", "name: snmalloc-0.7.6, options: {a: 1}", "allocator.options: expected no options: snmalloc takes none"),
        ("name: jemalloc-5.1.0, options: {metadata_thp: always, background_thread: true}", "name: mimalloc-2.3.2, preset: historic", "allocator.preset: expected no preset: its options are those of jemalloc, not mimalloc-2.3.2"),
        ("{name: jemalloc-5.1.0, options: {metadata_thp: always, background_thread: true}}", "{name: mimalloc-2.3.2}, env: {MIMALLOC_PURGE_DELAY: 1}", "env.MIMALLOC_PURGE_DELAY: expected no allocator setting in env: use allocator.options"),
        ("jemalloc-5.1.0", "jemalloc-4.5.0", "options.metadata_thp: expected jemalloc 5.1.0 or later for this option; got jemalloc-4.5.0"),
    ],
)  # fmt: skip
def test_what_must_fail(specs, old, new, message):
    assert message in "\n".join(specs.changed_errors(old, new))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("limits: {trial_timeout: 1ms}", "spec.yaml:9: limits.trial_timeout: expected at least 8 s, the duration of a trial of pf"),
        ("engine: {port: 65535}", "spec.yaml:9: engine.port: expected 0 or at most 65534 (interleaved, the n-th of 2 variants gets the n-th port from here); got 65535"),
        ("engine: {params: {ht_lock: 3}}", "engine.params.ht_lock: unknown (did you mean ht_locks?)"),
        ("primary: [HTB/Insert/1]", "expected a metric that a workload of this spec measures; got HTB/Insert/1"),
        ("primary: [instructions_per_op]", "measures; got instructions_per_op"),
        ("buckets: [ephemeral]\nprimary: [store_bytes]", "expected a metric of these buckets; got store_bytes, which only persistent buckets have"),
        ("buckets: [ephemeral]\nprimary: [fragmentation_rss_now_no_store]", "fragmentation_rss_now_no_store, which only persistent buckets have"),
    ],
)  # fmt: skip
def test_what_must_fail_as_a_whole(specs, more, message):
    assert message in "\n".join(specs.added_errors(more))


@pytest.mark.parametrize(
    ("set_share", "never", "timed"), [(100, "get", "set"), (0, "set", "get"), (99.9, None, "get")]
)
def test_an_operation_that_a_load_never_does_has_no_latency(specs, set_share, never, timed):
    more = f"workloads: {{pf: {{type: pillowfight, items: 1k, set_share: {set_share}}}}}\n"
    text = SPEC[: SPEC.index("workloads:")] + more
    primary = f"primary: [latency_{timed}_p99_us]\n"
    assert specs.spec(text + primary).primary == (f"latency_{timed}_p99_us",)
    if never is not None:
        output = "\n".join(specs.errors(text + f"primary: [latency_{never}_p99_us]\n"))
        assert f"measures; got latency_{never}_p99_us" in output


BENCH = """name: bench
cluster: cluster.yaml
baseline: glibc
variants: {glibc: {allocator: {name: system}}}
workloads:
  cursors: {type: microbench, program: checkpoint_bench, filter: CheckpointBench/GetCursorsToDrop/(1|10)$, growth: [CheckpointBench/GetCursorsToDrop]}
"""


@pytest.mark.parametrize(
    "primary",
    [
        "CheckpointBench/GetCursorsToDrop/10",
        "CheckpointBench/GetCursorsToDrop/10/cpu_time",
        "CheckpointBench/GetCursorsToDrop/growth",
    ],
)
def test_a_benchmark_that_its_filter_chooses_may_be_primary(specs, primary):
    assert specs.spec(BENCH + f"primary: [{primary}]\n").primary == (primary,)


@pytest.mark.parametrize(
    ("more", "none_gives"),
    [
        ("", "ops_per_s"),
        ("primary: [CheckpointBench/GetCursorsToDrop/100]", "CheckpointBench/GetCursorsToDrop/100"),
        ("primary: [HTB/growth]", "HTB/growth"),
    ],
)
def test_a_primary_metric_that_no_benchmark_gives_is_refused(specs, more, none_gives):
    output = "\n".join(specs.errors(BENCH + more + "\n"))
    assert f"expected a metric that a workload of this spec measures; got {none_gives}" in output


def test_the_last_ports_that_the_variants_may_have(specs):
    assert specs.spec(SPEC + "engine: {port: 65534}\n").engine.port == 65534
    assert specs.spec(SPEC + "engine: {port: 0}\n").engine.port == 0


def test_what_resembles_nothing_is_the_engines_to_judge(specs):
    assert (
        specs.changed("{name: system}", "{name: system}, params: {x: 1}").variants["glibc"].params
    )


def test_the_names_are_the_engines():
    source = SOURCE.read_text()
    gone = [name for name in PARAM_NAMES if f'"{name}"' not in source]
    assert not gone, "they are no parameters of the engine any more"
    for name, words in PARAM_WORDS.items():
        assert "{" + ", ".join(f'"{word}"' for word in words) + "}" in source, name
