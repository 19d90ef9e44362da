"""From kept comparisons to figures, on data whose truth is known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from perfrunner.errors import StoreError
from tests.support.fakes import ROOT
from tools.evidence import figures, kept
from tools.evidence.kept import Comparison, Kept

HOST = {"cpu_model": "a CPU", "cpus": 2, "memory_bytes": 8e9, "kernel": "6.1"}


def comparison(values, name="e-001", bucket="ephemeral", **facts):
    """`values`: variant -> metric -> a value a block."""
    plain = {
        variant: {metric: [float(v) for v in series] for metric, series in of_it.items()}
        for variant, of_it in values.items()
    }
    return Comparison(name, "pillowfight", bucket, plain, ("ops_per_s",), facts)


def noisy(rng, level, blocks=10, sd=0.005):
    return level * np.exp(rng.normal(0, sd, blocks))


def test_alarms_are_intervals_that_leave_out_no_change(rng):
    same = [1.0, 1.01, 0.99, 1.0, 1.005, 0.995]
    quiet = comparison({"a": {"ops_per_s": [1.0] * 6}, "b": {"ops_per_s": same}})
    loud = comparison({"a": {"ops_per_s": [1.0] * 6}, "b": {"ops_per_s": np.array(same) * 1.1}})
    (matches,) = figures.alarms([quiet, loud, quiet], ["ops_per_s", "rss_bytes"])
    assert (matches.alarms.hits, matches.alarms.of) == (1, 3)
    logs = np.log(same)
    half = stats.t.isf(0.025, 5) * logs.std(ddof=1) / np.sqrt(6)
    assert matches.half_width(0.5) == pytest.approx(np.expm1(half))
    assert matches.sds[0] == pytest.approx(logs.std(ddof=1))


def test_the_share_has_the_exact_binomial_interval():
    low, high = figures.Count(5, 100).interval
    assert low == pytest.approx(stats.beta.ppf(0.025, 5, 96))
    assert high == pytest.approx(stats.beta.ppf(0.975, 6, 95))


def test_a_report_counts_once_however_many_of_its_rows_differ():
    values = {"a": {"ops_per_s": [1.0]}, "b": {"ops_per_s": [1.0]}}
    two = {"rows": 8, "differ": ["b ops_per_s", "c ops_per_s", "c rss_bytes"]}
    runs = [
        comparison(values, "e-1", report=two),
        comparison(values, "e-1", bucket="persistent", report=two),
        comparison(values, "e-2", report={"rows": 9, "differ": []}),
        comparison(values, "e-3"),  # kept before its report was
    ]
    matches = figures.reports(runs)
    assert (matches.false.hits, matches.false.of, matches.rows) == (1, 2, 9)
    assert matches.claims == {"ops_per_s": 1, "rss_bytes": 1}
    assert figures.reports(runs[3:]) is None


@pytest.mark.parametrize("fault", ["burst", "background"])
def test_the_slope_is_that_of_what_the_server_counted(rng, fault):
    """The total finds all of it, the server's own clock charges it twice, and the time a tenth of it."""
    values = {}
    for name, dose in (("none", 0), ("x-10", 0.01), ("x-40", 0.04), ("x-80", 0.08)):
        luck = noisy(rng, 0.6, 20, 0.001)
        time = 1.0 + 0.1 * dose
        values[name] = {
            "own_cpu_us_per_op": luck, "foreign_cpu_us_per_op": np.zeros(20),
            "client_cpu_us_per_op": np.full(20, 0.3), "waiting_us_per_op": time - luck - 0.3,
            "server_cpu_us_per_op": luck + 2 * dose, "total_cpu_us_per_op": luck + dose,
            "injected_us_per_op": np.full(20, dose if fault == "burst" else 6 * dose),
            "injected_ms_per_s": np.full(20, 1000 * dose / time if fault == "background" else 1.0),
        }  # fmt: skip
    matches = figures.dose_response(comparison(values, fault=fault))
    assert matches.slopes["total_cpu_us_per_op"].estimate == pytest.approx(1, abs=0.02)
    assert matches.slopes["server_cpu_us_per_op"].estimate == pytest.approx(2, abs=0.02)
    assert matches.slopes["time"].estimate == pytest.approx(0.1, abs=1e-6)
    low, high = matches.slopes["total_cpu_us_per_op"].ci95
    assert low < matches.slopes["total_cpu_us_per_op"].estimate < high
    assert (matches.blocks, matches.right_signs.hits, matches.right_signs.of) == (20, 3, 3)
    assert matches.counted == pytest.approx(0.08 / 1.008)


def injected_run(rng, name, change=0.98):
    return comparison(
        {
            "none": {"ops_per_s": noisy(rng, 1e6)},
            "share1": {"ops_per_s": noisy(rng, 1e6)},
            "share2": {"ops_per_s": noisy(rng, 1e6 * change)},
        },
        name,
    )


def test_a_injected_change_is_counted_where_the_verdict_is_worse(rng):
    runs = [injected_run(rng, f"p-{n}") for n in range(8)]
    nothing, share2 = figures.injected(runs, ("share1", "share2"), ["ops_per_s"], {})
    assert (share2.fault, share2.worse.hits) == ("share2", 8)
    assert nothing.worse.hits <= 1
    assert share2.mean == pytest.approx(0.98, abs=0.002)
    assert share2.repeats.hits >= 6, "of what the others say together"
    assert share2.covers is None, "nothing was said of the construction"


