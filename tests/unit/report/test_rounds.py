"""Interleaved trials: the method in every format, rounds as a picture, rates from slices."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import synthetic_slices
from synthetic_slices import VARIANTS

from perfrunner.analysis.cases import clean_blocks, counted_trials
from perfrunner.domain import Case
from perfrunner.measure.slices import Slices
from perfrunner.report import build_report, render
from perfrunner.report.charts import draw_charts
from perfrunner.report.charts.rounds import FEWEST, binned, pairs, rounds_chart
from perfrunner.report.charts.style import drawing, svg_bytes
from perfrunner.report.render import read_raw, write_html
from perfrunner.results import ResultStore
from perfrunner.results.raw import rate_points, read_series

CASE = Case("pillowfight", "persistent")


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    """turned(**shape) stores an experiment whose variants were loaded interleaved, and gives its data."""
    known = {}

    def build(**shape):
        key = repr(sorted(shape.items()))
        if key not in known:
            directory = tmp_path_factory.mktemp("trials")
            made = synthetic_slices.write(directory, synthetic_slices.Shape(**shape))
            with ResultStore.open(directory, create=False) as store:
                known[key] = store.load(made)
        return known[key]

    return build


def raw_of(data):
    return read_series(data, counted_trials(data.trials))


# -- the method


def test_every_format_says_how_it_was_measured(turned, tmp_path):
    data = turned()
    report = build_report(data)
    page = write_html(report, data, tmp_path / "page.html").read_text()
    for text in (
        render(report, "terminal", verbose=True),
        render(report, "markdown").replace("\\", ""),
        page,
    ):
        words = " ".join(text.split())
        assert (
            "interleaved, 3 variants at once; slices of 2 ms, 400 rounds a block (median)" in words
        )
        assert "after 120 of warm-up" in words
        assert "servers on CPU 0, load on CPU 1" in words
        assert "background work of the waiting variants continues" in words
        assert "so layout can be part of a difference" in words
        assert "local has 2: servers on CPU 0, load on CPU 1, the same for every variant" in words
        assert "robust and totals" in words
    commit = render(report, "commit")
    assert "interleaved (pillowfight: slices of 2 ms, 400 rounds a block)" in commit
    assert max(map(len, commit.splitlines())) <= 72
    assert '"rounds":[{"c":0,"v":1,"blocks":[{"b":1,' in page


def facts_of(data, label):
    return [fact.value for fact in build_report(data).method if fact.label == label]


def test_where_robust_estimate_and_totals_disagree_is_reported(turned):
    (stalls,) = facts_of(turned(stall=0.02), "robust and totals")
    assert stalls.startswith(
        "disagree, the difference sits in slow slices: pillowfight · persistent"
    )
    assert VARIANTS[2] in stalls
    assert f"{VARIANTS[1]} " not in stalls
    (calm,) = facts_of(turned(stall=0.0), "robust and totals")
    assert re.fullmatch(
        r"not shown to differ: a difference of ±[\d.]+ points in the share of slow slices could have been seen",
        calm,
    )


def test_what_an_exact_count_cannot_see_is_reported_and_how_it_was_counted(turned):
    data = turned(blocks=2, rounds=50)
    messages = {
        "method": "callgrind",
        "ops": 400_000,
        "blind_to": ["the kernel", "waiting: caches, TLB, locks"],
    }
    trials = tuple(replace(t, facts={**t.facts, "instructions": messages}) for t in data.trials)
    assert facts_of(replace(data, trials=trials), "instructions_per_op") == [
        "counted by callgrind over 400,000 operations of each variant; it cannot see the kernel;"
        " waiting: caches, TLB, locks"
    ]
    assert facts_of(data, "instructions_per_op") == []


def test_the_hosts_cpus_are_reported_where_nothing_is_pinned(turned):
    data = turned(blocks=2, rounds=50)
    free = tuple(
        replace(t, facts={**t.facts, "cpus": {"engine": "", "client": ""}}) for t in data.trials
    )
    assert facts_of(replace(data, trials=free), "CPUs") == [
        "local has 2: not pinned: the kernel chooses the CPUs"
    ]


def test_groups_their_reason_and_new_links_are_reported(turned):
    groups = ((VARIANTS[1],), (VARIANTS[2],))
    report = build_report(turned(groups=groups, relinked=True, blocks=6))
    (variants, linked) = (
        next(fact.value for fact in report.method if fact.label == label)
        for label in ("pillowfight", "linked")
    )
    assert (
        "groups of at most 2 of 3 variants, the baseline in each: limits.group_size is 2"
        in variants
    )
    assert linked.startswith("again for each block, with a new order of functions")


def test_variants_of_one_binary_share_its_layout(turned):
    data = turned(blocks=2, rounds=50)
    trials = tuple(replace(t, build_id="one") for t in data.trials)
    linked = next(
        f.value for f in build_report(replace(data, trials=trials)).method if f.label == "linked"
    )
    assert linked == "once: all variants share one binary and its layout (order of functions)"


def test_a_workload_that_ran_alone_says_why(make):
    why = {"schedule": "sequential", "group_size": 1, "why": "the spec asks for it"}
    data = make(
        blocks=2, discarded_block=None, workloads=("append",), facts={"groupings": {"append": why}}
    )
    report = build_report(data)
    assert report.method[0] == (
        "append",
        "one after the other, each engine alone: the spec asks for it",
    )
    assert not any(fact.label == "frozen" for fact in report.method)
    assert "one after the other: append" in render(report, "commit")


def test_an_older_store_says_nothing_of_it(report):
    assert report.method == ()
    assert "\nMethod\n" not in render(report, "terminal", verbose=True)


def test_slices_of_append_are_operations(turned):
    data = turned(workloads=("append",), blocks=2, rounds=50)
    trials = tuple(replace(t, facts={**t.facts, "slice": 400}) for t in data.trials)
    (method, *_) = build_report(replace(data, trials=trials)).methods
    assert method.slice_text == "400 operations"


# -- rounds


def test_a_blocks_estimate_is_the_trials_own_number(turned):
    data = turned()
    raw = raw_of(data)
    assert raw.problems == []
    for variant in VARIANTS[1:]:
        matches = list(pairs(raw.trial_slices, CASE, VARIANTS[0], variant))
        assert [pair.block for pair in matches] == list(range(1, 9))
        for pair in matches:
            own = {t.variant: t.metrics for t in data.trials if t.block == pair.block}
            for metric, value in (("ops_per_s", pair.robust), ("ops_per_s_total", pair.total)):
                ratio = own[variant][metric] / own[VARIANTS[0]][metric]
                assert value == pytest.approx(math.log(ratio))


def test_a_variant_is_drawn_against_the_baseline_of_its_own_group(turned):
    data = turned(groups=((VARIANTS[1],), (VARIANTS[2],)), blocks=6)
    raw = raw_of(data)
    for group, variant in ((1, VARIANTS[1]), (2, VARIANTS[2])):
        for pair in pairs(raw.trial_slices, CASE, VARIANTS[0], variant):
            (base,) = [
                t.slices
                for t in raw.trial_slices
                if (t.block, t.group, t.variant) == (pair.block, group, VARIANTS[0])
            ]
            assert pair.base is base


def test_the_rounds_are_drawn_and_the_figure_stays_small(turned):
    raw = raw_of(turned())
    with drawing():
        figure = rounds_chart(raw.trial_slices, CASE, VARIANTS)
        drawn = [line for c in figure.axes[0].collections for line in c.get_segments()]
        matches = list(pairs(raw.trial_slices, CASE, VARIANTS[0], VARIANTS[1]))
        levels = {round(float(line[0][1]), 9) for line in drawn if len(line) == 2}
        assert levels >= {round(100 * math.expm1(pair.robust), 9) for pair in matches}
        svg = svg_bytes(figure)
    assert len(svg) < 120_000
    words = " ".join("".join(t.itertext()) for t in ET.fromstring(svg).iter() if "text" in t.tag)
    for word in ("against glibc in the same round", "400 rounds", "robust", "totals", VARIANTS[2]):
        assert word in words


def test_nothing_written_on_the_rounds_is_cut_off(turned):
    raw = raw_of(turned())
    with drawing():
        figure = rounds_chart(raw.trial_slices, CASE, VARIANTS)
        figure.canvas.draw()
        renderer, box = figure.canvas.get_renderer(), figure.bbox
        texts = [t for axes in figure.axes for t in (*axes.texts, axes.title)]
        for text in (*texts, *figure.legends[0].get_texts()):
            extent = text.get_window_extent(renderer)
            assert extent.x0 >= box.x0 - 1, text.get_text()
            assert extent.x1 <= box.x1 + 1, text.get_text()


def test_missing_and_broken_slices_are_reported_and_the_rest_is_drawn(turned):
    data = turned(blocks=3, rounds=60)
    places = [Path(data.directory) / t.raw_dir for t in data.trials]
    kept = [(place / "slices.json").read_text() for place in places[:2]]
    (places[0] / "slices.json").unlink()
    (places[1] / "slices.json").write_text('{"start_ns": [0]}')
    try:
        report = build_report(data)
        raw = read_raw(report, data)
        charts, notes = draw_charts(report, data, raw), list(raw.notes)
    finally:
        for place, text in zip(places, kept, strict=False):
            (place / "slices.json").write_text(text)
    assert notes[0].startswith("the raw series of 2 of 9 trials cannot be read")
    assert "slices.json" in notes[0]
    assert "rounds-pillowfight-persistent" in [chart.name for chart in charts]


def test_trials_that_ran_alone_have_no_rounds(data):
    cases = list(clean_blocks(data.trials).values())[:1]
    raw = read_series(data, cases[0].trials)
    assert raw.trial_slices == []
    with drawing():
        assert rounds_chart(raw.trial_slices, cases[0].case, VARIANTS) is None


def test_benchmark_programs_keep_their_rounds_themselves(turned):
    data = turned()
    (Path(data.directory) / "empty").mkdir()
    trials = [replace(t, facts={**t.facts, "context": {}}, raw_dir="empty") for t in data.trials]
    raw = raw_of(replace(data, trials=tuple(trials)))
    assert raw.problems == []
    assert raw.trial_slices == []


# -- rates over time


def slices(wall_s, ops):
    wall = np.array([s * 1e9 for s in wall_s], dtype=np.int64)
    counts = np.array(ops, dtype=np.int64)
    return Slices(np.cumsum(wall) - wall, wall, counts, wall, np.zeros_like(wall))


def test_rates_are_of_the_time_in_turn():
    # 1.2 s in slices of 4 ms; from 0.6 s on half as fast
    points = rate_points(slices([0.004] * 300, [400] * 150 + [200] * 150))
    assert [t for t, _ in points] == pytest.approx([0.1 * n for n in range(1, 13)])
    assert [rate for _, rate in points] == pytest.approx([100_000] * 6 + [50_000] * 6)


def test_long_loads_have_a_point_a_second_and_no_partial_one():
    points = rate_points(slices([0.01] * 1530, [10] * 1530))
    assert [t for t, _ in points] == pytest.approx(range(1, 16))
    assert [rate for _, rate in points] == pytest.approx([1000] * 15)


def test_a_load_shorter_than_a_bin_has_one_point():
    assert rate_points(slices([0.01, 0.01], [10, 30])) == [(0.02, 2000.0)]


def test_rounds_that_were_not_answered_have_no_ratio_and_are_marked_slow(turned):
    raw = raw_of(turned(blocks=2, rounds=50))
    missed = [replace(loaded, slices=unanswered(loaded)) for loaded in raw.trial_slices]
    for pair in pairs(missed, CASE, VARIANTS[0], VARIANTS[1]):
        assert len(pair.log_ratios) == 47  # such a round is left out for all variants alike
        assert np.isfinite([pair.robust, pair.total]).all()
    with drawing():
        figure = rounds_chart(missed, CASE, VARIANTS)
        assert svg_bytes(figure)
        (text,) = figure.axes[1].texts
        assert "slow 2 %, baseline 4 %" in text.get_text()


def test_a_load_whose_rounds_are_mostly_empty_has_no_picture_of_rounds(turned):
    """Omit what compares slices: with a rate limit, most of them are empty because no batch is due."""
    raw = raw_of(turned(blocks=2, rounds=50))
    due = np.arange(50) % 5 == 0
    limited = [
        replace(loaded, slices=replace(loaded.slices, ops=np.where(due, loaded.slices.ops, 0)))
        for loaded in raw.trial_slices
    ]
    assert list(pairs(limited, CASE, VARIANTS[0], VARIANTS[1])) == []
    assert rounds_chart(limited, CASE, VARIANTS) is None


def unanswered(loaded):
    """Of the baseline's slices two, of every other variant's one."""
    ops = loaded.slices.ops.copy()
    ops[[5, 6] if loaded.variant == VARIANTS[0] else [7]] = 0
    return replace(loaded.slices, ops=ops)


def test_rounds_that_differ_by_factors_are_drawn_by_factors(turned):
    """A host so busy that slices differ tenfold: half and twice are equally far from no change."""
    raw = raw_of(turned())
    wild = noisier(raw.trial_slices, of=1.0)
    with drawing():
        axes = rounds_chart(wild, CASE, VARIANTS).axes[1]
        assert axes.get_xscale() == "function"
        place = axes.transData.transform
        middle = place((0.0, 0))[0]
        assert place((100.0, 0))[0] - middle == pytest.approx(middle - place((-50.0, 0))[0])
        plain = rounds_chart(raw.trial_slices, CASE, VARIANTS).axes[1]
        assert plain.get_xscale() == "linear"


def test_bins_of_noisy_rounds_leave_the_blocks_estimates_to_be_seen(turned):
    """A flusher that comes and goes: most slices alike, some many times slower, as in a persistent pillowfight."""
    raw = raw_of(turned())
    quiet, noisy = (
        list(pairs(trials, CASE, VARIANTS[0], VARIANTS[1]))
        for trials in (raw.trial_slices, noisier(raw.trial_slices, of=0.7))
    )
    many, few = (binned(of_it, 320) for of_it in (quiet, noisy))
    assert FEWEST <= len(few[0][0]) < len(many[0][0]) <= 320 // len(quiet)
    for instants, middles in few:
        assert len(instants) == len(middles)
        assert 0 < min(instants) < max(instants) < 1
    for of_it, drawn in ((quiet, many), (noisy, few)):
        reach = np.ptp([0.0, *(pair.robust for pair in of_it)])
        middles = np.concatenate([y for _, y in drawn])
        assert np.ptp(np.percentile(middles, [4, 96])) <= 4 * reach or len(drawn[0][0]) == FEWEST
    assert np.ptp(middles) < np.ptp(noisy[0].log_ratios) / 4


def noisier(trials, of):
    """The share `of` each variant's slices takes several times as long, or as short."""
    rng = np.random.default_rng(1)

    def longer(slices):
        factors = np.exp(rng.normal(0, 1, len(slices.ops)) * (rng.random(len(slices.ops)) < of))
        return replace(slices, wall_ns=(slices.wall_ns * factors).astype(np.int64))

    return [replace(loaded, slices=longer(loaded.slices)) for loaded in trials]
