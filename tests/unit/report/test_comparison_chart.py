"""The picture of the whole comparison, and what all charts share: a question, variants that can be distinguished."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from perfrunner.analysis.noise import NoiseFloor
from perfrunner.report import build_report
from perfrunner.report.charts import draw_charts
from perfrunner.report.charts.comparison import SMALLEST, compared_metrics, comparison_chart
from perfrunner.report.charts.style import (
    A_DASH,
    DASHES,
    MARKERS,
    VARIANTS,
    drawing,
    entitle,
    png_bytes,
    variant_line,
)
from perfrunner.report.sentences import question
from perfrunner.results.raw import RawSeries
from perfrunner.spec.metrics import metric_type

SVG = "{http://www.w3.org/2000/svg}"


def with_primary(data, *primary):
    spec = {**data.experiment.spec_json, "primary": list(primary)}
    return replace(data, experiment=replace(data.experiment, spec_json=spec))


@pytest.fixture
def picture():
    """picture(report) -> the figure, as it lies on its file."""
    with drawing():

        def draw(report):
            figure = comparison_chart(report)
            png_bytes(figure)
            return figure

        yield draw


def words_of(figure):
    matches = [text for axes in figure.axes for text in (*axes.texts, axes.title, axes.xaxis.label)]
    for axes in figure.axes:
        matches += [*axes.get_yticklabels(), *axes.get_xticklabels()]
    return [text for text in matches if text.get_text() and text.get_visible()]


def test_throughput_and_fragmentation_of_every_variant_in_every_case(report, picture):
    figure = picture(report)
    titles = " ".join(text.get_text() for text in words_of(figure))
    assert "Is any variant faster?" in titles
    assert "Does any variant waste less memory?" in titles
    variants, cases = report.comparison.variants[1:], report.comparison.cases
    for axes in figure.axes:
        drawn = [line for line in axes.lines if line.get_marker() == "s"]
        assert len(drawn) == len(variants) * len(cases)
    names = [label.get_text().replace("\n", "") for label in figure.axes[0].get_yticklabels()]
    assert names == [name for case in cases for name in (str(case), *variants)]


def test_its_words_are_large_enough_for_800_pixels_and_none_is_cut(report, picture):
    figure = picture(report)
    renderer = figure.canvas.get_renderer()
    for text in words_of(figure):
        pixels = text.get_fontsize() / 72 / figure.get_figwidth() * 800
        assert pixels > 11.5, text.get_text()
        box = text.get_window_extent(renderer)
        assert box.x0 >= -1, text.get_text()
        assert box.x1 <= figure.bbox.x1 + 1, text.get_text()
        assert -1 <= box.y0 < box.y1 <= figure.bbox.y1 + 1, text.get_text()
    assert SMALLEST >= 8


def test_its_paper_is_its_own_on_a_dark_ground(report, data):
    (chart,) = draw_charts(report, data, RawSeries(), only=["comparison"])
    (ground, *_) = re.findall(r'id="patch_1">.*?style="([^"]*)"', chart.svg.decode(), re.DOTALL)
    assert "fill: #ffffff" in ground


def test_what_is_not_primary_is_compared_next_to_it(data):
    throughput, memory = (
        build_report(with_primary(data, name)).comparison for name in ("ops_per_s", "rss_bytes")
    )
    assert compared_metrics(throughput) == ["ops_per_s", "fragmentation_rss"]
    assert compared_metrics(memory) == ["ops_per_s", "rss_bytes", "fragmentation_rss"]


def test_metrics_of_other_cases_take_no_room(data, picture):
    """A third metric has a row of its own, with the cases that it was measured in."""
    spec = with_primary(data, "ops_per_s", "fragmentation_rss", "fragmentation_mapped")
    report = build_report(spec)
    figure = picture(report)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 2  # glibc has no mapped memory: nothing to compare it with


def test_the_noise_floor_is_drawn_where_it_is_known(report, picture):
    def hatched(of):
        return sum(bool(c.get_hatch()) for axes in of.axes for c in axes.collections)

    floors = tuple(
        NoiseFloor(
            *(case.workload, case.bucket, "ops_per_s", "ratio", 0.01, 10),
            source="aa",
            measured_at="2026-11-20T10:00:00+00:00",
        )
        for case in report.comparison.cases
    )
    assert hatched(picture(report)) == 0
    assert hatched(picture(replace(report, noise=floors))) == 2 * 4


def test_an_empty_experiment_has_no_comparison(make):
    assert comparison_chart(build_report(make(blocks=0))) is None


def test_a_title_of_a_figure_lies_on_nothing(report):
    from perfrunner.report.charts.dots import dots_chart

    with drawing():
        figure = dots_chart(report.comparison, "ops_per_s")
        entitle(figure, "How far do trials spread? " * 5)
        png_bytes(figure)
        renderer = figure.canvas.get_renderer()
        (title,) = [text for text in figure.texts if "spread" in text.get_text()]
        bottom = title.get_window_extent(renderer).y0
        (legend,) = figure.legends
        assert legend.get_window_extent(renderer).y1 <= bottom
        assert max(axes.get_tightbbox(renderer).y1 for axes in figure.axes) <= bottom


def test_a_dozen_variants_differ_in_colour_mark_and_dashes():
    assert len(set(VARIANTS)) >= 12
    assert len(set(MARKERS)) >= 12
    assert len(DASHES) * A_DASH >= 12
    lines = [str(sorted(variant_line(n).items(), key=str)) for n in range(12)]
    assert len(set(lines)) == 12
    for first in range(
        0, 12, A_DASH
    ):  # those of one kind of line are distinguished by colours that are far apart
        for item, other in itertools.combinations(VARIANTS[first : first + A_DASH], 2):
            assert sum(abs(a - b) for a, b in zip(_rgb(item), _rgb(other), strict=True)) > 100


def _rgb(colour):
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


@pytest.mark.parametrize(
    ("metric", "variants", "asked"),
    [
        ("ops_per_s", ("glibc", "a", "b"), "Is any variant faster?"),
        ("ops_per_s", ("glibc", "jemalloc"), "Is jemalloc faster?"),
        ("fragmentation_rss", ("glibc", "a", "b"), "Does any variant waste less memory?"),
        ("latency_get_p99_us", ("glibc", "a", "b"), "Does any variant have lower latency?"),
        ("rss_bytes", ("glibc", "a", "b"), "Does any variant need less memory?"),
        ("server_cpu_us_per_op", ("glibc", "x" * 40), "Does any variant need less CPU time?"),
        ("HTB/Insert/historic", ("single", "a", "b"), "Does any variant take less time?"),
    ],
)
def test_the_question_of_a_metric(metric, variants, asked):
    assert question(metric_type(metric), variants) == asked
