"""Charts: drawn from the data, the same bytes for the same data, honest about what is missing."""

from __future__ import annotations

import itertools
import json
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from perfrunner.analysis.cases import clean_blocks, counted_trials
from perfrunner.measure.client import merge_histograms
from perfrunner.report import build_report, write_charts
from perfrunner.report.charts import draw_charts, main_charts
from perfrunner.report.charts.comparison import forest_chart
from perfrunner.report.charts.dots import dots_chart, wrapped
from perfrunner.report.charts.gallery import share_out
from perfrunner.report.charts.latency import latency_chart
from perfrunner.report.charts.memory import PARTS, fragmentation_chart, heap_chart
from perfrunner.report.charts.series import across, churn_chart
from perfrunner.report.charts.style import PAPER, drawing, inline_svg, svg_bytes
from perfrunner.report.render import read_raw
from perfrunner.results.raw import read_series
from perfrunner.spec.metrics import METRICS

SVG = "{http://www.w3.org/2000/svg}"


def draw(data, **how):
    report = build_report(data)
    raw = read_raw(report, data)
    return draw_charts(report, data, raw, **how), list(raw.notes)


@pytest.fixture(scope="module")
def charts(data):
    return draw(data)


def test_the_wanted_charts_are_there(charts):
    matches, notes = charts
    assert notes == []
    assert [chart.name for chart in matches if chart.main] == [
        "comparison", "forest-ops-per-s", "trials-ops-per-s", "forest-fragmentation-rss", "trials-fragmentation-rss",
        "fragmentation", "order-ops-per-s", "series-ops", "series-memory",
        "latency-pillowfight-persistent", "latency-pillowfight-ephemeral",
        "latency-append-persistent", "latency-append-ephemeral",
    ]  # fmt: skip
    others = [chart.name for chart in matches if not chart.main]
    assert others[0] == "order-fragmentation-rss"
    assert all(name.startswith("trials-") for name in others[1:])
    assert len({chart.name for chart in matches}) == len(matches)


def test_charts_are_valid_svg_with_the_words_on_them(charts):
    for chart in charts[0]:
        root = ET.fromstring(chart.svg)
        assert root.tag == f"{SVG}svg"
        words = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
        cases = ("pillowfight · persistent", "append · ephemeral")
        for word in cases if not chart.name.startswith("latency-") else (chart.title[-8:],):
            assert word in words, chart.name


def test_every_chart_says_its_question_above_everything_else(charts):
    for chart in charts[0]:
        root = ET.fromstring(chart.svg)
        words = [" ".join("".join(t.itertext()).split()) for t in root.iter(f"{SVG}text")]
        asked = [word for word in words if word.endswith("?") or "? " in word]
        assert asked, chart.name
        assert "?" in chart.title
        assert chart.name == "comparison" or chart.title in words


@pytest.mark.long
def test_the_same_data_gives_the_same_bytes_by_however_many_processes(make, monkeypatch):
    data = make(blocks=6, workloads=("append",), buckets=("ephemeral",))

    def drawn(processes):
        shared = partial(share_out, processes=processes)
        monkeypatch.setattr("perfrunner.report.charts.gallery.share_out", shared)
        return draw(data, png=True)[0]

    first, second = drawn(1), drawn(2)
    assert [(c.svg, c.png) for c in first] == [(c.svg, c.png) for c in second]


def test_every_trial_is_a_dot_and_every_block_a_line(report, data):
    with drawing():
        figure = dots_chart(report.comparison, "ops_per_s")
        axes = [a for a in figure.axes if a.get_visible()]
        assert len(axes) == 4
        for panel, blocks in zip(axes, clean_blocks(data.trials).values(), strict=True):
            (lines,) = (c for c in panel.collections if isinstance(c, LineCollection))
            dots = [c for c in panel.collections if c is not lines]
            drawn = sorted(x for some in dots for x, _ in np.asarray(some.get_offsets()))
            trials = sorted(t.metrics["ops_per_s"] for t in blocks.trials)
            assert drawn == pytest.approx(trials)
            joined = [x for line in lines.get_segments() for x, _ in line]
            assert sorted(joined) == pytest.approx(trials)
            assert len(lines.get_segments()) == len({t.block for t in blocks.trials})


