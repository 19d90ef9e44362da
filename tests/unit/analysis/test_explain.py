"""Changes of functions between two variants, on synthetic profiles of many blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfrunner.analysis.explain import KERNEL, Place, ProfiledTrial, explain, moderated, owner
from perfrunner.measure.cpu_profile import Folded

FUNCTIONS = 60
SAMPLES = 800
BLOCKS = 10
CPU = 4.0  # µs per operation


def shares() -> np.ndarray:
    """A few functions with much of the CPU, many with little, as in a real profile."""
    weights = 1.0 / np.arange(1, FUNCTIONS + 1) ** 1.2
    return weights / weights.sum()


def profile(rng: np.random.Generator, costs: np.ndarray, noise: float = 0.0) -> ProfiledTrial:
    """A trial whose functions cost `costs` µs per operation, each with so much noise of its block."""
    costs = costs * np.exp(noise * rng.standard_normal(len(costs)))
    counts = rng.multinomial(SAMPLES, costs / costs.sum())
    stacks = {
        ("front-end" if n % 3 else "flusher", "run", f"f{n}"): int(count)
        for n, count in enumerate(counts)
        if count
    }
    return ProfiledTrial(Folded(stacks), float(costs.sum()), {})


def blocks(rng: np.random.Generator, base: np.ndarray, variant: np.ndarray, noise: float = 0.02):
    return [(profile(rng, base, noise), profile(rng, variant, noise)) for _ in range(BLOCKS)]


def test_a_function_that_costs_two_per_cent_more_is_first():
    rng = np.random.default_rng(1)
    base = CPU * shares()
    first = 0
    for _ in range(40):
        slower = base.copy()
        slower[10] += 0.02 * CPU
        results = explain(blocks(rng, base, slower))
        place, change = next(iter(results.functions.items()))
        first += place == Place("front-end", "f10") and change.changed
    assert first >= 36  # 9 of 10


def test_five_blocks_are_enough_because_variances_borrow_strength_from_each_other(monkeypatch):
    monkeypatch.setitem(globals(), "BLOCKS", 5)
    rng = np.random.default_rng(1)
    slower = CPU * shares()
    slower[10] += 0.02 * CPU
    results = [explain(blocks(rng, CPU * shares(), slower)).changed for _ in range(20)]
    assert sum(Place("front-end", "f10") in changed for changed in results) >= 14


def test_moderated_variances():
    luck = np.ones(200)
    rng = np.random.default_rng(6)
    even, freedom = moderated(rng.chisquare(4, 200) / 4, luck, 4)
    assert freedom > 12, "the same variance everywhere is known well"
    assert even.min() >= 1
    uneven, few = moderated(rng.chisquare(4, 200) / 4 * np.exp(rng.normal(0, 2, 200)), luck, 4)
    assert 4 < few < 8
    assert uneven.max() > 10
    assert moderated(np.array([0.5, 4.0]), np.array([1.0, 1.0]), 4)[0].tolist() == [1.0, 4.0]


def test_new_work_is_found_without_a_sample_in_the_baseline():
    rng = np.random.default_rng(2)
    base = np.append(CPU * shares(), 0.0)
    slower = base.copy()
    slower[-1] = 0.02 * CPU
    results = explain(blocks(rng, base, slower))
    place, change = next(iter(results.functions.items()))
    assert place.function == f"f{FUNCTIONS}"
    assert change.changed
    assert change.base == 0
    assert change.ci95[0] < 0.02 * CPU < change.ci95[1]
    assert change.difference == pytest.approx(change.variant)


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_equal_variants_give_no_more_false_findings_than_promised(noise):
    rng = np.random.default_rng(3)
    base = CPU * shares()
    alarms = sum(bool(explain(blocks(rng, base, base, noise)).changed) for _ in range(100))
    assert alarms <= 11  # more than 11 of 100 would happen by chance once in 250 such tests at 5 %


def test_few_samples_that_agree_by_chance_are_no_finding():
    rare = [(Folded({("t", "a"): 97, ("t", "b"): n}), Folded({("t", "a"): 100})) for n in [3] * 8]
    pairs = [(ProfiledTrial(x, 1.0, {}), ProfiledTrial(y, 1.0, {})) for x, y in rare]
    results = explain(pairs)
    assert results.functions[Place("t", "b")].p > 1e-4
    few = pairs[:5]
    assert (explain(few).rare_functions, explain(few).rare) == (1, pytest.approx(-0.03))


def test_the_parts_of_a_change_add_up_to_the_change_of_the_cpu_time():
    rng = np.random.default_rng(4)
    base = CPU * shares()
    slower = base * np.linspace(0.9, 1.2, FUNCTIONS)
    results = explain(blocks(rng, base, slower))
    parts = sum(change.difference for change in results.functions.values()) + results.rare
    assert parts == pytest.approx(results.total.difference)
    threads = sum(change.difference for change in results.threads.values())
    assert threads == pytest.approx(results.total.difference)
    assert {place.thread for place in results.functions} == {"front-end", "flusher"}


def test_a_thread_that_does_everything_is_known_as_well_as_the_cpu_time():
    rng = np.random.default_rng(9)
    pairs = [
        tuple(
            ProfiledTrial(Folded({("front-end", "f"): 90, ("front-end", "g"): 110}), cpu, {})
            for cpu in rng.normal(CPU, 0.01, 2)
        )
        for _ in range(8)
    ]
    results = explain(pairs)
    assert results.threads["front-end"].ci95 == pytest.approx(results.total.ci95, rel=1e-3)


def test_a_saving_elsewhere_is_no_change_of_the_others():
    """Shares alone would show an increase of every function whose cost is the same."""
    rng = np.random.default_rng(5)
    base = CPU * shares()
    faster = base.copy()
    faster[0] *= 0.5
    results = explain(blocks(rng, base, faster))
    assert [place.function for place in results.changed] == ["f0"]


def test_the_kernel_counts_for_the_function_that_entered_it():
    stack = ("front-end", "run(int)", "__send", "do_syscall_64_[k]", "tcp_sendmsg_[k]")
    assert owner(stack) == Place("front-end", "__send")
    assert owner(("front-end", "ret_from_fork_[k]")) == Place("front-end", KERNEL)
    assert owner(("front-end",)) == Place("front-end", KERNEL)


def test_events_are_counted_per_operation():
    def trial(cpu: float, instructions: float) -> ProfiledTrial:
        # 2 s of CPU; at `cpu` µs per operation, 2e6 / cpu operations
        events = {"task-clock": 2e9, "instructions": instructions, "cycles": 4e9}
        return ProfiledTrial(Folded({("t", "f"): 100}), cpu, events)

    results = explain([(trial(4.0, 8e9), trial(5.0, 8e9))] * 3)
    rows = {row.event: row.change for row in results.events}
    assert set(rows) == {"instructions", "cycles", "ipc"}
    assert rows["instructions"].base == pytest.approx(16_000)
    assert rows["instructions"].variant == pytest.approx(20_000)
    assert rows["ipc"].base == pytest.approx(2)
    assert not rows["ipc"].changed


def test_events_that_one_trial_lacks_are_left_out():
    whole = ProfiledTrial(
        Folded({("t", "f"): 100}), 1.0, {"task-clock": 1e9, "cycles": 1e9, "instructions": 1e9}
    )
    part = replace(whole, events={"task-clock": 1e9, "cycles": 1e9})
    assert [
        row.event for row in explain([(whole, part), (whole, whole), (whole, whole)]).events
    ] == ["cycles"]
    none = replace(whole, events={})
    assert explain([(whole, none), (whole, whole), (whole, whole)]).events == ()


def test_two_blocks_are_refused():
    trial = ProfiledTrial(Folded({("t", "f"): 100}), 1.0, {})
    with pytest.raises(ValueError, match="at least 3"):
        explain([(trial, trial)] * 2)
