"""The page: complete, self-contained, escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import synthetic

from perfrunner.errors import StoreError
from perfrunner.report import build_report, render, write_html
from perfrunner.report.environment import flatten
from perfrunner.report.page.assemble import SCRIPTS, workload_words
from perfrunner.report.page.tables import tables
from perfrunner.spec.workloads import SdkSpec


@pytest.fixture(scope="module")
def page(report, data, tmp_path_factory):
    return write_html(report, data, tmp_path_factory.mktemp("page") / "r.html").read_text()


class Outline(HTMLParser):
    DISCARDED = {"input", "meta", "link", "br", "wbr", "img", "path", "use", "stop"}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.stack, self.texts, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.DISCARDED:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.DISCARDED:
            assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.texts.append(data)


def test_every_element_is_closed_and_every_result_is_there(page, report):
    outline = Outline()
    outline.feed(page)
    assert outline.stack == []
    text = " ".join(" ".join(outline.texts).split())
    for row in report.comparison.rows:
        assert row.metric.id in text
        assert row.variant in text
    for sentence in report.sentences:
        for clause in sentence.clauses:
            assert clause.text in text
    assert sum(tag == "svg" for tag, _ in outline.tags) == 5  # for readers without scripts


@pytest.mark.long
def test_what_the_memory_is_made_of_is_pictured_with_scripts_too(make, tmp_path):
    data = make(blocks=2, discarded_block=None, workloads=("append",), buckets=("ephemeral",))
    assert 'id="chart-heap"' not in write_html(build_report(data), data, tmp_path / "a").read_text()
    messages = {"payload_bytes": 1e6, "allocator_frag_bytes": 3e6, "allocator_rss_bytes": 1e6}
    data = replace(
        data, trials=tuple(replace(t, metrics=t.metrics | messages) for t in data.trials)
    )
    text = write_html(build_report(data), data, tmp_path / "b").read_text()
    before, without_scripts = text.split("<noscript>")
    assert before.count('id="chart-heap"') == 1
    assert "free inside pages in use" in before.split('id="chart-heap"')[1]
    styles = re.findall(r"<style type[^>]*>(.*?)</style>", before.split('id="chart-heap"')[1])
    assert [style.split("{")[0] for style in styles] == ["svg.chart *"]  # none of the page's own
    assert 'id="chart-heap"' not in without_scripts
    assert 'id="chart-series-memory"' in without_scripts


def test_only_its_own_scripts_may_run(page):
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html.unescape(page))
    assert "default-src 'none'" in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == len(SCRIPTS)
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    assert "eval(" not in page


def test_the_first_screen_says_what_was_compared(page):
    text = " ".join(
        re.sub(r"<[^>]*>", " ", page.split("</style>")[1].split('id="explore"')[0]).split()
    )
    assert "20 % reads, 80 % writes" in text
    assert "AMD EPYC 7B13" in text
    assert "jemalloc-5.1.0,metadata_thp=always" in text
    assert page.count('class="effects" data-metric="ops_per_s"') == 1


def test_a_workload_of_the_sdk_is_reported_in_words():
    workload = SdkSpec(type="sdk", items=20_000).model_dump()
    assert workload_words(workload) == (
        "the Couchbase SDK, 80 % reads, 20 % writes of 256 B, one at a time in 2 processes a client;"
        " 20,000 documents, verified"
    )


def test_nothing_is_asked_of_any_server(page):
    page = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    refs = re.findall(r'(?:src|href|action)\s*=\s*"([^"]*)"', page)
    assert all(ref.startswith(("#", "data:")) for ref in refs), refs
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_what_people_wrote_is_text_not_markup(page):
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_the_raw_data_is_embedded(page, report, data):
    results = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    content = json.loads(results.group(1))
    assert content["report"] == json.loads(render(report, "json"))
    assert len(content["trials"]) == len(data.trials)
    assert content["trials"][0]["metrics"] == data.trials[0].metrics


def test_a_metric_has_a_unit_of_its_own_in_every_case(page):
    """Millions of operations a second in one case are thousands in another: neither is 0.09 of something."""
    results = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    charts = json.loads(results.group(1))["charts"]
    scales = dict(zip(charts["cases"], charts["metrics"]["ops_per_s"]["scales"], strict=True))
    assert scales["pillowfight · persistent"] == [1e6, "M ops/s"]
    assert scales["append · ephemeral"] == [1e3, "k ops/s"]


def test_spread_and_ends_are_in_the_scale_of_their_mean(report):
    """Published a mean of 88k ops/s stood 71.78 … 110.1."""
    (part, *_) = tables(report)[0]["parts"]
    (rate, *_) = [line for line in part[2] if line["metric"] == "ops_per_s"]
    assert re.match(r"[\d.]+[kM] ops/s", rate["mean"])
    assert re.fullmatch(r"[\d.]+[kM] … [\d.]+[kM]", rate["range"])
    assert re.fullmatch(r"[\d.]+[kM]", rate["sd"])


def test_a_hostile_reason_cannot_leave_the_data_element(make):
    from dataclasses import replace

    data = make(blocks=1, discarded_block=None)
    evil = "</script><script>alert(1)</script><!--"
    bad = replace(data.trials[0], status="discarded", reason=evil)
    data = replace(data, trials=(bad, *data.trials[1:]))
    page = synthetic.plain_page(data)
    assert "<script>alert(1)" not in page
    results = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(results.group(1))["trials"][0]["reason"] == evil


def test_the_same_data_gives_the_same_page(make, tmp_path):
    data = make(blocks=6, workloads=("append",), buckets=("ephemeral",))
    first, second = (
        write_html(build_report(data), data, tmp_path / name).read_bytes() for name in ("a", "b")
    )
    assert first == second


def test_a_page_of_an_empty_experiment(make, tmp_path):
    data = make(blocks=0)
    page = write_html(build_report(data), data, tmp_path / "r.html").read_text()
    assert "Nothing can be compared" in page
    assert "Nothing to draw" in page


def test_a_place_that_cannot_be_written_is_an_error(make, tmp_path):
    data = make(blocks=0)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        write_html(build_report(data), data, blocked / "r.html")


def test_what_all_builds_have_in_common_is_reported_once(page, data):
    builds = page[page.index("<summary>Builds (") : page.index("<summary>All recorded facts (")]
    own, shared = builds.split("Common to all builds")
    facts = [set(flatten(build.provenance).items()) for build in data.builds]
    alike = {key for key, _ in set.intersection(*facts)}
    assert alike
    assert all(f"<dt>{key}</dt>" in shared and f"<dt>{key}</dt>" not in own for key in alike)
    assert all(build.build_id in own for build in data.builds)