def test_no_label_is_cut_off(report):
    """Everything that is written lies inside the figure."""
    for draw in (dots_chart, forest_chart):
        with drawing():
            figure = draw(report.comparison, "fragmentation_rss")
            figure.canvas.draw()
            box = figure.bbox
            renderer = figure.canvas.get_renderer()
            for axes in figure.axes:
                texts = [*axes.texts, *axes.get_yticklabels(), axes.title]
                for text in texts:
                    if not text.get_text() or not axes.get_visible():
                        continue
                    extent = text.get_window_extent(renderer)
                    assert extent.x0 >= box.x0 - 1, text.get_text()
                    assert extent.x1 <= box.x1 + 1, text.get_text()


def test_a_metric_nobody_measured_has_no_chart(report):
    with drawing():
        assert dots_chart(report.comparison, "latency_set_p99_9_us") is None
        assert forest_chart(report.comparison, "latency_set_p99_9_us") is None


def test_memory_over_a_churn_has_a_line_for_each_trial_and_their_median(make):
    """It is a fact of the trials, and needs no raw files. Trials are compared phase by phase."""
    data = make(blocks=2, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    assert draw(data, only=["series-churn"])[0] == []

    def churned(block, slower):
        course = [[0.0, 1e6], [1.0, 9e6], [2.0 + slower, 4e6], [3.0 + slower, 8e6]]
        facts = [[x, y + block] for x, y in course]
        return {"rss_over_time": facts, "churn_ends": [1.0, 2.0 + slower, 3.0 + slower]}

    trials = tuple(
        replace(t, facts={**t.facts, **churned(t.block, 4 * (t.block == 2))})
        for t in data.trials
        if t.variant != "glibc"
    )
    data = replace(data, trials=trials, directory=None)
    assert "series-churn" not in main_charts(build_report(data))
    back = tuple(replace(t, metrics={**t.metrics, "rss_returned": 50.0}) for t in trials)
    assert "series-churn" in main_charts(build_report(replace(data, trials=back)))
    assert [chart.name for chart in draw(data, only=["series-churn"])[0]] == ["series-churn"]
    (blocks,) = clean_blocks(trials).values()
    variants = build_report(data).comparison.variants
    with drawing():
        figure = churn_chart([blocks], variants)
    (axes,) = figure.axes
    thin = [line for c in axes.collections for line in c.get_segments()]
    assert len(thin) == len(trials)
    names = {text.get_text() for text in figure.legends[0].get_texts()}
    assert names == {trial.variant for trial in trials}
    *medians, _, _, _ = axes.get_lines()
    for line in medians:
        expected = [(0, 1e6 + 1.5), (1, 9e6 + 1.5), (4, 4e6 + 1.5), (5, 8e6 + 1.5)]
        assert [tuple(point) for point in line.get_xydata()] == expected
    ends = [text.xy[0] for text in axes.texts]
    assert ends == [1, 4, 5]


def test_memory_over_a_churn_of_three_cases(data):
    facts = {"rss_over_time": [[0.0, 1e6], [2.0, 9e6]], "churn_ends": [0.5, 1.0, 1.5]}
    cases = list(clean_blocks(data.trials))[:3]
    trials = tuple(replace(t, facts=facts) for t in data.trials if t.case in cases)
    with drawing():
        figure = churn_chart(list(clean_blocks(trials).values()), ["glibc"])
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == [str(case) for case in cases]
    assert all(len(axes.texts) == 3 for axes in shown)


def test_missing_raw_files_are_counted_and_reported(make):
    data = make(blocks=2, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    trials = data.trials
    base = data.directory
    shutil.rmtree(f"{base}/{trials[0].raw_dir}")
    with open(f"{base}/{trials[1].raw_dir}/client.json", "w") as file:  # noqa: PTH123
        file.write("{broken")
    raw = read_series(data, counted_trials(trials))
    assert (len(raw.problems), raw.trials) == (2, 6)
    charts, notes = draw(data, only=["series-ops"])
    assert "the raw series of 2 of 6 trials cannot be read" in notes[0]
    assert [c.name for c in charts] == ["series-ops"]
    nowhere, notes = draw(replace(data, directory=None), only=["series-ops"])
    assert "6 of 6" in notes[0]
    assert nowhere == []


def test_a_last_sample_of_microseconds_is_no_rate(make):
    data = make(blocks=1, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    path = Path(data.directory) / data.trials[0].raw_dir / "client.json"
    document = json.loads(path.read_text())
    series = document["update"]["series"]
    series.append({"t": series[-1]["t"] + 65e-6, "ops": 1600})
    path.write_text(json.dumps(document))
    (inside, *_) = read_series(data, counted_trials(data.trials)).inside
    assert len(inside.rates) == len(series) - 1
    assert max(rate for _, rate in inside.rates) < 200_000


def test_across_takes_the_median_and_lets_short_curves_end():
    t, middle, low, high = across([[(0, 1.0), (1, 2.0), (2, 3.0)], [(0, 3.0), (1, 4.0)]])
    assert list(t) == [0, 1, 2]
    assert list(middle) == [2.0, 3.0, 3.0]
    assert list(low) == [1.0, 2.0, 3.0]
    assert list(high) == [3.0, 4.0, 3.0]


def test_a_median_is_of_half_the_curves_at_least():
    """Of the two curves that last longer nobody asked."""
    short, longer = [(0, 1.0), (1, 2.0)], [(0, 1.0), (1, 2.0), (2, 90.0), (3, 90.0)]
    t, middle, *_ = across([short, short, short, longer, longer])
    assert (list(t), list(middle)) == ([0, 1], [1.0, 2.0])


def test_latencies_are_drawn_as_the_merged_histograms_say(report, data):
    """The curve goes through the percentiles of all trials' operations; the bars are all of them."""
    case, variants = report.comparison.cases[0], report.comparison.variants
    inside = read_raw(report, data).inside
    gets = {
        variant: merge_histograms(
            i.latency["get"] for i in inside if (i.case, i.trial.variant) == (case, variant)
        )
        for variant in variants
    }
    with drawing():
        figure = latency_chart(inside, case, variants)
        (curves, bars), *others = np.reshape(figure.axes, (-1, 2))
    assert [row[0].get_title(loc="left") for row in ([curves, bars], *others)] == ["get", "set"]
    lines = curves.get_lines()
    assert [line.get_label() for line in lines] == list(variants)
    for line, variant in zip(lines, variants, strict=True):
        drawn = dict(zip(*(np.round(v, 6) for v in line.get_data()), strict=True))
        for percent in (50, 90, 99):
            assert drawn[round(100 / (100 - percent), 6)] == pytest.approx(
                gets[variant].percentile_ns(percent) / 1000, rel=1e-4
            )
    for patch in bars.patches:
        assert sum(patch.get_data().values) == pytest.approx(100, rel=1e-3)


def test_a_case_without_latencies_has_no_chart_of_them(report):
    with drawing():
        assert latency_chart([], report.comparison.cases[0], report.comparison.variants) is None


def test_fragmentation_is_drawn_by_every_formula(make):
    data = make(blocks=2, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    held = (
        "mapped",
        "mapped_no_store",
        "rss",
        "rss_plain",
        "rss_now",
        "rss_now_no_store",
        "rss_settled",
    )
    wanted = {f"fragmentation{asked}_{what}": n + 10.0 for n, (asked, what) in
              enumerate(itertools.product(("", "_payload"), held))}  # fmt: skip
    assert {n for n in METRICS if n.startswith("fragmentation") and "vsz" not in n} == set(wanted)
    trials = tuple(replace(t, metrics=wanted) for t in data.trials)
    with drawing():
        figure = fragmentation_chart(build_report(replace(data, trials=trials)).comparison)
        marks = [
            (round(x, 6), line.get_markerfacecolor() == PAPER)
            for line in figure.axes[0].get_lines()
            if line.get_marker() not in ("|", "None")
            for x in line.get_xdata()
        ]
    hollow = {x for x, empty in marks if empty}
    assert hollow == {value for name, value in wanted.items() if "payload" in name}
    assert {x for x, empty in marks if not empty} >= set(wanted.values()) - hollow
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words[-2:] == ["filled: not mem_used", "hollow: not payload"]
    assert len(words) == 9


def test_what_the_memory_is_made_of_is_stacked_by_cause(make):
    """A variant whose allocator does not tell has the part that the bucket is charged for, and its marks."""
    data = make(blocks=2, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    messages = {"allocator_frag_bytes": 300e6, "allocator_rss_bytes": 50e6}
    memory = {"payload_bytes": 500e6, "mem_used_bytes": 700e6, "rss_bytes": 1100e6}
    trials = tuple(
        replace(t, metrics=memory | (messages if "jemalloc" in t.variant else {}))
        for t in data.trials
    )
    comparison = build_report(replace(data, trials=trials)).comparison
    with drawing():
        figure = heap_chart(comparison)
    (axes,) = figure.axes
    bars: dict[int, list[tuple[int, int]]] = {}
    for bar in axes.patches:
        ends = (round(bar.get_x() / 1e6), round((bar.get_x() + bar.get_width()) / 1e6))
        bars.setdefault(round(bar.get_y() + bar.get_height() / 2), []).append(ends)
    variants = dict(
        zip(axes.get_yticks(), (t.get_text() for t in axes.get_yticklabels()), strict=True)
    )
    asked, held = [(0, 500), (500, 700)], [(700, 1000), (1000, 1050)]
    assert {variants[y]: parts for y, parts in bars.items()} == {
        variant: asked + held if "jemalloc" in variant else asked for variant in variants.values()
    }
    assert {x for line in axes.get_lines() for x in line.get_xdata()} == {1100e6}
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == [*(messages for messages, _ in PARTS.values()), "RSS", "mapped"]
    silent = tuple(replace(t, metrics=memory) for t in data.trials)
    assert heap_chart(build_report(replace(data, trials=silent)).comparison) is None


def test_a_metric_at_another_moment_has_no_chart_of_its_own(make):
    data = make(blocks=6, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    also = ("fragmentation_rss_now", "pss_bytes")
    trials = tuple(
        replace(t, metrics=t.metrics | dict.fromkeys(also, 1e6 * (1 + ("thp" in t.variant)) + t.position))
        for t in data.trials
    )  # fmt: skip
    names = ["trials-pss-bytes", "trials-fragmentation-rss-now"]
    (matches,), _ = draw(replace(data, trials=trials), only=names)
    assert matches.name == "trials-pss-bytes"  # fragmentation_rss has one


def test_large_ratios_are_drawn_on_a_logarithmic_axis(make):
    data = make(blocks=6, discarded_block=None)
    trials = tuple(
        replace(
            t,
            metrics={
                **t.metrics,
                "ops_per_s": t.metrics["ops_per_s"] * (200 if "5.1" in t.variant else 1),
            },
        )
        for t in data.trials
    )
    with drawing():
        figure = forest_chart(build_report(replace(data, trials=trials)).comparison, "ops_per_s")
        assert figure.axes[0].get_xscale() == "log"
        assert svg_bytes(figure)
        figure = dots_chart(build_report(replace(data, trials=trials)).comparison, "ops_per_s")
        assert figure.axes[0].get_xscale() == "log"
        assert b"mathdefault" not in svg_bytes(figure), "ticks are plain numbers"


def test_inlined_charts_share_no_id(charts):
    pages = "".join(chart.inline() for chart in charts[0])
    import re

    ids = re.findall(r'\bid="([^"]+)"', pages)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', pages))
    assert used <= set(ids)


def test_an_inlined_chart_has_a_name_and_the_colours_of_the_page():
    svg = b'<?xml version="1.0"?><svg width="1pt" height="2pt" viewBox="0 0 1 2"><path fill="#1c1e22"/></svg>'
    text = inline_svg(svg, "x", 'a "<b>" & c')
    assert text == (
        '<svg role="img" aria-label="a &quot;&lt;b>&quot; &amp; c" class="chart" viewBox="0 0 1 2">'
        '<path fill="var(--ink)"/></svg>'
    )


def test_long_names_are_broken_and_nothing_is_lost():
    name = "jemalloc-5.1.0,background_thread=true,metadata_thp=always"
    lines = wrapped(name).split("\n")
    assert "".join(lines) == name
    assert max(map(len, lines)) <= 26


@pytest.mark.long
def test_files_are_written_whole(make, tmp_path):
    data = make(blocks=2, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    report = build_report(data)
    written, notes = write_charts(report, data, tmp_path / "charts")
    assert notes == []
    assert sorted(p.name for p in (tmp_path / "charts").iterdir()) == sorted(
        p.name for p in written
    )
    assert [p.name for p in written if p.suffix == ".png"] == ["comparison.png"]
    every, _ = write_charts(report, data, tmp_path / "every", png=True, every=True)
    pictures = [p for p in every if p.suffix == ".png"]
    assert {p.name for p in written} < {p.name for p in every}
    assert not any(p.name.startswith("trials-latency") for p in written)
    assert len(every) == 2 * len(pictures)
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)
