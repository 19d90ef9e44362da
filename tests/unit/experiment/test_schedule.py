"""Resume arithmetic (plan minus store), and what a discarded or a failed trial makes be redone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.domain import BlockCase, Case, Member, TrialKey, TrialStatus
from perfrunner.experiment.schedule import Schedule, Unit

VARIANTS = ("a", "b", "c")
CASES = (("pf", "persistent"), ("app", "ephemeral"))

Verdict = Callable[[TrialKey], TrialStatus]


def plan(blocks: int, first: int = 1) -> list[TrialKey]:
    return [
        TrialKey(block, 1, position, workload, bucket, variant)
        for block in range(first, first + blocks)
        for position, (workload, bucket, variant) in enumerate(
            ((w, b, v) for w, b in CASES for v in VARIANTS), 1
        )
    ]


def reversed_order(case: BlockCase, attempt: int) -> list[Member]:
    return [(v, 0) for v in sorted(VARIANTS, reverse=bool(attempt % 2 == 0))]


def make(blocks: int = 2, max_discarded: int = 10) -> Schedule:
    return Schedule(plan(blocks), max_discarded=max_discarded, redo_order=reversed_order)


def drive(
    schedule: Schedule, verdict: Verdict, limit: int = 500
) -> list[tuple[TrialKey, TrialStatus]]:
    done: list[tuple[TrialKey, TrialStatus]] = []
    while (unit := schedule.next()) is not None:
        (task,) = unit.tasks
        assert not unit.left_out
        status = verdict(task)
        schedule.record(task, status)
        done.append((task, status))
        assert len(done) < limit
    return done


def ok(task: TrialKey) -> TrialStatus:
    return "ok"


def breaks_once(block: int, workload: str, variant: str, status: TrialStatus) -> Verdict:
    def verdict(task: TrialKey) -> TrialStatus:
        hit = (task.block, task.workload, task.variant, task.attempt) == (
            block,
            workload,
            variant,
            1,
        )
        return status if hit else "ok"

    return verdict


def short(tasks: Iterable[tuple[TrialKey, TrialStatus]]) -> list[str]:
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
    st.integers(0, 40),
    st.lists(st.sampled_from(["ok", "ok", "ok", "discarded", "failed"]), min_size=40),
)
def test_killed_and_resumed_at_any_moment_with_any_luck(
    killed_after: int, luck: list[TrialStatus]
) -> None:
    def unlucky(task: TrialKey) -> TrialStatus:
        key = f"{task.block}{task.workload}{task.variant}{task.attempt}"
        return luck[sum(map(ord, key)) * 7 % len(luck)]

    whole = drive(make(max_discarded=3), unlucky)
    resumed = make(max_discarded=3)
    for task, status in whole[:killed_after]:
        resumed.record(task, status)
    assert drive(resumed, unlucky) == whole[killed_after:]


def test_a_discarded_ends_the_case_in_its_block_and_redoes_all_variants_at_the_end() -> None:
    schedule = make()
    done = drive(schedule, breaks_once(1, "pf", "b", "discarded"))
    assert short(done) == [
        "1pfa1", "1pfb1",  # c of this case is left out
        "1appa1", "1appb1", "1appc1",
        "2pfa1", "2pfb1", "2pfc1", "2appa1", "2appb1", "2appc1",
        "1pfc2", "1pfb2", "1pfa2",  # every variant again, in a fresh order
    ]  # fmt: skip
    assert schedule.incomplete_cases() == []
    assert schedule.redone == 1


def test_a_crash_does_not_keep_the_other_variants_from_running_first() -> None:
    done = drive(make(), breaks_once(1, "pf", "b", "failed"))
    assert short(done)[:3] == ["1pfa1", "1pfb1", "1pfc1"]
    assert short(done)[-3:] == ["1pfc2", "1pfb2", "1pfa2"]


def test_a_variant_that_never_succeeds_is_not_waited_for() -> None:
    schedule = make()
    done = drive(schedule, lambda task: "failed" if task.variant == "b" else "ok")
    assert len(done) == 12  # nothing is redone
    assert schedule.incomplete_cases() == []  # the other variants count


def test_the_only_trial_of_a_variant_gets_a_second_chance_but_not_a_third() -> None:
    unlucky = drive(make(1), breaks_once(1, "pf", "b", "failed"))
    assert short(unlucky)[6:] == ["1pfc2", "1pfb2", "1pfa2"]
    broken = drive(make(1), lambda task: "failed" if task.variant == "b" else "ok")
    assert {task.attempt for task, _ in broken} == {1, 2}


def test_a_variant_that_could_not_be_built_makes_nothing_be_redone() -> None:
    schedule = make()
    schedule.exclude("b")
    assert len(drive(schedule, lambda task: "failed" if task.variant == "b" else "ok")) == 12


def test_one_variant_is_never_run_again_alone() -> None:
    done = drive(make(), breaks_once(2, "app", "c", "discarded"))
    again = [task.variant for task, _ in done if task.attempt == 2]
    assert sorted(again) == list(VARIANTS)


@pytest.mark.parametrize("max_discarded", [0, 1, 3])
def test_discarded_are_redone_up_to_the_limit_and_no_further(max_discarded: int) -> None:
    schedule = make(max_discarded=max_discarded)
    done = drive(schedule, lambda task: "discarded" if task.workload == "pf" else "ok")
    assert schedule.redone == max_discarded
    assert {task.attempt for task, _ in done} <= set(range(1, max_discarded + 2))
    assert schedule.incomplete_cases() == [
        BlockCase(1, "pf", "persistent"),
        BlockCase(2, "pf", "persistent"),
    ]


def test_when_nothing_can_be_redone_the_rest_of_a_discarded_case_is_measured_all_the_same() -> None:
    done = drive(make(max_discarded=0), breaks_once(1, "pf", "a", "discarded"))
    assert len(done) == 12


def test_left_counts_down_to_nothing_and_knows_of_redos() -> None:
    schedule = make()
    assert len(schedule.left()) == 12
    first = schedule.next()
    assert first is not None
    schedule.record(first.tasks[0], "discarded")
    assert len(schedule.left()) == 9 + 3  # two variants are left out, three are done again
    drive(schedule, ok)
    assert schedule.left() == []


def test_a_precision_rule_may_add_and_cut_blocks_of_one_case() -> None:
    schedule = make(1)
    schedule.extend(plan(1, first=2))
    assert len(schedule.left()) == 12
    schedule.close(Case("app", "ephemeral"), 1)
    ran = {(task.workload, task.block) for task, _ in drive(schedule, ok)}
    assert ran == {("app", 1), ("pf", 1), ("pf", 2)}
    assert schedule.incomplete_cases() == []


def test_partly_run_cases_begin_again_when_the_host_changed() -> None:
    schedule = make(1)
    for _ in range(4):  # all of pf, one variant of app
        unit = schedule.next()
        assert unit is not None
        schedule.record(unit.tasks[0], "ok")
    assert schedule.restart_partial_cases() == [BlockCase(1, "app", "ephemeral")]
    assert short(drive(schedule, ok)) == ["1appc2", "1appb2", "1appa2"]


def test_a_block_is_complete_when_its_cases_are_dealt_with() -> None:
    schedule = make(1)
    while (unit := schedule.next()) is not None:
        assert not schedule.block_complete(1)
        schedule.record(unit.tasks[0], "ok")
    assert schedule.block_complete(1)


# -- side by side


def groups(blocks: int, groups: tuple[tuple[str, ...], ...]) -> Schedule:
    """One case a block; `groups` are the groups of a case."""
    variants = [(v, n) for n, members in enumerate(groups, 1) for v in members]
    trials = [
        TrialKey(block, 1, position, "pf", "persistent", variant, group=group)
        for block in range(1, blocks + 1)
        for position, (variant, group) in enumerate(variants, 1)
    ]
    return Schedule(trials, max_discarded=10, redo_order=lambda _case, _attempt: variants[::-1])


def drive_units(
    schedule: Schedule, verdict: Callable[[Unit], dict[str, TrialStatus]], limit: int = 50
) -> list[tuple[int, int, str, str]]:
    """(block, attempt, variants that ran, variants left out) of each unit."""
    done = []
    while (unit := schedule.next()) is not None:
        ended = verdict(unit)
        for task in unit.tasks:
            schedule.record(task, ended.get(task.variant, "ok"))
        for task in unit.left_out:
            schedule.record(task, "failed")
        first = (*unit.tasks, *unit.left_out)[0]
        ran, out = ("".join(t.variant for t in tasks) for tasks in (unit.tasks, unit.left_out))
        done.append((first.block, first.attempt, ran, out))
        assert len(done) < limit
    return done


def crash(*variants: str) -> Callable[[Unit], dict[str, TrialStatus]]:
    """Whoever is in a group with one of them loses its trial."""

    def verdict(unit: Unit) -> dict[str, TrialStatus]:
        present = {t.variant for t in unit.tasks}
        if not present & set(variants):
            return {}
        return {v: "failed" if v in variants else "discarded" for v in present}

    return verdict


def test_a_group_is_one_unit() -> None:
    assert drive_units(groups(2, (("a", "b", "c"),)), crash()) == [
        (1, 1, "abc", ""),
        (2, 1, "abc", ""),
    ]


def test_groups_follow_each_other_and_each_holds_the_baseline() -> None:
    assert drive_units(groups(1, (("a", "b"), ("a", "c"))), crash()) == [
        (1, 1, "ab", ""),
        (1, 1, "ac", ""),
    ]


def test_one_crash_has_the_group_redone_whole_in_a_fresh_order() -> None:
    schedule = groups(2, (("a", "b", "c"),))

    def first_time(unit: Unit) -> dict[str, TrialStatus]:
        at_first = unit.tasks[0].block == unit.tasks[0].attempt == 1
        return crash("b")(unit) if at_first else {}

    assert drive_units(schedule, first_time) == [
        (1, 1, "abc", ""),
        (2, 1, "abc", ""),
        (1, 2, "cba", ""),
    ]
    assert schedule.incomplete_cases() == []


def test_a_variant_that_always_dies_is_left_out_and_the_others_are_measured() -> None:
    schedule = groups(3, (("a", "b", "c"),))
    assert drive_units(schedule, crash("b")) == [
        (1, 1, "abc", ""),
        (2, 1, "abc", ""),
        (3, 1, "ac", "b"),
        (1, 2, "ca", "b"),
        (2, 2, "ca", "b"),
    ]
    assert schedule.incomplete_cases() == []


def test_a_variant_whose_trials_alone_are_always_discarded_is_left_out() -> None:
    schedule = groups(4, (("a", "b", "c"),))
    assert drive_units(schedule, lambda _: {"b": "discarded"}) == [
        (1, 1, "abc", ""),
        (2, 1, "abc", ""),
        (3, 1, "ac", "b"),
        (4, 1, "ac", "b"),
    ]
    assert schedule.incomplete_cases() == []
    assert [(case.block, variant) for case, variant in schedule.given_up()] == [(1, "b"), (2, "b")]


def test_a_variant_that_was_measured_once_is_redone_when_it_is_discarded() -> None:
    schedule = groups(4, (("a", "b"),))
    done = drive_units(
        schedule,
        lambda unit: (
            {"b": "discarded"} if unit.tasks[0].attempt == 1 and unit.tasks[0].block > 1 else {}
        ),
    )
    assert [(block, attempt) for block, attempt, *_ in done] == [
        *((block, 1) for block in (1, 2, 3, 4)),
        *((block, 2) for block in (2, 3, 4)),
    ]
    assert schedule.given_up() == []


def test_when_all_die_all_are_tried_again_and_nothing_is_redone_for_ever() -> None:
    done = drive_units(groups(3, (("a", "b"),)), crash("a", "b"))
    assert [(block, ran) for block, _, ran, _ in done][:3] == [(1, "ab"), (2, "ab"), (3, "ab")]


def test_a_resumed_run_repeats_a_group_that_is_not_stored() -> None:
    schedule = groups(2, (("a", "b"),))
    for variant in "ab":
        schedule.record(TrialKey(1, 1, 1, "pf", "persistent", variant, group=1), "ok")
    assert drive_units(schedule, crash()) == [(2, 1, "ab", "")]


def test_a_run_that_had_ended_goes_on_with_a_budget_of_its_own() -> None:
    def always_fails(task: TrialKey) -> TrialStatus:
        return "failed" if task.variant == "b" else "ok"

    schedule = make(max_discarded=1)
    drive(schedule, always_fails)
    assert schedule.next() is None
    schedule.renew_budget()
    done = drive(schedule, breaks_once(1, "pf", "c", "ok"))
    assert {t.block_case for t, _ in done} == {BlockCase(1, "pf", "persistent")}, (
        "one case, the budget"
    )
    assert {t.variant for t, _ in done} == set(VARIANTS)


def test_a_run_that_had_too_many_discarded_can_be_finished() -> None:
    schedule = make(blocks=4, max_discarded=1)
    while not schedule.past_budget:
        unit = schedule.next()
        assert unit is not None
        schedule.record(unit.tasks[0], "discarded")
    assert schedule.redos == 2
    assert not schedule.will_redo(unit.tasks[0].block_case), "the run ends here"
    schedule.renew_budget()
    assert schedule.redos == 0
    assert not schedule.past_budget, "what is discarded may be redone"
    drive(schedule, ok)
    assert schedule.incomplete_cases() == []
    assert not schedule.past_budget
