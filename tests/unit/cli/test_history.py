"""`history` over a store of played nights."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from perfrunner.results import ExperimentRecord, ResultStore, TrialRecord

TOLD = 3  # nights after which a lost gain of seven standard deviations is known
START = datetime(2026, 10, 1, 2, 0, tzinfo=timezone.utc)
SPEC = {
    "name": "small",
    "baseline": "glibc",
    "variants": {"glibc": {"allocator": "system"}, "je": {"allocator": "jemalloc"}},
    "workloads": {"pf": {"items": 10}},
    "buckets": ["persistent"],
    "primary": ["ops_per_s"],
}


@pytest.fixture
def nights(cli):
    """nights(gains): one finished run a night, je faster by its gain."""

    def store(expected_gains):
        rng = np.random.default_rng(7)
        with ResultStore.open(cli.directory / "perfrunner-results") as opened:
            for night, expected_gain in enumerate(expected_gains):
                at = START + timedelta(days=night)
                name = f"small-{at:%Y%m%d}"
                build = "new" if expected_gain == 0 else "old"
                opened.create_experiment(
                    ExperimentRecord(name, "small", SPEC, "", "s.yaml", 1, at, "0", state="done")
                )
                trials = []
                for block in range(1, 7):
                    for position, variant in enumerate(SPEC["variants"], 1):
                        rate = 1e6 * float(np.exp(rng.normal(0, 0.004)))
                        if variant == "je":
                            rate *= 1 + expected_gain
                        trials.append(TrialRecord(
                            block, 1, position, "pf", "persistent", variant, build, "ok", "", at, at,
                            {"ops_per_s": rate}, {}, "raw",
                        ))  # fmt: skip
                opened.add_trials(name, trials)

    return store


def test_a_lost_expected_gain_is_reported_with_run_and_build(cli, nights):
    nights([0.03] * 12 + [0.0] * TOLD)
    result = cli("history")
    assert (
        "ops_per_s ↑  pf · persistent: je against glibc, 15 runs, 2026-10-01 to 2026-10-15"
        in result.stdout
    )
    assert "✘ worse" in result.stdout
    assert "since small-20261013, build old → new" in result.stdout
    assert (
        "worse: ops_per_s of je against glibc on pf · persistent since small-20261013"
        in result.stderr
    )
    cli("history", "--fail-on", "worse", code=1)


def test_an_old_change_is_no_alarm(cli, nights):
    nights([0.03] * 12 + [0.0] * 12)
    result = cli("history", "--fail-on", "worse")
    assert "✘ worse" in result.stdout
    assert result.stderr == ""


def test_since_and_json(cli, nights):
    nights([0.03] * 12 + [0.0] * 4)
    document = cli.json("history", "ops_per_s", "--since", "2026-10-10")
    (series,) = [s for s in document["series"] if s["variant"] == "je"]
    assert len(series["runs"]) == 7
    assert (series["effect"], series["direction"]) == ("ratio", "higher")
    assert document["metric"] == "ops_per_s"


def test_a_metric_that_was_not_measured(cli, nights):
    nights([0.0] * 3)
    assert "no run has rss_bytes" in cli("history", "rss_bytes").stdout
    assert "ops_per_s" in cli("history", "op_per_s", code=2).stderr
    assert "no experiment 'other'" in cli("history", "--spec", "other", code=2).stderr


def test_levels_of_large_factors_are_distinguished(cli, nights):
    """As percentages a gain of 36,200 times and one of 200 are same minus 100 %."""
    nights([1 / 36_200 - 1] * 12 + [1 / 200 - 1] * TOLD)
    text = cli("history").stdout
    levels = [line for line in text.splitlines() if "runs from" in line]
    assert levels[0].strip().startswith("÷36,")
    assert levels[1].strip().startswith("÷200 ") or levels[1].strip().startswith("÷199 ")


def test_a_level_has_the_digits_of_its_runs_intervals(cli, nights):
    """Half-widths of some tenths of a percent: one place after the point."""
    nights([0.03] * 6)
    (level,) = [line for line in cli("history").stdout.splitlines() if "runs from" in line][:1]
    assert re.match(r"\s+\+[23]\.\d %  ", level)


def test_a_run_whose_baseline_failed_has_no_series(cli):
    """The baseline was not built, for example: the other variants have nothing to be compared with."""
    with ResultStore.open(cli.directory / "perfrunner-results") as opened:
        opened.create_experiment(
            ExperimentRecord("small-1", "small", SPEC, "", "s.yaml", 1, START, "0", state="done")
        )
        for block in range(1, 7):
            opened.add_trial("small-1", TrialRecord(
                block, 1, 1, "pf", "persistent", "je", "b", "ok", "", START, START, {"ops_per_s": 1e6}, {}, "raw",
            ))  # fmt: skip
    assert cli("history").stdout == "no run has ops_per_s\n"
    assert cli.json("history")["series"] == []
