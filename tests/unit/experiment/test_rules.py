"""Validity, precision, estimates, full disks: the small rules of a run."""

from __future__ import annotations

import errno
import math
import sqlite3
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from perfrunner.analysis.compare import compare
from perfrunner.domain import TrialKey
from perfrunner.errors import TrialError
from perfrunner.experiment.outdir import disk_is_full
from perfrunner.experiment.plan import padding_size, workload_seed
from perfrunner.experiment.preflight.requirements import check_preconditions
from perfrunner.experiment.recorder import EtaEstimator
from perfrunner.experiment.stopping import Width, case_widths, decide
from perfrunner.experiment.trial.outcome import (
    attribute_failure,
    attributed_to,
    changed_facts,
    discarded_reasons,
    group_reasons,
)
from perfrunner.experiment.trial.placement import trial_name
from perfrunner.measure.client import ClientCost, ClientReport, CrossCheck, Phase
from perfrunner.results import ExperimentData, ExperimentRecord, TrialRecord
from perfrunner.spec.model import Limits
from perfrunner.workloads.bench import Measured

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)


def measured(
    misses: int = 0,
    errors: dict[str, int] | None = None,
    busy: float | None = 0.5,
    check: CrossCheck | None = None,
    refusal: str = "",
) -> Measured:
    phase = Phase(
        ops=100, gets=50, sets=50, misses=misses, errors=errors or {}, seconds=1.0, refusal=refusal
    )
    report = ClientReport("pillowfight", None, phase, ClientCost(1.0, 1.0, 1, busy), None, False)
    return Measured(metrics={}, report=report, check=check)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (measured(), []),
        (measured(misses=1), ["1 GETs of stored items missed (limits.misses: 0)"]),
        (
            measured(errors={"etmpfail": 2, "timeout": 0}),
            ["2 operations failed (limits.errors: 0): etmpfail 2"],
        ),
        (
            measured(errors={"etmpfail": 2}, refusal="-BUSY Redis is busy"),
            [
                "2 operations failed (limits.errors: 0): etmpfail 2;"
                " it answered '-BUSY Redis is busy'"
            ],
        ),
        # The faster the engine, the busier the client: such a rule would look at the variant.
        (measured(busy=1.0), []),
        (measured(busy=None), []),
        (measured(check=CrossCheck(100, 100, 0)), []),
    ],
)
def test_a_trial_is_discarded_by_the_rules_and_by_nothing_else(
    what: Measured, says: list[str]
) -> None:
    assert discarded_reasons(what, Limits()) == says


def test_counters_that_disagree_are_discarded() -> None:
    (reason,) = discarded_reasons(measured(check=CrossCheck(100, 50, 1)), Limits())
    assert "the server 50" in reason


def waited(*shares: float | None) -> list[Measured]:
    return [
        Measured(metrics={}, facts={} if share is None else {"client_waits": share})
        for share in shares
    ]


@pytest.mark.parametrize(
    ("shares", "limit", "discarded"),
    [
        ((0.9, 0.2), 0.5, True),  # of all variants together, whichever variant it was
        ((0.2, 0.9), 0.5, True),
        ((0.7, 0.2), 0.5, False),
        ((1.0, 1.0), 1.0, False),  # nothing is beyond 100 %
        ((0.9, None), 0.5, False),  # not known of one: no rule
    ],
)
def test_a_load_that_waited_for_a_cpu_makes_all_variants_discarded_or_none(
    shares: tuple[float | None, ...], limit: float, discarded: bool
) -> None:
    matches = group_reasons(waited(*shares), Limits(client_waits=limit))
    assert len(matches) == int(discarded)
    assert all(
        "waited for a CPU in 55% of all variants' slices (limit 50%)" in why for why in matches
    )


def test_limits_are_those_of_the_spec() -> None:
    assert discarded_reasons(measured(misses=3, errors={"x": 2}), Limits(misses=3, errors=2)) == []


def test_a_fact_that_changed_is_named_and_a_new_one_is_not() -> None:
    before = {"thp_enabled": "madvise", "cpus": 1, "load_average": 0.1}
    now = {"thp_enabled": "never", "cpus": 1, "glibc": 2, "load_average": 9.0}
    assert changed_facts(before, now) == ["thp_enabled changed from madvise to never"]


