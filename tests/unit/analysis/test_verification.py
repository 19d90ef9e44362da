"""Which two commits a suspicion compares, and how often verified nights are wrong (simulated, seeded)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from perfrunner.analysis.compare import compare
from perfrunner.analysis.history import history
from perfrunner.analysis.nights import BACK, BLOCKS, Night, NightRow, confirms_loss, suspicions
from perfrunner.domain import Case
from perfrunner.results import ExperimentRecord
from perfrunner.spec.metrics import metric_type

START = datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
EVER = datetime.min.replace(tzinfo=timezone.utc)
SPEC = {"baseline": "a", "variants": {"a": {"x": 1}, "b": {"x": 2}}, "workloads": {"pf": {}}}
METRIC = metric_type("ops_per_s")
CASE = Case("pf", "persistent")
NIGHT_SD = 0.005  # of a night's effect, with the luck of its processes
BLOCK_SD = 0.006  # of a block of a comparison


def night(number: int, raw: float, effect: float, mark: str = "") -> Night:
    commit = f"{number:012x}"
    record = {"name": "b", "sha256": "", "directory": "", "interface": 1, "revision": True,
              "commit": commit, "dirty": ["engine.cc"] if mark else []}  # fmt: skip
    facts = {"sources": {"variants": {"a": {**record, "name": "a"}, "b": record}}}
    rows = (
        NightRow(CASE, "a", METRIC, "build", 1e6 * float(np.exp(raw)), None, 10),
        NightRow(CASE, "b", METRIC, "build", 1e6, float(np.exp(effect)), 10),
    )
    at = START + timedelta(days=number)
    return Night(
        ExperimentRecord(f"e{number}", "s", SPEC, "", "s.yaml", 1, at, "0", facts, "done"), rows
    )


def nights(values: np.ndarray, **more: str) -> list[Night]:
    """A night for each row: the baseline's raw value and the variant's effect, in standard deviations of nights."""
    return [
        night(n, NIGHT_SD * raw, NIGHT_SD * effect, **more)
        for n, (raw, effect) in enumerate(values)
    ]


def suspected(played: list[Night]):
    """Suspicions about the variant."""
    matches = suspicions([history(played, "ops_per_s")], played[-2].created_at)
    return [single for single in matches if single.key[1] == "b"]


def lost(rng: np.random.Generator, before: int, after: int, by: float) -> np.ndarray:
    values = rng.normal(0, 1, (before + after, 2))
    values[before:, 1] -= by
    return values


def test_a_suspicion_compares_tonight_with_a_commit_before_the_loss(rng):
    played = nights(lost(rng, 40, 2, 5.0))
    (single,) = suspected(played)
    assert single.key == ("ops_per_s", "b", "pf", "persistent")
    assert (single.good, single.bad) == (f"{41 - BACK:012x}", f"{41:012x}")


def test_a_new_level_for_the_worse_is_compared_with_a_commit_well_before_it(rng):
    """A small loss is often followed to begin later than it did."""
    played = nights(lost(rng, 40, 3, 9.0))
    (single,) = suspected(played)
    assert 39 - BACK <= int(single.good, 16) < 39
    assert single.bad == f"{42:012x}"


def test_the_good_commit_of_a_new_level_is_hardly_ever_one_that_has_the_loss(rng):
    goods = []
    for _ in range(40):
        values = lost(rng, 60, 15, 2.0)
        played = nights(values)
        followed = history(played, "ops_per_s")
        if not any(alarm.variant == "b" and alarm.verdict == "worse" for alarm in followed.alarms):
            continue
        (single,) = [it for it in suspicions([followed], EVER) if it.key[1] == "b"][:1]
        goods.append(int(single.good, 16))
    assert len(goods) >= 30
    assert sum(good >= 60 for good in goods) <= 1


def test_a_good_commit_is_of_the_level_before(rng):
    """A gain five nights before the loss: an older commit would hide both."""
    values = rng.normal(0, 0.1, (60, 2))
    values[40:, 1] += 9.0
    values[55:, 1] -= 9.0
    (single,) = suspected(nights(values[:58]))
    assert 40 <= int(single.good, 16) < 55


def test_without_two_clean_commits_there_is_nothing_to_compare(rng):
    values = lost(rng, 40, 2, 5.0)
    assert suspected(nights(values, mark="-dirty")) == []
    same = [
        replace(n, record=replace(n.record, facts=nights(values)[0].record.facts))
        for n in nights(values)
    ]
    assert suspected(same) == []


def verified(rng: np.random.Generator, data_of, change: float) -> bool:
    """Whether a comparison of two builds that differ by `change` confirms a loss."""
    luck = rng.normal(0, BLOCK_SD / np.sqrt(2), (2, BLOCKS))
    values = {"good": np.exp(luck[0]).tolist(), "bad": np.exp(luck[1] + change).tolist()}
    (row,) = [row for row in compare(data_of(values)).rows if row.effect is not None]
    return confirms_loss(row)


def test_a_comparison_confirms_a_loss_and_no_gain(rng, data_of):
    assert verified(rng, data_of, -0.01)
    assert not verified(rng, data_of, 0.01)
    assert not verified(rng, data_of, 0.0)


def test_a_comparison_that_cannot_tell_decides_nothing(data_of):
    """Such as that of a saturated client; otherwise it would withdraw an alarm."""
    (_, row) = compare(data_of({"good": [1.0] * 6, "bad": [0.0] * 6})).rows
    assert row.verdict == "not comparable"
    assert confirms_loss(row) is None


@pytest.mark.long
def test_a_loss_of_two_standard_deviations_is_confirmed_within_five_nights(rng, data_of):
    matches, runs, before = 0, 60, 60
    for _ in range(runs):
        values = lost(rng, before, 5, 2.0)
        for last in range(before + 1, before + 6):
            if suspected(nights(values[:last])) and verified(rng, data_of, -2 * NIGHT_SD):
                matches += 1
                break
    assert matches >= 0.93 * runs


@pytest.mark.long
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_verified_nights_alarm_falsely_less_than_once_in_ten_years(rng, data_of, correlation):
    """Whatever nights have in common: the nights that are compared, times the rate of a comparison that is wrong."""
    quiet, year = 30, 365
    values = np.empty((quiet + year, 2))
    values[0] = rng.normal(0, 1, 2)
    for row in range(1, len(values)):
        noise = rng.normal(0, np.sqrt(1 - correlation**2), 2)
        values[row] = correlation * values[row - 1] + noise
    played = nights(values)
    compared = sum(bool(suspected(played[:last])) for last in range(quiet, len(played)))
    wrong = sum(verified(rng, data_of, 0.0) for _ in range(2000)) / 2000
    assert wrong <= 0.002 + 2 * np.sqrt(0.002 / 2000)
    assert compared * 0.002 <= 0.1
    assert compared >= 2
