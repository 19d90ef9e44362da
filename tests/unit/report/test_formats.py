"""The formats: one model, and each says the same."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console

from perfrunner.report import build_report, render
from perfrunner.report.numbers import change, scale_of

RESULT_KEYS = {
    "workload", "bucket", "metric", "unit", "direction", "variant", "build_id", "n", "mean", "sd", "cv",
    "min", "max", "max_deviation", "ci95", "baseline", "effect", "estimate", "estimate_ci95", "p_value", "q_value",
    "margin", "primary", "verdict", "small", "checked", "reason", "more_blocks", "companion", "cpu",
}  # fmt: skip


def test_json_has_the_promised_shape(report, data):
    document = json.loads(render(report, "json"))
    assert list(document) == ["experiment", "spec", "trials", "results", "facts", "warnings"]
    assert document["experiment"] == data.experiment.id
    assert document["spec"] == data.experiment.spec_json
    assert document["trials"] == {"ok": 98, "discarded": 1, "failed": 0}
    assert {frozenset(row) for row in document["results"]} == {frozenset(RESULT_KEYS)}
    assert all(
        row["verdict"] in ("better", "worse", "same", "unsure", "not comparable", None)
        for row in document["results"]
    )


def test_json_agrees_with_the_trials(report, data):
    document = json.loads(render(report, "json"))
    (row,) = [
        r
        for r in document["results"]
        if (r["workload"], r["bucket"], r["metric"], r["variant"])
        == ("append", "ephemeral", "ops_per_s", "jemalloc-5.1.0")
    ]
    trials = {
        v: {t.block: t.metrics["ops_per_s"] for t in data.trials
            if (t.workload, t.bucket, t.variant) == ("append", "ephemeral", v)}
        for v in ("glibc", "jemalloc-5.1.0")
    }  # fmt: skip
    values = trials["jemalloc-5.1.0"]
    logs = [math.log(values[b] / trials["glibc"][b]) for b in values]
    assert row["n"] == 8
    assert row["mean"] == pytest.approx(sum(values.values()) / 8)
    assert row["estimate"] == pytest.approx(math.exp(sum(logs) / 8))
    assert row["estimate_ci95"][0] < row["estimate"] < row["estimate_ci95"][1]
    assert row["margin"] == 0.01
    assert row["primary"] is True


def test_every_format_shows_every_primary_change(report):
    texts = {fmt: render(report, fmt) for fmt in ("terminal", "markdown", "commit")}
    rows = [r for r in report.comparison.rows if r.primary and r.effect is not None]
    assert len(rows) == 16
    for row in rows:
        written = change(row.effect, row.metric, scale_of(row.metric, row.summary.mean))
        assert written in texts["terminal"]
        assert written in texts["markdown"]
        plain = written.replace("\N{MINUS SIGN}", "-").replace(" %", "%")
        assert plain in texts["commit"]


def test_the_verdict_comes_first_and_the_command_last(report):
    lines = render(report, "terminal").splitlines()
    assert lines[0] == "quickstart"
    assert lines[1].startswith("  jemalloc-5.1.0 against glibc (8 blocks): 1.2 to 1.9 % faster")
    assert lines[-1] == f"Reproduce: {report.reproduce}"
    assert (
        report.reproduce == "perfrunner run specs/experiments/quickstart.yaml --seed 41 --repeats 8"
    )


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("verbose", [False, True])
def test_the_terminal_report_fits_its_width(report, width, verbose):
    console = Console(width=width, file=io.StringIO())
    text = render(report, "terminal", console=console, every=verbose, verbose=verbose)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    words = "".join(text.split())
    for row in (r for r in report.comparison.rows if r.primary and r.effect is not None):
        scale = scale_of(row.metric, row.summary.mean)
        if width >= 60:  # in narrower ones the folded columns of a line are mixed
            assert "".join(change(row.effect, row.metric, scale).split()) in words


def test_on_eighty_columns_the_primary_metrics_are_one_small_table(report):
    text = render(report, "terminal", console=Console(width=80, file=io.StringIO()))
    lines = text.splitlines()
    table = [line for line in lines if line.startswith(("pillowfight ·", "append ·"))]
    assert len(table) == 2 * 4  # metrics, cases: both variants next to each other
    assert len(lines) < 50
    assert "vsz_bytes" not in text
    assert "--verbose: " in text


def test_the_terminal_report_has_colour_only_on_a_terminal(report, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = render(report, "terminal", console=Console(width=120, file=io.StringIO()))
    assert "\x1b" not in plain
    terminal = Console(width=120, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    coloured = render(report, "terminal", console=terminal)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == plain.split()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render(
        report, "terminal", console=Console(file=io.StringIO(), force_terminal=True)
    )
    silent = Console(width=120, file=io.StringIO(), force_terminal=True, no_color=True)
    assert "\x1b" not in render(report, "terminal", console=silent)


def test_all_shows_what_the_short_table_leaves_out(report):
    assert "vsz_bytes" not in render(report, "terminal", verbose=True)
    assert "metrics without a clear change are hidden" in render(report, "terminal", verbose=True)
    assert "vsz_bytes" in render(report, "terminal", every=True)
    assert "vsz\\_bytes" not in render(report, "markdown").split("<details>")[0]


def test_the_commit_text_is_plain_and_narrow(report):
    text = render(report, "commit")
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 72
    for build in report.builds:
        assert f"build {build.build_id[:12]}  {build.variant}" in text
    assert re.search(r"glibc +8 +1,829,203 +1\.9%", text)
    assert "Reproduce:\n  perfrunner run specs/experiments/quickstart.yaml --seed 41" in text


def test_markdown_tables_are_well_formed(report):
    table = [
        line for line in render(report, "markdown", every=True).splitlines() if line.startswith("|")
    ]
    assert table
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in table]
    assert columns[: 2 + 2 * 4] == [5] * 10  # the small one: metric, baseline, two variants
    assert set(columns[10:]) == {10}
    assert "jemalloc-5.1.0,metadata\\_thp=always" in render(report, "markdown")


def test_discarded_notes_and_environment_are_reported(report):
    text = " ".join(render(report, "terminal", verbose=True).split())
    assert (
        "block 3, pillowfight · persistent, jemalloc-5.1.0,metadata_thp=always: discarded: the load client"
        in text
    )
    assert "the rate drifts by +14%" in text
    assert "AMD EPYC 7B13, 2 CPUs, 8.3 GB, Linux 6.1.0-28-amd64, THP madvise" in text
    assert "Other metrics that changed" in text
    assert "fragmentation_mapped" in text


def test_the_summary_names_the_environment_for_which_its_verdicts_hold(make):
    data = make()
    for facts in data.experiment.facts["hosts"].values():
        facts["load_average"] = 0.4
    text = " ".join(render(build_report(data), "terminal").split())
    assert "AMD EPYC 7B13, 2 CPUs" in text
    assert re.search(r"load average before the run: \w+ 0\.4", text)


def test_few_blocks_give_numbers_and_say_why(make):
    report = build_report(make(blocks=4, discarded_block=None))
    assert report.headline[0] == "No verdict: 4 blocks, and a verdict needs 6."
    document = json.loads(render(report, "json"))
    assert {row["verdict"] for row in document["results"]} == {None}
    assert all(
        row["q_value"] is not None for row in document["results"] if row["estimate"] is not None
    )
    for fmt in ("terminal", "markdown", "commit"):
        assert "No verdict: 4 blocks" in render(report, fmt)


def test_one_block_is_reported_without_intervals(make):
    report = build_report(make(blocks=1, discarded_block=None))
    assert re.search(r"seed \d+, 1 block, 0 trials", render(report, "commit"))
    for fmt in ("terminal", "markdown", "commit", "json"):
        text = render(report, fmt)
        assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)


def test_an_experiment_without_trials_still_reports(make):
    report = build_report(make(blocks=0))
    assert report.headline == ("Nothing can be compared: no block holds two variants of any case.",)
    for fmt in ("terminal", "markdown", "commit", "json"):
        assert render(report, fmt)
    for verbose in (False, True):
        text = render(report, "terminal", verbose=verbose)
        assert "higher is better" not in text, "a legend without a table"
        assert not re.search(r"^metric\b", text, re.MULTILINE), "a table without a row"


def test_states_preconditions_and_host_changes_become_warnings(make):
    data = make(
        blocks=2,
        discarded_block=None,
        facts={
            "preconditions": {"thp_madvise": False, "two_cores": None},
            "changes": ["a: kernel changed"],
            "tools_builds": ["aaaa", "bbbb"],
        },
    )
    text = "\n".join(build_report(data).warnings)
    assert (
        "precondition thp_madvise does not hold: it requires that transparent huge pages are in mode `madvise`"
        in text
    )
    assert "precondition two_cores could not be checked" in text
    assert "the hosts changed while the experiment was interrupted: a: kernel changed" in text
    assert "the load tools were rebuilt while the experiment was interrupted: aaaa, bbbb" in text


def test_huge_metadata_pages_are_reported_next_to_the_numbers_and_warned_of_when_too_few(make):

    data = make(blocks=2, discarded_block=None)
    spec_json = {**data.experiment.spec_json, "preconditions": ["metadata_visible"]}
    experiment = replace(data.experiment, spec_json=spec_json)

    def report_with(pages):
        trials = [
            replace(
                t, metrics={**t.metrics, "metadata_thp_pages": pages, "rss_bytes": 100 * 2 * 2**20}
            )
            for t in data.trials
        ]
        return build_report(replace(data, experiment=experiment, trials=tuple(trials)))

    few, many = report_with(2.0), report_with(9.0)
    (line, *_) = [w for w in few.warnings if "metadata_visible" in w]
    assert "2.0 % of RSS" in line
    assert line.endswith("at least 4 % are needed")
    assert not [w for w in many.warnings if "metadata_visible" in w]
    (fact,) = [f for f in many.context if f.label == "huge metadata pages"]
    assert "9.0 % of RSS" in fact.value


@pytest.mark.parametrize(
    ("bare", "output"),
    [
        (3.66e6, "pillowfight · persistent ops_per_s +100.0 % [+"),
        (1.8301e6, "none visible: ops_per_s without samplers 0 ± "),
    ],
)
def test_what_sampling_costs_is_reported(make, bare, output):
    facts = {
        "sampling_check": [
            {
                "workload": "pillowfight", "bucket": "persistent", "variant": "glibc",
                "status": "ok", "reason": "", "sampled": {"ops_per_s": 1.83e6}, "bare": {"ops_per_s": bare},
            },
            {
                "workload": "pillowfight", "bucket": "ephemeral", "variant": "glibc",
                "status": "failed", "reason": "no luck", "sampled": {}, "bare": {},
            },
        ]
    }  # fmt: skip
    report = build_report(make(blocks=6, discarded_block=None, facts=facts))
    (fact,) = [f for f in report.context if f.label == "sampling costs"]
    assert fact.value.startswith(output)
    assert "the cost of sampling is unknown for pillowfight · ephemeral: no luck" in report.warnings


def test_provenance_that_differs_between_variants_is_reported(make):

    data = make(blocks=2, discarded_block=None)
    builds = [
        replace(b, provenance={**b.provenance, "built_at": str(i), "compiler": "clang 14"})
        if i == 1
        else replace(b, provenance={**b.provenance, "built_at": str(i)})
        for i, b in enumerate(data.builds)
    ]
    report = build_report(replace(data, builds=tuple(builds)))
    assert report.differing == (
        "builds differ in compiler: g++ 12.2.0 (glibc, jemalloc-5.1.0,metadata_thp=always); "
        "clang 14 (jemalloc-5.1.0)",
    )
    assert build_report(data).differing == ()


def test_what_may_differ_between_builds_is_a_list_of_names(make):
    """Not of parts of names: that hid checksums and libraries. One flag that differs is reported without all others."""

    data = make(blocks=2, discarded_block=None)
    common = {"linked": {"librocksdb.a": {"sha256": "aa"}}, "libraries": ["libz.so.1"], "cargo": None,
              "compiler": {"version": "g++ 12", "path": "/usr/bin/g++", "flags": ["-O2", "-g1", "-Wall"]}}  # fmt: skip
    other = {"linked": {"librocksdb.a": {"sha256": "b" * 64}}, "libraries": ["libz.so.1", "libzstd.so.1"],
             "cargo": "cargo 1.95", "recipe": "r2", "options": {"ht_stats": "llc"}, "seconds": {"build": 9},
             "compiler": {"version": "g++ 12", "path": "/opt/g++",
                          "flags": ["-O2", "-DX", "-DKV_ALLOCATOR_NAME=a", "-g1", "-Wall"]}}  # fmt: skip
    first, second, third = (b.variant for b in data.builds)
    variants = {first: common, second: other, third: {**common, "cargo": "cargo 1.94"}}
    builds = tuple(replace(b, provenance=variants[b.variant]) for b in data.builds)
    assert build_report(replace(data, builds=builds)).differing == (
        f"builds differ in linked.librocksdb.a.sha256: aa ({first}, {third}); {12 * 'b'} ({second})",
        f"builds differ in libraries: none ({first}, {third}); libzstd.so.1 ({second})",
        f"builds differ in cargo: cargo 1.95 ({second}); cargo 1.94 ({third})",
        f"builds differ in compiler.flags: none ({first}, {third}); -DX ({second})",
    )


def test_the_command_that_was_given_is_the_one_to_reproduce_with(make):
    given = ["perfrunner", "run", "spec.yaml", "--set", "a.b=c d", "--resume"]
    report = build_report(make(blocks=2, discarded_block=None, facts={"command": given}))
    assert report.reproduce == "perfrunner run spec.yaml --set 'a.b=c d' --seed 41 --repeats 2"


def test_long_names_and_huge_factors_stay_within_72_columns(make):

    name = "CheckpointBench/GetCursorsToDrop/" + "manifold-" * 4 + "10000"
    data = make(blocks=6, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    trials = tuple(
        replace(t, metrics={name: t.metrics["ops_per_s"] * (1e-7 if "5.1" in t.variant else 1)})
        for t in data.trials
    )
    spec = {**data.experiment.spec_json, "primary": [name]}
    data = replace(data, trials=trials, experiment=replace(data.experiment, spec_json=spec))
    text = render(build_report(data), "commit")
    assert max(len(line) for line in text.splitlines()) <= 72
    assert text.isascii()
    assert len(re.findall(r"\bbetter$", text, re.MULTILINE)) == 2
    assert "1/9," in text or "1/10," in text


def test_a_case_without_a_single_trial_says_so(make):

    data = make(blocks=1, discarded_block=None, workloads=("append",))
    trials = tuple(
        replace(t, status="failed", reason="crash", metrics={}) if t.bucket == "persistent" else t
        for t in data.trials
    )
    report = build_report(replace(data, trials=trials))
    assert "append · persistent: no trial that counts" in render(report, "terminal")
    assert "append · ephemeral · 1 block\n" in render(report, "terminal", verbose=True)
    assert "No valid trial." in render(report, "markdown")
    assert all(max(map(len, line.split("\n"))) <= 72 for line in [render(report, "commit")])


def test_the_build_of_another_server_is_named_whole(make):
    """Its first characters are only the name of its program."""

    data = make(blocks=1, discarded_block=None)
    ids = {"build_id": "valkey-server-06a0e30b575b8b2c", "provenance": {"server": {}}}
    report = build_report(replace(data, builds=tuple(replace(b, **ids) for b in data.builds)))
    lines = {fact.label: fact.value for fact in report.context}
    assert lines["variant glibc (baseline)"].endswith("; build valkey-server-06a0e30b575b8b2c")
    assert "build valkey-server-06a0e30b575b8b2c" in render(report, "commit")


def test_every_format_says_what_each_variant_is(make):

    data = make(blocks=1, discarded_block=None)
    variant = {"name": "glibc", "allocator": {"name": "system"}, "options": {"ht_stats": "core"},
           "params": {"ht_size": "47"}, "env": {"MALLOC_ARENA_MAX": "1"}}  # fmt: skip
    other = {
        "allocator": {
            "name": "jemalloc-5.1.0",
            "preset": "historic",
            "options": {"metadata_thp": "always"},
        }
    }
    spec = {**data.experiment.spec_json, "engine": {"params": {"ht_size": "3", "x": "1"}}}
    spec["variants"] = {**spec["variants"], "glibc": variant, "jemalloc-5.1.0": other}
    builds = tuple(
        replace(b, provenance={"build_host": "maker"} if b.variant != "glibc" else b.provenance)
        for b in data.builds
    )
    experiment = replace(data.experiment, spec_json=spec)
    report = build_report(replace(data, experiment=experiment, builds=builds))
    lines = {fact.label: fact.value for fact in report.context}
    build = report.builds[0].build_id[:12]
    assert lines["variant glibc (baseline)"] == (
        f"system; ht_stats=core; param ht_size=47, x=1; env MALLOC_ARENA_MAX=1; build {build}"
    )
    assert lines["variant jemalloc-5.1.0"].startswith(
        "jemalloc-5.1.0 preset historic metadata_thp:always; param"
    )
    assert lines["variant jemalloc-5.1.0"].endswith(", built on maker")
    for fmt in ("terminal", "markdown", "commit"):
        assert "metadata_thp:always" in render(report, fmt, verbose=True).replace("\\", "")