@pytest.mark.parametrize(
    ("clean", "block", "planned", "width", "decision"),
    [
        (5, 5, 20, 0.001, "continue"),  # never under 10 blocks
        (9, 9, 9, 0.001, "extend"),
        (10, 10, 20, 0.001, "stop"),
        (9, 10, 10, 0.001, "extend"),  # a discarded block is none: it is redone at the end
        (10, 10, 20, 0.02, "continue"),
        (20, 20, 20, 0.02, "extend"),
        (20, 20, 20, None, "extend"),
        (40, 40, 40, 0.02, "stop"),
        (31, 40, 40, 0.02, "stop"),
    ],
)
def test_precision_is_looked_at_between_10_and_40_clean_blocks(
    clean: int, block: int, planned: int, width: float | None, decision: str
) -> None:
    matches = decide(("pf", "-"), block, planned, Width(clean, width), 0.01)
    assert (matches.decision, matches.clean) == (decision, clean)


@pytest.mark.parametrize(("block", "decision"), [(5, "continue"), (12, "stop")])
def test_a_case_without_a_primary_metric_has_the_blocks_of_the_spec(
    block: int, decision: str
) -> None:
    assert decide(("hash", "-"), block, 12, None, 0.01).decision == decision


def test_what_is_left_follows_from_the_width() -> None:
    assert Width(10, 0.04).expected_blocks(0.01) == 40
    assert Width(10, 0.02).expected_blocks(0.01) == 32  # Student's t shrinks as well
    assert Width(10, 0.014).expected_blocks(0.01) == 17
    assert Width(2, 0.05).expected_blocks(0.01) == 10  # of two blocks it is 12.7
    assert Width(10, 0.001).expected_blocks(0.01) == 10
    assert Width(3, None).expected_blocks(0.01) == 10


def test_each_case_has_a_width_of_its_own() -> None:
    """The quiet one is done, the noisy one goes on."""
    record = ExperimentRecord(
        "e", "s", {"baseline": "a", "variants": {"a": {}, "b": {}}}, "", "s.yaml", 1,
        NOW, "0",
    )  # fmt: skip
    trials = [
        TrialRecord(block, 1, 1, workload, "-", variant, "build", "ok", "", NOW, NOW,
                    {"ops_per_s": 100.0 * (1 + noise * (-1) ** block * (variant == "b"))}, {}, "raw")
        for workload, noise, blocks in (("quiet", 0.001, 11), ("noisy", 0.05, 9))
        for block in range(1, blocks + 1)
        for variant in "ab"
    ]  # fmt: skip
    widths = case_widths(ExperimentData(record, (), tuple(trials)))
    assert {case: width.blocks for case, width in widths.items()} == {
        ("quiet", "-"): 11, ("noisy", "-"): 9
    }  # fmt: skip
    assert widths["quiet", "-"].half_width < 0.002 < 0.02 < widths["noisy", "-"].half_width


@pytest.mark.parametrize("extensions", [0, 1, 2])
def test_a_case_is_as_precise_as_its_report_shows(extensions) -> None:
    """Each extension makes the intervals of the report wider."""
    facts = {"extended": [{"from": 10 + n, "to": 11 + n} for n in range(extensions)]}
    record = ExperimentRecord(
        "e", "s", {"baseline": "a", "variants": {"a": {}, "b": {}}, "precision": 0.01}, "", "s.yaml", 1,
        NOW, "0", facts=facts,
    )  # fmt: skip
    trials = tuple(
        TrialRecord(block, 1, 1, "w", "-", variant, "build", "ok", "", NOW, NOW,
                    {"ops_per_s": 100.0 * (1 + 0.01 * (-1) ** block * (variant == "b"))}, {}, "raw")
        for block in range(1, 13)
        for variant in "ab"
    )  # fmt: skip
    (width,) = case_widths(ExperimentData(record, (), trials)).values()
    ended = ExperimentData(replace(record, state="done"), (), trials)
    (effect,) = [row.effect for row in compare(ended).rows if row.effect is not None]
    low, high = (math.log(end) for end in effect.ci95)
    assert width.half_width == pytest.approx((high - low) / 2)


def test_an_estimate_prefers_what_was_measured() -> None:
    eta = EtaEstimator({("pf", "p"): 10.0})
    assert eta.left([("pf", "p")] * 3) == 30.0
    eta.add(("pf", "p"), 2.0)
    eta.add(("pf", "p"), 4.0)
    assert eta.left([("pf", "p")] * 3) == 9.0
    assert eta.left([]) == 0.0
    assert eta.left([("pf", "p"), ("new", "p")]) == 6.0  # an unknown kind is taken for the average


