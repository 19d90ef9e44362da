"""Errors of specs: file, line, field, expectation, nearest name; and all of them at once."""

from __future__ import annotations

import pytest

from perfrunner.spec.suggest import expected_name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("baseline: glibc", "baseline: glib", "spec.yaml:3: baseline: expected the name of a variant: glibc, je; got glib (did you mean glibc?)"),
        ("name: small", "name: Small Spec", "spec.yaml:1: name: expected a name of a-z, 0-9 and '-' (at most 64 characters), got 'Small Spec'"),
        ("name: system", "name: jemaloc-5.1.0", "did you mean jemalloc-5.1.0?"),
        ("name: system", "name: hoard", "spec.yaml:5: variants.glibc.allocator.name: expected an allocator: system, jemalloc-4.5.0, jemalloc-5.0.1, jemalloc-5.1.0, jemalloc-5.2.1, jemalloc-5.3.0, jemalloc-5.3.1, mimalloc-2.3.2, mimalloc-3.3.2, snmalloc-0.7.6, tcmalloc; got hoard"),
        ("name: system", "name: system, options: {narenas: 4}", "the system allocator takes none"),
        ("metadata_thp: always", "metadata_thp: 'a,b'", "spec.yaml:6: variants.je.allocator.options.metadata_thp: expected a value of letters"),
        ("metadata_thp: always", "'meta,data': always", "expected an option name"),
        ("items: 10k", "items: ten", "spec.yaml:8: workloads.pf.items: expected a whole number such as 1000, 100k or 5M, got 'ten'"),
        ("items: 10k", "item: 10k", "spec.yaml:8: workloads.pf.item: unknown key (did you mean items?)"),
        ("items: 10k, ", "", "spec.yaml:8: workloads.pf.items: required key is missing"),
        ("items: 10k", "items: 10k, profile: pref", "spec.yaml:8: workloads.pf.profile: expected 'perf', got 'pref' (did you mean perf?)"),
        ("items: 10k", "items: 10k, profile: blocks", "spec.yaml:8: workloads.pf.profile: expected 'perf', got 'blocks'"),
        ("items: 10k", "items: 10k, profile: perf", None),
        ("type: pillowfight", "type: pilowfight", "expected a workload type: pillowfight, append, microbench, latency, sdk, step; got pilowfight (did you mean pillowfight?)"),
        ("type: pillowfight, ", "", "workloads.pf.type: required key is missing; expected a workload type: pillowfight, append, microbench, latency, sdk, step"),
        ("duration: 5s", "duration: 5", None),
        ("duration: 5s", "duration: 1500ms, ramp: 1s", "expected at least one second more than ramp"),
        ("duration: 5s", "duration: 300ms, ramp: 200ms, schedule: interleaved", None),
        ("duration: 5s", "duration: 250ms, ramp: 200ms, schedule: interleaved", "expected at least 100 ms more than ramp"),
        ("duration: 5s", "value_size: [9, 3]", "ascending order"),
        ("cluster: cluster.yaml", "cluster: clustr.yaml", "spec.yaml:2: cluster: expected local or the path of a YAML file, got clustr.yaml: no such file (did you mean cluster.yaml?)"),
        ("cluster: cluster.yaml", "cluster: Local", "got Local: no such file (did you mean local?)"),
        ("cluster: cluster.yaml", "cluster: 5", "cluster: expected local or the path of a YAML file, got 5"),
        ("cluster: cluster.yaml\n", "", "cluster: required key is missing"),
        ("glibc: {allocator", "-x: {allocator", "expected a name of letters, digits"),
        ("glibc: {allocator", "1.0: {allocator", "spec.yaml:5: variants.\"1.0\": expected a string as key, got 1.0 (put it in quotes)"),
        ("  je: {", "  glibc: {", "spec.yaml:6: variants.glibc: duplicate key (first defined in line 5)"),
        ("{name: system}", "{name: jemalloc-5.1.0, profile: historic}", "variants.glibc.allocator.profile: unknown key"),
        ("{name: system}", "{name: system}, options: {ht_stat: core}", "did you mean ht_stats?"),
        ("{name: system}", "{name: system}, options: {ht_stats: cores}", "variants.glibc.options.ht_stats: expected one of single, llc, core, a whole number from 1 to 9999; got cores (did you mean core?)"),
        ("{name: system}", "{name: system}, env: {LD_PRELOAD: x}", "use allocator.name"),
        ("{name: system}", "{name: system}, params: {'a b': 1}", "expected a parameter name"),
        ("workloads:\n", "workloads: {}\nworkload:\n", "did you mean workloads?"),
    ],
)  # fmt: skip
def test_each_kind_of_error_has_its_message(specs, old, new, message):
    if message is None:
        specs.changed(old, new)
    else:
        assert message in "\n".join(specs.changed_errors(old, new))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("bloks: 5", "spec.yaml:9: bloks: unknown key (did you mean blocks?); expected one of name,"),
        ("blocks: six", "spec.yaml:9: blocks: expected a whole number, got 'six'"),
        ("blocks: 0", "spec.yaml:9: blocks: expected at least 1, got 0"),
        ("blocks: 2.5", "blocks: expected a whole number, got 2.5"),
        ("blocks: true", "blocks: expected a whole number, got true"),
        ("buckets: [persistant]", "buckets[0]: expected 'persistent' or 'ephemeral', got 'persistant' (did you mean persistent?)"),
        ("buckets: []", "buckets: expected 1 or more entries, got 0"),
        ("buckets: persistent", "buckets: expected a list, got 'persistent'"),
        ("buckets: [ephemeral, ephemeral]", "expected each name once; got ephemeral 2 times"),
        ("engine: {quota: 5}", "engine.quota: unknown key (did you mean quota_mb?)"),
        ("engine: 5", "engine: expected a mapping, got 5"),
        ("margins: {ops_per_sec: 1%}", "spec.yaml:9: margins.ops_per_sec: expected a metric such as ops_per_s,"),
        ("margins: {ops_per_s: 60%}", "below 50 %"),
        ("margins: {fragmentation_rss: 1%}", "margins.fragmentation_rss: expected a positive number (percentage points), such as 1.0, got '1%'"),
        ("primary: [ops]", "primary[0]: expected a metric such as ops_per_s,"),
        ("primary: [ops_per_s, rss_bytes, pss_bytes, vsz_bytes]", "primary: expected at most 3 entries, got 4"),
        ("precision: 1", "precision: expected a percentage above 0 % and below 50 %"),
        ("limits: {client_busy: 2}", "limits.client_busy: expected a percentage"),
        ("preconditions: [thp]", "preconditions[0]: expected a precondition: thp_madvise"),
        ("seed: -1", "seed: expected at least 0, got -1"),
    ],
)  # fmt: skip
def test_fields_of_the_whole_spec(specs, more, message):
    assert message in "\n".join(specs.added_errors(more))


