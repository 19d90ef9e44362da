"""Ctrl-C in each phase, SIGKILL at many moments, resume: nothing is left running, at most a trial is repeated."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from tests.support.fakes import Driver, Lab, variant

pytestmark = pytest.mark.integration

SLOW = {"base": variant(sleep=0.4), "changed": variant(sleep=0.4)}


def interrupt(driver: Driver, signum: int = signal.SIGINT) -> None:
    os.kill(driver.process.pid, signum)
    assert driver.finish() == 130, driver.stderr()


def assert_complete(lab: Lab, blocks: int = 2) -> None:
    data = lab.stored()
    assert data.experiment.state == "done"
    trials = Counter((t.block, t.variant) for t in data.trials)
    assert trials == {(b, v): 1 for b in range(1, blocks + 1) for v in ("base", "changed")}
    assert {t.status for t in data.trials} == {"ok"}


@pytest.mark.parametrize(
    ("fakes", "event", "wanted"),
    [
        pytest.param({"build_sleep": 3600}, "BuildProgress", {}, marks=pytest.mark.long),
        ({"settings_check_sleep": 3600}, "BuildFinished", {"variant": "changed"}),
        pytest.param({}, "TrialPhase", {"phase": "start"}, marks=pytest.mark.long),
        pytest.param({}, "TrialPhase", {"phase": "populate"}, marks=pytest.mark.long),
        ({}, "TrialPhase", {"phase": "access"}),
        pytest.param({}, "TrialPhase", {"phase": "settle"}, marks=pytest.mark.long),
        pytest.param({}, "TrialFinished", {}, marks=pytest.mark.long),
    ],
    ids=["build", "settings_check", "start", "populate", "access", "settle", "between trials"],
)
def test_ctrl_c_in_each_phase(
    lab: Lab, fakes: dict[str, object], event: str, wanted: dict[str, object]
) -> None:
    lab.write_spec(variants=SLOW)
    driver = lab.start(fakes=fakes)
    driver.wait_for(event, **wanted)
    time.sleep(0.2)
    interrupt(driver)
    lab.assert_nothing_left()
    (messages,) = driver.of("Interrupted")
    assert messages["signal_name"] == "SIGINT"
    assert messages["resume_command"].endswith("--resume")
    data = lab.stored()
    assert data.experiment.state == "interrupted"
    finished = len(driver.of("TrialFinished"))
    assert len(data.trials) == finished
    if event == "TrialPhase":
        code, again = lab.run(resume=True)
        assert code == 0, again.stderr()
        assert len(again.of("TrialFinished")) == 4 - finished
        assert_complete(lab)


def test_ctrl_c_while_the_plan_is_announced(lab: Lab) -> None:
    lab.write_spec(variants=SLOW)
    code, driver = lab.run(fakes={"interrupt_at": "PlanReady"})
    assert code == 130, driver.stderr()
    assert len(driver.of("Interrupted")) == 1
    assert lab.stored().experiment.state == "interrupted"


def test_sigterm_is_like_ctrl_c(lab: Lab) -> None:
    lab.write_spec(variants=SLOW)
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="access")
    interrupt(driver, signal.SIGTERM)
    assert driver.of("Interrupted")[0]["signal_name"] == "SIGTERM"
    lab.assert_nothing_left()


def test_the_second_ctrl_c_does_not_wait_for_a_stubborn_engine(lab: Lab) -> None:
    slow = variant(sleep=60, stubborn=1)
    lab.write_spec(variants={"base": slow, "changed": slow})
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="populate")
    os.kill(driver.process.pid, signal.SIGINT)
    time.sleep(0.3)
    interrupt(driver)
    lab.assert_nothing_left()
    assert lab.stored().experiment.state == "interrupted"


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("start", marks=pytest.mark.long),
        pytest.param("populate", marks=pytest.mark.long),
        "access",
        pytest.param("stop", marks=pytest.mark.long),
        pytest.param("finished", marks=pytest.mark.long),
    ],
)
def test_sigkill_and_resume_repeats_at_most_the_trial_in_flight(lab: Lab, moment: str) -> None:
    lab.write_spec(variants=SLOW)
    driver = lab.start()
    driver.wait_for("TrialFinished")
    if moment == "finished":
        driver.wait_for("TrialFinished")
    else:
        driver.wait_for("TrialPhase", phase=moment)
        time.sleep(0.1)
    os.kill(driver.process.pid, signal.SIGKILL)
    assert driver.finish() == -signal.SIGKILL
    assert lab.stored().experiment.state == "interrupted"
    before = len(lab.stored().trials)
    assert before in (1, 2, 3)
    code, again = lab.run(resume=True)
    assert code == 0, again.stderr()
    assert again.of("PlanReady")[0]["trials_done"] == before
    assert len(again.of("TrialFinished")) == 4 - before
    assert_complete(lab)
    lab.assert_nothing_left()
    assert not list((lab.work / "runs").iterdir())


@pytest.mark.long
def test_killed_again_and_again_it_still_gets_done(lab: Lab) -> None:
    lab.write_spec(variants=SLOW, blocks=3)
    delays = [1.5, 2.3, 3.1, 2.7, 1.9, 3.7]
    resume = False
    for delay in delays:
        driver = lab.start(resume=resume)
        driver.wait_for("PlanReady")
        time.sleep(delay)
        os.kill(driver.process.pid, signal.SIGKILL)
        driver.finish()
        resume = True
        if len(lab.stored().trials) == 6:
            break
    code, last = lab.run(resume=True)
    assert code in (0, 2), last.stderr()  # 2: the last kill came after the end
    assert_complete(lab, blocks=3)
    lab.assert_nothing_left()


@pytest.mark.long
def test_what_cannot_be_resumed_is_reported(lab: Lab) -> None:
    lab.write_spec()
    code, driver = lab.run(resume=True)
    assert code == 2
    assert "nothing to resume: there is no experiment of spec fake" in driver.stderr()
    assert lab.run()[0] == 0
    code, driver = lab.run(resume=True)
    assert code == 2
    assert "every experiment is finished" in driver.stderr()


@pytest.mark.long
def test_another_spec_does_not_resume_and_neither_does_another_seed(lab: Lab) -> None:
    lab.write_spec(variants=SLOW)
    driver = lab.start()
    driver.wait_for("TrialFinished")
    interrupt(driver)
    lab.write_spec(variants=SLOW, blocks=3)
    code, driver = lab.run(resume=True)
    assert code == 2
    assert "in: blocks" in driver.stderr()
    lab.write_spec(variants=SLOW)
    code, driver = lab.run(resume=True, fakes={"seed": 8})
    assert code == 2
    assert "uses seed 7, not 8" in driver.stderr()
    assert lab.run(resume=True)[0] == 0
    assert_complete(lab)
