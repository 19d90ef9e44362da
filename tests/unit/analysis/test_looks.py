"""What looking more than once costs, simulated with the functions that reports use (seeded)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfrunner.analysis.compare import compare
from perfrunner.analysis.looks import Look, anytime_level
from perfrunner.analysis.model import ALPHA
from tools.evidence.looks import User, follow, live_alarms, precise_cases

UNWATCHED = User(watches=False)


def test_a_user_who_follows_the_advice_seldom_alarms(rng):
    """Was 10.4 % at this spread, before later looks had a level of their own."""
    outcome = follow(rng, 0.0, 0.02, 300)
    assert outcome.alarms <= 0.055 + 2 * np.sqrt(0.055 * 0.945 / 300)
    assert outcome.alarms >= 0.02
    assert outcome.same >= 0.7


@pytest.mark.long
@pytest.mark.parametrize("sd", [0.01, 0.015, 0.02])
def test_at_most_five_and_a_half_per_cent_of_users_alarm(rng, sd):
    users = 4000
    outcome = follow(rng, 0.0, sd, users)
    assert outcome.alarms <= 0.055 + 2 * np.sqrt(0.055 * 0.945 / users)


def test_advice_is_followed_to_a_verdict(rng):
    """A change of two margins is found, one of half a margin mostly is not called same too early."""
    assert follow(rng, 0.02, 0.02, 60, UNWATCHED).alarms >= 0.95
    assert follow(rng, 0.01, 0.01, 60, UNWATCHED).alarms >= 0.8


def test_a_first_look_costs_nothing(sim, rng):
    row = compare(sim(rng)).rows[1]
    assert row.effect is not None
    assert row.effect.level == ALPHA
    assert Look().adjust(row.effect) is row.effect


def looked_at(sim, rng, state="done", facts=None, **spec):
    data = sim(rng, blocks=12, **spec)
    record = replace(data.experiment, state=state, facts=facts or {})
    report = compare(replace(data, experiment=record))
    (row,) = [row for row in report.rows if row.effect is not None]
    return report, row.effect


def width(effect):
    return np.log(effect.ci95[1] / effect.ci95[0])


def test_each_later_look_is_wider_and_says_so(sim):
    twice = {"extended": [{"from": 8, "to": 10}, {"from": 10, "to": 12}]}
    looks = {
        "planned": looked_at(sim, np.random.default_rng(1)),
        "precise": looked_at(sim, np.random.default_rng(1), precision=0.01),
        "once": looked_at(sim, np.random.default_rng(1), facts={"extended": twice["extended"][:1]}),
        "twice": looked_at(sim, np.random.default_rng(1), facts=twice),
        "running": looked_at(sim, np.random.default_rng(1), state="running"),
        "stopped": looked_at(sim, np.random.default_rng(1), state="interrupted"),
        "failed": looked_at(sim, np.random.default_rng(1), state="failed"),  # may be resumed
    }
    widths = {name: width(effect) for name, (_, effect) in looks.items()}
    assert widths["planned"] < widths["precise"] < widths["once"] < widths["twice"]
    assert widths["once"] < widths["running"] == widths["stopped"] == widths["failed"]
    output = {name: " ".join(report.warnings) for name, (report, _) in looks.items()}
    assert "extended" not in output["planned"]
    assert "extended once" in output["once"]
    assert "extended 2 times" in output["twice"]
    assert all("hold at any moment" in output[name] for name in ("running", "stopped"))
    assert "`precision` ended the run" in output["precise"]


def test_an_extension_that_added_no_block_is_no_look(sim):
    """`precision` had ended every case, so the report is the same as before."""
    before, effect = looked_at(sim, np.random.default_rng(1), precision=0.01)
    nothing = {"extended": [{"from": 12, "to": 20}]}
    after, same = looked_at(sim, np.random.default_rng(1), facts=nothing, precision=0.01)
    assert same == effect
    assert after.warnings == before.warnings


def test_the_anytime_interval_needs_six_blocks():
    assert [anytime_level(n) > 0 for n in (1, 2, 5, 6, 100)] == [False] * 3 + [True] * 2
    assert anytime_level(10_000) < anytime_level(40) < 0.01


def test_no_moment_of_an_unfinished_run_alarms_more_than_two_in_a_hundred(rng):
    users = 3000
    values = rng.normal(0, 0.01, (users, 150))
    alarmed = live_alarms(values, np.ones(users, int), np.full(users, 150), User()).mean()
    assert 0.002 <= alarmed <= 0.02 + 2 * np.sqrt(0.02 * 0.98 / users)


@pytest.mark.long
def test_precision_covers_the_truth_where_it_ends_a_case(rng):
    """By the rule and the level of the report: of cases that it mostly ends, and of those that it ends in a mixture."""
    wanted, hits, ended = 0.006, [], []
    for sd in (0.008, 0.01, 0.014, 0.018):
        covered, stopped = precise_cases(rng, sd, wanted, 2500)
        hits.append(covered[stopped].mean())
        ended.append(stopped.mean())
    assert min(hits[:3]) >= 0.945
    assert np.average(hits, weights=ended) >= 0.945