def test_every_error_is_reported_in_the_order_of_lines(specs):
    problems = specs.errors(
        """\
        name: BAD
        cluster: nowhere.yaml
        baseline: c
        variants:
          a: {allocator: {name: jemaloc-5.1.0}}
          b: {allocator: {name: system}, optoins: {}}
        workloads:
          p: {type: append, items: many}
        blocks: none
        """
    )
    assert [p.split(":")[1] for p in problems] == ["1", "2", "3", "5", "6", "8", "9"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "spec.yaml:1: expected a mapping, got an empty file"),
        ("- a\n", "spec.yaml:1: expected a mapping, got a list"),
        ("a: [1\nb: 2\n", "spec.yaml:2: not valid YAML: while parsing a flow sequence, expected ',' or ']', but got"),
        ("a: [1\n", "sequence, expected ',' or ']', but got the end of the file"),
        ("a: 1\n\tb: 2\n", "spec.yaml:2: not valid YAML: "),
        ("a: 1\n---\nb: 2\n", "not valid YAML: expected a single document in the stream, but found another document"),
        ("a: &x [*x]\n", "not valid YAML"),
        ("a: !!python/object:os.system x\n", "spec.yaml:1: not valid YAML: could not determine a constructor"),
        ("a: !!timestamp 2001-12-01\n", "not valid YAML"),
        ("[a, b]: 1\n", "expected a string as key, got a collection"),
    ],
)  # fmt: skip
def test_text_that_is_no_spec(specs, text, message):
    assert message in "\n".join(specs.errors(text))


