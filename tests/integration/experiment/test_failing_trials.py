"""Trials that fail or are discarded: what is stored of them, and what is repeated."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from tests.support.fakes import Lab, variant
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.mark.long
def test_a_load_client_that_dies_fails_its_group_which_is_redone(lab: Lab) -> None:
    lab.write_spec(blocks=1, variants={"base": variant(sleep=1), "changed": variant(sleep=1)})
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="access")
    clients: list[int] = []
    while not clients:
        assert driver.process.poll() is None, driver.stderr()
        results = (line.split(" ", 1) for line in lab.processes())
        clients = [
            int(pid) for pid, command in results if "--variant=" in command and "-S" in command
        ]
    for pid in clients:
        os.kill(pid, signal.SIGKILL)
    assert driver.finish() == 3
    trials = lab.stored().trials
    assert [t.status for t in trials if t.attempt == 1] == ["failed", "failed"]
    assert "pillowfight on here failed (killed by SIGKILL)" in trials[0].reason
    assert [t.status for t in trials if t.attempt == 2] == ["ok", "ok"]
    lab.assert_nothing_left()


def test_an_engine_that_is_killed_fails_its_trial_with_its_logs_and_the_rest_goes_on(
    lab: Lab,
) -> None:
    lab.write_spec(
        variants={
            "base": variant(),
            "changed": variant(die_in="access", once=lab.directory / "died", sleep=0.5),
        },
    )
    code, _ = lab.run()
    assert code == 3
    data = lab.stored()
    (failed,) = [t for t in data.trials if t.status == "failed"]
    assert failed.variant == "changed"
    assert "died during access (killed by SIGKILL)" in failed.reason
    assert "fake engine dies in access" in failed.reason
    assert failed.metrics == {}
    logs = {path.name for path in (lab.out / failed.raw_dir).iterdir()}
    assert {"engine.log", "reproduce.sh"} <= logs
    (beside,) = [t for t in data.trials if t.status == "discarded"]
    assert beside.variant == "base"
    assert beside.reason.startswith("changed, in the same group, failed: ")
    # its case is done again as a whole: both variants, next attempt
    assert [(t.block, t.variant) for t in data.trials if t.attempt == 2] == [
        (failed.block, v) for v in [t.variant for t in data.trials if t.attempt == 2]
    ]
    assert {t.variant for t in data.trials if t.attempt == 2} == {"base", "changed"}
    assert sum(t.status == "ok" for t in data.trials) == 4
    lab.assert_nothing_left()


def test_a_work_directory_that_is_removed_ends_the_run_and_leaves_no_engine(lab: Lab) -> None:
    """Programs that clean temporary directories do that."""
    lab.write_spec(variants={"base": variant(sleep=1), "changed": variant(sleep=1)}, blocks=1)
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="access")

    def is_removed() -> bool:
        shutil.rmtree(lab.work, ignore_errors=True)  # the run still writes to it
        return not lab.work.exists()

    until(is_removed, "the work directory is removed")
    assert driver.finish() == 3
    assert f"the work directory {lab.work} was removed" in driver.stderr()
    lab.assert_nothing_left()
    code, again = lab.run(resume=True)
    assert code == 0, again.stderr()


@pytest.mark.long  # the healthy variants start in that time on a busy machine as well
def test_a_variant_that_is_never_ready_costs_its_group_which_is_redone(lab: Lab) -> None:
    stuck = variant(never_ready=1, once=lab.directory / "stuck")
    lab.write_spec(blocks=1, variants={"base": variant(), "changed": stuck})
    code, _ = lab.run(fakes={"start_timeout": 15})
    assert code == 3
    first = {t.variant: t for t in lab.stored().trials if t.attempt == 1}
    assert first["changed"].status == "failed"
    assert first["changed"].reason.startswith("the engine on here was not ready within 15 s: ")
    assert "fake engine warms up for ever" in first["changed"].reason
    assert first["base"].status == "discarded"
    again = [t for t in lab.stored().trials if t.attempt == 2]
    assert {(t.variant, t.status) for t in again} == {("base", "ok"), ("changed", "ok")}
    lab.assert_nothing_left()


@pytest.mark.long
def test_a_variant_that_always_crashes_does_not_cost_the_others_theirs(lab: Lab) -> None:
    lab.write_spec(blocks=3, variants={"base": variant(), "changed": variant(die_in="start")})
    code, _ = lab.run()
    assert code == 3
    data = lab.stored()
    good = [t for t in data.trials if t.status == "ok"]
    assert {t.variant for t in good} == {"base"}
    assert sorted(t.block for t in good) == [1, 2, 3]
    failed = [t for t in data.trials if t.variant == "changed"]
    assert {t.status for t in failed} == {"failed"}
    assert "died while it started" in failed[0].reason
    assert "excluded from the group" in failed[-1].reason
    lab.assert_nothing_left()


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ({"misses": 3}, "3 GETs of stored items missed (limits.misses: 0)"),
        pytest.param(
            {"errors": 2},
            "2 operations failed (limits.errors: 0): etmpfail 2",
            marks=pytest.mark.long,
        ),
        pytest.param({"lie": 5000}, "the server", marks=pytest.mark.long),
    ],
)
def test_a_discarded_trial_makes_its_whole_case_be_redone(
    lab: Lab, behaviour: dict[str, float], says: str
) -> None:
    lab.write_spec(
        blocks=1,
        limits={"max_discarded": 1},
        variants={"base": variant(), "changed": variant(**behaviour, once=lab.directory / "once")},
    )
    code, driver = lab.run()
    data = lab.stored()
    discarded = [t for t in data.trials if t.status == "discarded"]
    assert all(says in t.reason for t in discarded)
    assert discarded[0].metrics  # kept, though they do not count
    (event, *_) = driver.of("BlockDiscarded")
    assert event["redo"] is True
    again = [(t.variant, t.status) for t in data.trials if t.attempt == 2]
    if "lie" in behaviour:  # it lies every time: the limit ends it
        assert code == 3
        assert len(discarded) == 2
    else:
        assert code == 0
        assert len(discarded) == 1
        assert sorted(again) == [("base", "ok"), ("changed", "ok")]


@pytest.mark.long
def test_a_saturated_client_makes_no_trial_discarded_for_that_would_look_at_the_variant(
    lab: Lab,
) -> None:
    lab.write_spec(
        blocks=1,
        limits={"max_discarded": 1},
        variants={"base": variant(), "changed": variant(busy=0.99)},
    )
    code, _ = lab.run()
    assert code == 0
    trials = lab.stored().trials
    assert {t.status for t in trials} == {"ok"}
    assert {t.facts["client_busy"] for t in trials if t.variant == "changed"} == {0.99}


@pytest.mark.long
@pytest.mark.parametrize(
    ("behaviour", "says"),
    [({"exit": 7}, "did not stop cleanly (exit 7)"), ({"no_mapped": 1}, "")],
)
def test_an_unclean_stop_is_a_failure_and_a_missing_figure_is_none(
    lab: Lab, behaviour: dict[str, int], says: str
) -> None:
    lab.write_spec(
        blocks=1,
        limits={"max_discarded": 0},
        variants={"base": variant(), "changed": variant(**behaviour)},
    )
    code, _ = lab.run()
    (trial,) = [t for t in lab.stored().trials if t.variant == "changed"]
    if says:
        assert (code, trial.status) == (3, "failed")
        assert says in trial.reason
    else:
        assert (code, trial.status) == (0, "ok")
        assert "fragmentation_mapped" not in trial.metrics
        assert "fragmentation_rss" in trial.metrics


def test_a_trial_that_takes_too_long_is_ended(lab: Lab) -> None:
    lab.write_spec(
        blocks=1,
        limits={"trial_timeout": 20, "max_discarded": 0},
        variants={"base": variant(), "changed": variant(sleep=3600)},
    )
    code, _ = lab.run()
    assert code == 3
    slow = next(t for t in lab.stored().trials if t.status == "failed")
    assert "timed out in phase populate" in slow.reason
    lab.assert_nothing_left()