def test_nothing_known_is_no_estimate() -> None:
    assert EtaEstimator().left([("pf", "p")]) is None


def test_a_full_disk_is_seen_through_what_it_was_wrapped_in() -> None:
    def wrapped(cause: Exception) -> Exception:
        try:
            try:
                raise cause
            except Exception as error:
                raise ValueError("outer") from error
        except ValueError as error:
            return error

    assert disk_is_full(wrapped(OSError(errno.ENOSPC, "No space left on device")))
    assert disk_is_full(wrapped(OSError(errno.EFBIG, "File too large")))
    assert disk_is_full(wrapped(sqlite3.OperationalError("database or disk is full")))
    assert not disk_is_full(wrapped(OSError(errno.EACCES, "Permission denied")))


TASK = TrialKey(3, 1, 1, "pf", "persistent", "a")


def test_every_variant_of_a_case_gets_the_same_keys_and_another_block_others() -> None:
    other_variant = TrialKey(3, 2, 5, "pf", "persistent", "b")
    other_block = TrialKey(4, 1, 1, "pf", "persistent", "a")
    assert workload_seed(7, TASK) == workload_seed(7, other_variant)
    assert workload_seed(7, TASK) != workload_seed(7, other_block)
    assert workload_seed(7, TASK) != workload_seed(8, TASK)


def test_the_environment_differs_between_trials_and_repeats_with_the_seed() -> None:
    sizes = {padding_size(7, TrialKey(block, 1, 1, "pf", "p", "a")) for block in range(50)}
    assert len(sizes) > 40
    assert all(1 <= size <= 4096 for size in sizes)
    assert padding_size(7, TASK) == padding_size(7, TASK)


def test_a_trial_is_named_by_what_it_is() -> None:
    assert trial_name(TASK) == "3-pf-persistent-a"
    again = trial_name(TrialKey(3, 2, 1, "pf", "persistent", "a"))
    assert again.startswith(trial_name(TASK))
    assert again != trial_name(TrialKey(3, 1, 1, "pf", "persistent", "a-2"))


@pytest.mark.parametrize(
    ("facts", "holds"),
    [
        ([{"thp_enabled": "madvise", "cpus": 2}], {"thp_madvise": True, "two_cores": True}),
        ([{"thp_enabled": "always", "cpus": 1}], {"thp_madvise": False, "two_cores": False}),
        ([{}], {"thp_madvise": None, "two_cores": None}),
        (
            [{"thp_enabled": "madvise", "cpus": 2}, {"thp_enabled": "never", "cpus": 8}],
            {"thp_madvise": False, "two_cores": True},
        ),
    ],
)
def test_preconditions_hold_on_every_engine_node_or_not_at_all(
    facts: list[dict[str, Any]], holds: dict[str, bool | None]
) -> None:
    assert check_preconditions(["thp_madvise", "two_cores"], facts) == holds


@pytest.mark.parametrize(
    ("facts", "holds"),
    [
        ({"cpus": 2, "l3_domains": [{"cpus": "0-1"}]}, (False, False)),
        ({"cpus": 4, "l3_domains": [{"cpus": "0-1"}, {"cpus": "2-3"}]}, (True, True)),
        ({}, (None, None)),
    ],
)
def test_preconditions_about_cpus_and_their_caches(
    facts: dict[str, Any], holds: tuple[bool | None, bool | None]
) -> None:
    checked = check_preconditions(["three_cores", "two_caches"], [facts])
    assert (checked["three_cores"], checked["two_caches"]) == holds


def test_what_only_the_measurement_shows_is_not_asked_of_the_hosts() -> None:
    assert check_preconditions(["metadata_visible"], [{"cpus": 2}]) == {}


def test_the_reason_of_a_failed_trial_says_what_to_do() -> None:
    failure = TrialError("it is full", "raise its limit")
    assert attribute_failure(failure, ["one"]) == [("failed", "it is full (raise its limit)")]
    with pytest.raises(TrialError) as raised, attributed_to(1):
        raise failure
    assert attribute_failure(raised.value, ["one", "two"]) == [
        ("discarded", "two, in the same group, failed: it is full"),
        ("failed", "it is full (raise its limit)"),
    ]