def test_anchors_cannot_blow_up_the_memory(specs):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "more than 100000 values" in specs.errors("\n".join(lines) + "\n")[0]


def test_bytes_that_are_no_text(specs):
    (specs.directory / "spec.yaml").write_bytes(b"name: \xff\xfe\n")
    assert "expected UTF-8 text" in specs.errors()[0]


def test_a_file_that_is_not_there(specs):
    (specs.directory / "spec.yaml").unlink()
    problem = specs.errors()[0]
    assert problem == "spec.yaml: cannot be read: no such file or directory"
    (specs.directory / "specs.yaml").touch()
    assert specs.errors()[0].endswith("no such file or directory (did you mean specs.yaml?)")


def test_names_of_a_long_list_are_those_that_are_near():
    known = [f"metric_{n}_us" for n in range(40)]
    assert expected_name("a metric", "metric_17", known).startswith(
        "expected a metric such as metric_17_us, "
    )
    assert (
        expected_name("a metric", "metric_17", known).count("metric_") == 8
    )  # six, ours, and again the nearest
    assert expected_name("a size", "L", ["S", "M"]) == "expected a size: S, M; got L"


TOOL = "{type: microbench, program: checkpoint_bench}"


def test_engine_parameters_that_no_workload_can_take_are_an_error(specs):
    small = (specs.directory / "spec.yaml").read_text()
    tool_only = small.replace("{type: pillowfight, items: 10k, duration: 5s}", TOOL)
    tool_only += "primary: [CheckpointBench/GetCursorsToDrop/1]\n"
    specs.spec(tool_only)
    with_params = tool_only.replace("{name: system}}", "{name: system}, params: {ht_size: 47}}")
    (error,) = specs.errors(with_params)
    assert (
        "workloads: expected a workload that starts an engine: variant glibc sets params" in error
    )
    specs.spec(with_params.replace("workloads:\n", "workloads:\n  p2: {type: append, items: 5}\n"))


def test_a_counter_without_a_unit_is_an_error(specs):
    tool = TOOL.replace("}", ", counters: [PeakBytesPerItm]}")
    small = (specs.directory / "spec.yaml").read_text()
    (error,) = specs.errors(small.replace("{type: pillowfight, items: 10k, duration: 5s}", tool))
    assert "workloads.pf.counters[0]: expected a counter: " in error
    assert "did you mean PeakBytesPerItem?" in error


LONG = "a" * 300


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("glibc: {", f"glibc: {{source: {{dir: {LONG}}}, ", "variants.glibc.source.dir"),
        ("glibc: {", f"glibc: {{source: {{git: main, patch: {LONG}}}, ", "variants.glibc.source.patch"),
        ("cluster: cluster.yaml", f"cluster: {LONG}", "cluster"),
        ("pf: {", f"pf: {{use: {LONG}, ", "workloads.pf.use"),
    ],
    ids=["dir", "patch", "cluster", "use"],
)  # fmt: skip
def test_a_path_that_no_file_can_have_is_an_error_of_its_field(specs, old, new, field):
    problems = specs.changed_errors(old, new)
    assert any(f": {field}: " in problem for problem in problems)