def test_of_one_experiment_alone_the_truth_is_not_known(rng):
    (matches,) = figures.injected([injected_run(rng, "p")], ["share2"], ["ops_per_s"], {})
    assert matches.repeats.hits == 0
    assert (matches.constructed, matches.covers) == (None, None)


def test_a_change_of_known_size_needs_no_other_experiments(rng):
    runs = [injected_run(rng, "p")]
    for true, held in ((0.98, 1), (0.9, 0)):
        (matches,) = figures.injected(
            runs, ["share2"], ["ops_per_s"], {("share2", "ops_per_s"): true}
        )
        assert matches.covers is not None
        assert (matches.constructed, matches.covers.hits) == (true, held)


def test_rare_slices_stand_out_where_totals_and_robust_differ(rng):
    base = noisy(rng, 1e6)
    other = noisy(rng, 1e6)
    single = comparison(
        {
            "none": {"ops_per_s": base, "ops_per_s_total": base * noisy(rng, 1, sd=0.0005)},
            "stall": {
                "ops_per_s": other,
                "ops_per_s_total": other * 0.995 * noisy(rng, 1, sd=0.0005),
            },
        }
    )
    effect = figures.totals_against_robust(single, "stall")
    assert "slow slices" in figures.named_rare(single, "stall")
    assert effect.ci95[1] < 1
    assert effect.estimate == pytest.approx(0.995, abs=0.0005)
    assert (
        figures.totals_against_robust(
            comparison({"a": {"ops_per_s": base}, "b": {"ops_per_s": base}}), "b"
        )
        is None
    )


def test_experiments_of_the_same_variants_make_one_long_run(rng):
    runs = [injected_run(rng, f"p-{n}") for n in range(3)]
    (long,) = figures.together(runs)
    assert long.blocks == 30
    assert long.values["share2"]["ops_per_s"] == [
        value for run in runs for value in run.values["share2"]["ops_per_s"]
    ]


def test_schedules_are_compared_for_each_case_and_variant():
    beside, alone = (
        comparison({"glibc": {"rss_bytes": [1, 2]}, "je": {"rss_bytes": [3, 4]}}, f"m-{s}", schedule=s)
        for s in ("interleaved", "sequential")
    )  # fmt: skip
    lonely = comparison({"glibc": {"rss_bytes": [9]}}, "m", "persistent", schedule="sequential")
    matches = figures.schedules([beside, alone, lonely])
    assert [variant for _, variant in matches] == ["glibc", "je"]
    of_it = {"rss_bytes": [3, 4]}
    assert matches[1][0].values == {"sequential": of_it, "interleaved": of_it}
    assert matches[1][0].baseline == "sequential"


def test_what_is_kept_is_read_again_as_it_was(tmp_path, rng):
    first = injected_run(rng, "p-2")
    assert kept.read(tmp_path, "injected") == Kept("injected")
    whole = Kept("injected").having([first], HOST).having([injected_run(rng, "p-1")], HOST)
    path = kept.write(tmp_path, whole)
    again = kept.read(tmp_path, "injected")
    assert [single.experiment for single in again.comparisons] == ["p-1", "p-2"]
    assert (again.comparisons[1], again.hosts) == (first, (HOST,))
    replaced = again.having([injected_run(rng, "p-1")], {**HOST, "cpus": 4})
    assert (len(replaced.comparisons), len(replaced.hosts)) == (2, 2)
    path.write_text(json.dumps({"schema": 99, "study": "injected"}))
    with pytest.raises(StoreError, match="holds no kept results: schema 99"):
        kept.read(tmp_path, "injected")


def test_the_tools_own_comparison_reads_what_is_kept(rng):
    single = injected_run(rng, "p")
    rows = figures.verdicts(single)
    assert rows["share2", "ops_per_s"].verdict == "worse"
    assert rows["share2", "ops_per_s"].effect.n == 10
    assert rows["share2", "ops_per_s"].primary
    effect = figures.effect(single, "ops_per_s", "share2")
    assert rows["share2", "ops_per_s"].effect.estimate == pytest.approx(effect.estimate)
    assert figures.effect(single, "rss_bytes", "share2") is None
    assert figures.named_rare(single, "share2") is None
    fine = comparison(single.values, margins={"ops_per_s": "0.5%"})
    assert figures.verdicts(fine)["share2", "ops_per_s"].effect.margin == 0.005


@pytest.mark.parametrize(
    ("value", "kept_as"), [(12345678.0, 12345678.0), (0.123456789, 0.1234568), (2.5, 2.5)]
)
def test_whole_numbers_are_kept_whole(value, kept_as):
    assert kept.rounded(value) == kept_as


def test_reports_name_the_injected_stall_and_nothing_else():
    """On the kept experiments: the stall in at least 15 of 20, the two slowdowns in at most 1 of 20 each."""
    matches = kept.read(ROOT / "docs" / "statistics", "injected").comparisons
    runs = [single for single in matches if "stall" in single.values]
    named = {
        variant: sum(figures.named_rare(single, variant) is not None for single in runs)
        for variant in ("share1", "share2", "stall")
    }
    assert len(runs) == 20
    assert named["stall"] >= 15
    assert max(named["share1"], named["share2"]) <= 1
