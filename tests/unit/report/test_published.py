"""The section *Published values*: the same lines in every format."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from synthetic import VARIANTS

from perfrunner.report import build_report, render
from perfrunner.report.charts import draw_charts
from perfrunner.report.page import html_text
from perfrunner.report.published import measured_change
from perfrunner.report.render import read_raw
from perfrunner.results.raw import RawSeries
from perfrunner.spec.expectations import PublishedValues

GLIBC, JEMALLOC, THP = VARIANTS
TABLES = [
    {
        "title": "throughput | by hand",
        "workload": "pillowfight",
        "bucket": "persistent",
        "n": 10,
        "rows": [
            {"metric": "ops_per_s", "label": "ops/s",
             "values": {GLIBC: 1_831_406, JEMALLOC: 1_841_475, THP: 1_852_863}},
            {"metric": "latency_get_p50_us", "values": {"elsewhere": 12.5}},
        ],
    },
    {
        "title": "fragmentation",
        "workload": "append",
        "bucket": "ephemeral",
        "rows": [{"metric": "fragmentation_rss", "values": {GLIBC: 39, JEMALLOC: 43, THP: 35}}],
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def published():
    return PublishedValues.model_validate({
        "claim": "it is faster", "source": "a commit <message>", "why": "another machine",
        "not_here": ["elsewhere"], "tables": TABLES,
    })  # fmt: skip


@pytest.fixture(scope="module")
def compared(data, published):
    return build_report(data, published=published)


def test_every_published_value_has_its_line(compared):
    assert len(compared.published_lines) == 7
    matches = {(b.metric.id, b.variant): b.agreement for b in compared.published_lines}
    assert matches == {
        ("ops_per_s", GLIBC): None,
        ("ops_per_s", JEMALLOC): matches["ops_per_s", JEMALLOC],
        ("ops_per_s", THP): "agrees",
        ("latency_get_p50_us", "elsewhere"): None,
        ("fragmentation_rss", GLIBC): None,
        ("fragmentation_rss", JEMALLOC): "disagrees",
        ("fragmentation_rss", THP): "disagrees",
    }


def test_the_recorded_published_is_used(data, published):
    from dataclasses import replace

    recorded = {**data.experiment.spec_json, "published": published.model_dump(mode="json")}
    stored = replace(data, experiment=replace(data.experiment, spec_json=recorded))
    assert build_report(stored).published == published
    assert build_report(data).published_lines == ()


@pytest.mark.parametrize("fmt", ["terminal", "markdown"])
def test_people_read_both_effects_and_the_word(compared, fmt):
    text = " ".join(render(compared, fmt).split())
    for part in ("a commit", "+1.2 %", "disagrees 2", "another machine", "not measured"):
        assert part in text
    assert "+4 pt" in text
    assert "\N{MINUS SIGN}4 pt" in text


def test_a_title_does_not_end_a_markdown_case(compared):
    assert "throughput \\| by hand" in render(compared, "markdown")


def test_json_has_plain_numbers(compared):
    (line,) = [
        entry for entry in json.loads(render(compared, "json"))["published"]
        if entry["variant"] == THP and entry["metric"] == "fragmentation_rss"
    ]  # fmt: skip
    assert line["published"] == {"value": 35, "n": None, "spread": ""}
    assert line["published_effect"] == -4
    assert (
        line["measured_effect_ci95"][0] < line["measured_effect"] < line["measured_effect_ci95"][1]
    )
    assert line["agreement"] == "disagrees"


def test_a_commit_message_gets_the_whole_table_on_demand(compared):
    short, whole = render(compared, "commit"), render(compared, "commit", every=True)
    assert "1,831,406" not in short
    for part in ("1,831,406", "1,852,863", "  published", "  measured", "+1.2 %", "disagrees"):
        assert part in whole
    assert max(map(len, whole.splitlines())) <= 72
    assert whole.isascii()


def test_no_number_of_a_commit_message_is_cut(compared):
    """An interval that lost its last digits is another interval."""
    whole = render(compared, "commit", every=True)
    for line in compared.published_lines:
        if line.measured is None or line.measured.effect is None:
            continue
        _, _, interval = measured_change(line).partition(" [")
        assert f"[{interval}".replace(", ", ",").replace("\N{MINUS SIGN}", "-") in whole
    assert "1,831,406 ops/s" in whole
    large = _table_of(compared, ci95=(1 / 40_300, 1 / 32_600), estimate=1 / 36_200)
    assert "[32,600,40,300]" in large
    assert max(map(len, large.splitlines())) <= 72


def _table_of(compared, estimate, ci95):
    def changed(line):
        if (
            line.measured is None
            or line.measured.effect is None
            or line.measured.effect.kind != "ratio"
        ):
            return line
        effect = replace(line.measured.effect, estimate=estimate, ci95=ci95)
        return replace(line, measured=replace(line.measured, effect=effect))

    changed_lines = tuple(map(changed, compared.published_lines))
    return render(replace(compared, published_lines=changed_lines), "commit", every=True)


def test_the_page_and_its_chart(compared, data):
    raw = read_raw(compared, data)
    (chart,) = charts = draw_charts(compared, data, raw, names=["published"])
    assert b"published" in chart.svg
    page = html_text(compared, data, raw, charts, None)
    assert 'id="published"' in page
    assert "a commit &lt;message&gt;" in page
    assert "chart-published" in page


def test_without_published_values_there_is_no_section(report, data):
    assert "published" not in json.loads(render(report, "json"))
    assert "published values" not in render(report, "terminal")
    assert 'id="published"' not in html_text(report, data, RawSeries(), [], None)
