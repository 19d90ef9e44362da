"""Resume arithmetic (plan minus store), and what a void or a failed trial makes be redone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.run.events import TrialStatus
from perfrunner.run.plan.order import PlannedTrial
from perfrunner.run.plan.schedule import Cell, Schedule, Task

VARIANTS = ("a", "b", "c")
CELLS = (("pf", "persistent"), ("app", "ephemeral"))

Verdict = Callable[[Task], TrialStatus]


def plan(blocks: int, first: int = 1) -> list[PlannedTrial]:
    return [
        PlannedTrial(block, position, workload, bucket, variant)
        for block in range(first, first + blocks)
        for position, (workload, bucket, variant) in enumerate(
            ((w, b, v) for w, b in CELLS for v in VARIANTS), 1
        )
    ]


def reversed_order(cell: Cell, attempt: int) -> list[str]:
    return sorted(VARIANTS, reverse=bool(attempt % 2 == 0))


def make(blocks: int = 2, max_voids: int = 10) -> Schedule:
    return Schedule(plan(blocks), max_voids=max_voids, redo_order=reversed_order)


def drive(schedule: Schedule, verdict: Verdict, limit: int = 500) -> list[tuple[Task, TrialStatus]]:
    done: list[tuple[Task, TrialStatus]] = []
    while (task := schedule.next()) is not None:
        status = verdict(task)
        schedule.record(task, status)
        done.append((task, status))
        assert len(done) < limit
    return done


def ok(task: Task) -> TrialStatus:
    return "ok"


def breaks_once(block: int, workload: str, variant: str, status: TrialStatus) -> Verdict:
    def verdict(task: Task) -> TrialStatus:
        hit = (task.block, task.workload, task.variant, task.attempt) == (
            block,
            workload,
            variant,
            1,
        )
        return status if hit else "ok"

    return verdict


def short(tasks: Iterable[tuple[Task, TrialStatus]]) -> list[str]:
    return [f"{t.block}{t.workload}{t.variant}{t.attempt}" for t, _ in tasks]


def test_without_trouble_it_is_the_plan_in_its_order() -> None:
    done = drive(make(), ok)
    assert [(t.block, t.position, t.workload, t.bucket, t.variant) for t, _ in done] == [
        (p.block, p.position, p.workload, p.bucket, p.variant) for p in plan(2)
    ]


@given(st.integers(0, 11))
def test_a_resumed_schedule_does_what_the_killed_one_would_have_done(killed_after: int) -> None:
    whole = drive(make(), ok)
    resumed = make()
    for task, status in whole[:killed_after]:
        resumed.record(task, status)
    assert drive(resumed, ok) == whole[killed_after:]


@given(
    st.integers(0, 40), st.lists(st.sampled_from(["ok", "ok", "ok", "void", "failed"]), min_size=40)
)
def test_killed_and_resumed_at_any_moment_with_any_luck(
    killed_after: int, luck: list[TrialStatus]
) -> None:
    def unlucky(task: Task) -> TrialStatus:
        key = f"{task.block}{task.workload}{task.variant}{task.attempt}"
        return luck[sum(map(ord, key)) * 7 % len(luck)]

    whole = drive(make(max_voids=3), unlucky)
    resumed = make(max_voids=3)
    for task, status in whole[:killed_after]:
        resumed.record(task, status)
    assert drive(resumed, unlucky) == whole[killed_after:]


def test_a_void_ends_the_cell_in_its_block_and_redoes_all_arms_at_the_end() -> None:
    schedule = make()
    done = drive(schedule, breaks_once(1, "pf", "b", "void"))
    assert short(done) == [
        "1pfa1", "1pfb1",  # c of this cell is left out
        "1appa1", "1appb1", "1appc1",
        "2pfa1", "2pfb1", "2pfc1", "2appa1", "2appb1", "2appc1",
        "1pfc2", "1pfb2", "1pfa2",  # every arm again, in a fresh order
    ]  # fmt: skip
    assert schedule.incomplete_cells() == []
    assert schedule.redone == 1


def test_a_crash_does_not_keep_the_other_arms_from_running_first() -> None:
    done = drive(make(), breaks_once(1, "pf", "b", "failed"))
    assert short(done)[:3] == ["1pfa1", "1pfb1", "1pfc1"]
    assert short(done)[-3:] == ["1pfc2", "1pfb2", "1pfa2"]


def test_an_arm_that_never_succeeds_is_not_waited_for() -> None:
    schedule = make()
    done = drive(schedule, lambda task: "failed" if task.variant == "b" else "ok")
    assert len(done) == 12  # nothing is redone
    assert schedule.incomplete_cells() == []  # the other arms count


def test_the_only_trial_of_an_arm_gets_a_second_chance_but_not_a_third() -> None:
    unlucky = drive(make(1), breaks_once(1, "pf", "b", "failed"))
    assert short(unlucky)[6:] == ["1pfc2", "1pfb2", "1pfa2"]
    broken = drive(make(1), lambda task: "failed" if task.variant == "b" else "ok")
    assert {task.attempt for task, _ in broken} == {1, 2}


def test_an_arm_that_could_not_be_built_makes_nothing_be_redone() -> None:
    schedule = make()
    schedule.exclude("b")
    assert len(drive(schedule, lambda task: "failed" if task.variant == "b" else "ok")) == 12


def test_one_arm_is_never_run_again_alone() -> None:
    done = drive(make(), breaks_once(2, "app", "c", "void"))
    again = [task.variant for task, _ in done if task.attempt == 2]
    assert sorted(again) == list(VARIANTS)


@pytest.mark.parametrize("max_voids", [0, 1, 3])
def test_voids_are_redone_up_to_the_limit_and_no_further(max_voids: int) -> None:
    schedule = make(max_voids=max_voids)
    done = drive(
        schedule, lambda task: "void" if task.variant == "a" and task.workload == "pf" else "ok"
    )
    assert schedule.redone == max_voids
    assert {task.attempt for task, _ in done} <= set(range(1, max_voids + 2))
    assert schedule.incomplete_cells() == [Cell(1, "pf", "persistent"), Cell(2, "pf", "persistent")]


def test_when_nothing_can_be_redone_the_rest_of_a_void_cell_is_measured_all_the_same() -> None:
    done = drive(make(max_voids=0), breaks_once(1, "pf", "a", "void"))
    assert len(done) == 12


def test_left_counts_down_to_nothing_and_knows_of_redos() -> None:
    schedule = make()
    assert len(schedule.left()) == 12
    first = schedule.next()
    assert first is not None
    schedule.record(first, "void")
    assert len(schedule.left()) == 9 + 3  # two arms are left out, three are done again
    drive(schedule, ok)
    assert schedule.left() == []


def test_a_precision_rule_may_add_and_cut_blocks() -> None:
    schedule = make(1)
    schedule.extend(plan(1, first=2))
    assert len(schedule.left()) == 12
    schedule.truncate(1)
    assert {task.block for task, _ in drive(schedule, ok)} == {1}


def test_partly_run_cells_begin_again_when_the_host_changed() -> None:
    schedule = make(1)
    for _ in range(4):  # all of pf, one arm of app
        task = schedule.next()
        assert task is not None
        schedule.record(task, "ok")
    assert schedule.begin_partial_cells_again() == [Cell(1, "app", "ephemeral")]
    assert short(drive(schedule, ok)) == ["1appc2", "1appb2", "1appa2"]


def test_a_block_is_complete_when_its_cells_are_dealt_with() -> None:
    schedule = make(1)
    while (task := schedule.next()) is not None:
        assert not schedule.block_complete(1)
        schedule.record(task, "ok")
    assert schedule.block_complete(1)
