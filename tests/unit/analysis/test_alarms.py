"""Alarms of a project of five specs, simulated night by night: how many are false, and how soon a loss is reported."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from perfrunner.analysis.history import history
from perfrunner.analysis.nights import Night, NightRow, suspects
from perfrunner.analysis.series import changes
from perfrunner.domain import Case
from perfrunner.results import ExperimentRecord
from perfrunner.spec.metrics import metric_type

START = datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
SPEC = {"baseline": "a", "variants": {"a": {"x": 1}, "b": {"x": 2}}, "workloads": {"pf": {}}}
METRIC = metric_type("ops_per_s")
CASES = (Case("pf", "persistent"), Case("pf", "ephemeral"))
NOISE = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3),
}


def played(columns, cases=CASES, first=0, metric=METRIC):
    """A run a night of a baseline and a variant; columns: (nights, variants * cases) in standard deviations of
    0.5 %."""
    matches = []
    for night, values in enumerate(columns, first):
        rows = []
        for place, case in enumerate(cases):
            own = values[2 * place : 2 * place + 2]
            raw, effect = np.exp(0.005 * own).tolist() if metric is METRIC else own.tolist()
            rows.append(NightRow(case, "a", metric, "build", 1e6 * raw, None, 10))
            rows.append(NightRow(case, "b", metric, "build", 1e6, effect, 10))
        matches.append(
            Night(
                ExperimentRecord(
                    f"e{night}", "s", SPEC, "", "s.yaml", 1, START + timedelta(days=night), "0"
                ),
                tuple(rows),
            )
        )
    return matches


def worse(nights, metrics=1):
    alarms = history(nights, "ops_per_s", metrics=metrics).alarms
    return [alarm for alarm in alarms if alarm.verdict == "worse"]


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISE)
def test_five_specs_alarm_falsely_at_most_once_a_year(rng, noise):
    """Reported once, whenever it became known: the alarms of all nights are those of the last (test_history.py)."""
    quiet, year, years = 30, 365, 10  # 0.7 a year in forty; fewer years show more by chance
    false = sum(
        alarm.known_run >= quiet
        for _ in range(5 * years)
        for alarm in worse(played(NOISE[noise](rng, (quiet + year, 4))))
    )
    assert false / years <= 1.0


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(("metrics", "least"), [(1, 0.9), (2, 0.86)])
def test_a_loss_of_two_standard_deviations_is_reported_within_five_nights(
    rng, noise, metrics, least
):
    """In both cases of a variant, after two months. (After one: nine of ten. In a single case: below.)"""
    messages, runs, before = 0, 50, 60
    for _ in range(runs):
        columns = NOISE[noise](rng, (before + 5, 4))
        columns[before:, [1, 3]] -= 2
        messages += any(
            a.variant == "b" and a.known_run >= before for a in worse(played(columns), metrics)
        )
    assert messages >= least * runs


def test_what_leans_to_better_or_was_reported_is_no_suspect(rng):
    columns = NOISE["normal"](rng, (60, 2))
    columns[55:, 1] += 3
    assert suspects([history(played(columns, CASES[:1]), "ops_per_s")]) == []
    columns[55:, 1] -= 5.5
    (item, *_) = suspects([history(played(columns[:57], CASES[:1]), "ops_per_s")])
    assert str(item).startswith("ops_per_s of b against a on pf · persistent leans to worse (p = ")
    columns[55:, 1] -= 10
    assert suspects([history(played(columns, CASES[:1]), "ops_per_s")]) == []


def test_a_loss_in_all_cases_is_reported_once(rng):
    columns = NOISE["normal"](rng, (90, 4))
    columns[60:, [1, 3]] -= 6
    (alarm,) = worse(played(columns))
    assert alarm.variant == "b"
    assert 58 <= alarm.first_run <= 62


def test_a_loss_in_one_case_is_reported_of_that_case(rng):
    columns = NOISE["normal"](rng, (90, 4))
    columns[60:, 3] -= 8
    alarms = worse(played(columns))
    assert len(alarms) == 1
    assert CASES[1] in alarms[0].cases


def test_a_case_that_was_added_later_is_a_series_of_its_own(rng):
    columns = NOISE["normal"](rng, (40, 4))
    nights = played(columns[:20, :2], CASES[:1]) + played(columns[20:], first=20)
    matches = history(nights, "ops_per_s")
    assert {(s.case, len(s.runs)) for s in matches.series} == {(CASES[0], 40), (CASES[1], 20)}


PF, AP = 1, 3  # columns of the variant


def messages(rng, *changes, cases=CASES, nights=60):
    """Variant, cases and first run of each loss that was reported; changes: (column, night, by, in sd)."""
    columns = NOISE["normal"](rng, (nights, 2 * len(cases)))
    for column, night, by in changes:
        columns[night:, column] += by
    return [alarm.first_run for alarm in worse(played(columns, cases)) if alarm.variant == "b"]


def about(runs, *expected):
    return len(runs) == len(expected) and all(
        abs(run - night) <= 1 for run, night in zip(runs, expected, strict=True)
    )


@pytest.mark.parametrize("later", [33, 34, 36, 39])
def test_a_loss_in_another_case_is_reported_next_to_an_earlier_one(rng, later):
    assert about(messages(rng, (PF, 30, -10), (AP, later, -70)), 30, later)


@pytest.mark.parametrize("later", [34, 36, 39, 45])
def test_a_second_loss_of_the_same_case_is_reported(rng, later):
    """Also of one that has not been at its new level for long."""
    changes = [(PF, 30, -10), (PF, later, -60)]
    assert about(messages(rng, *changes, cases=CASES[:1]), 30, later)
    assert about(messages(rng, *changes), 30, later)


def test_what_was_lost_mended_and_lost_for_good_is_reported_twice(rng):
    changes = [(PF, 30, -10), (PF, 33, 10), (PF, 37, -10)]
    assert about(messages(rng, *changes, cases=CASES[:1]), 30, 37)


def test_a_case_that_is_younger_is_reported_next_to_an_older_one(rng):
    """Nights are compared, not places in series of different length."""
    columns = NOISE["normal"](rng, (90, 4))
    columns[70:, PF] -= 10
    columns[74:, AP] -= 70
    nights = played(columns[:40, :2], CASES[:1]) + played(columns[40:], first=40)
    matches = [alarm.first for alarm in worse(nights) if alarm.variant == "b"]
    assert matches == ["e70", "e74"]


LOOK = 1e-4  # probability of a false finding in a night, about that of a spec with one case


@pytest.mark.parametrize("rate", [0.02, 0.03, 0.05])
def test_rare_events_are_no_change_of_level(rng, rate):
    """Such as errors of 10 trials: most nights have none, and three nights in a row with one are chance."""
    years, year = 10, 365
    false = 0
    for _ in range(years):
        base, other = rng.poisson(10 * rate, (2, year)) / 10
        false += len(changes((other - base).tolist(), LOOK))
    assert false <= 0.6 * years


def test_events_that_come_every_night_are_a_change_on_the_third():
    """Also after an odd night."""
    values = [0.0] * 30
    values[20] = 0.2
    (change,) = changes([*values, 0.1, 0.1, 0.1], LOOK)
    assert (change.first, change.known, change.rose) == (30, 32, True)


@pytest.mark.filterwarnings("error")
def test_counts_that_were_zero_overflow_nowhere():
    """A warning on stderr would be mailed by cron."""
    (change,) = changes([0.0] * 30 + [50.0] * 5, LOOK)
    assert change.first == 30
    columns = np.zeros((40, 4))
    columns[30:, [1, 3]] = 500.0
    (alarm,) = history(played(columns, metric=metric_type("errors")), "errors").alarms
    assert (alarm.first_run, alarm.verdict, alarm.cases) == (30, "worse", CASES)
