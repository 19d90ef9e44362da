"""`perfrunner site`: everything in stores, as files that open from disk."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import pytest
import synthetic
import synthetic_nights
from click.testing import CliRunner
from synthetic_nights import LOST, RUNS

from perfrunner.cli import main
from perfrunner.report.html import slug


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Nights of one spec, with a gain that is lost; and in another store one run of another spec."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    synthetic_nights.write(first)
    synthetic.write(second, replace(synthetic_nights.SHAPE, blocks=2), "other-1")
    return first, second


@pytest.fixture(scope="module")
def site(stores, tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    words = ["site", str(directory), *(w for store in stores for w in ("--out", str(store)))]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert "index.html" in result.stderr
    return directory


def test_the_index_has_all_experiments_the_newest_first(site):
    text = (site / "index.html").read_text()
    ids = re.findall(r'<th scope="row">(?:<a href="[^"]*">)?([\w-]+)', text)
    nights = [f"nightly-{n:02d}" for n in reversed(range(1, RUNS))]
    assert ids == [*nights, "other-1", "nightly-00"]  # the last two began at the same time


def test_every_link_leads_to_a_file(site):
    links = {
        (page, link)
        for page in site.glob("*.html")
        for link in re.findall(r'(?:href|src)="([^"#:]+)"', page.read_text())
    }
    assert len({link for _, link in links}) >= 8
    assert [(page.name, link) for page, link in links if not (page.parent / link).is_file()] == []
    assert any(link.endswith("nightly-13/report.html") for _, link in links)


def test_a_specs_page_has_its_history_with_the_lost_expected_gain(site):
    text = (site / "spec-nightly.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [chart["metric"] for chart in data["charts"]] == [
        "ops_per_s",
        "fragmentation_rss",
        "server_cpu_us_per_op",
    ]
    (series,) = [s for s in data["charts"][0]["series"] if s["effect"] == "ratio"]
    assert len(series["runs"]) == RUNS
    assert [level["first"] for level in series["levels"]] == [0, LOST]
    assert series["verdicts"] == [None, "worse"]
    assert series["runs"][LOST]["build_id"] == "b1"
    assert series["runs"][LOST]["commit"] == "c" * 12
    assert data["links"]["nightly-13"].endswith("nightly-13/report.html")
    assert data["links"]["nightly-12"] is None


def test_there_is_a_page_for_each_variant_and_host(site):
    names = {path.name for path in site.glob("*.html")}
    assert {"variant-glibc.html", "variant-jemalloc-5.1.0.html"} <= names
    (host,) = site.glob("host-*.html")
    assert "AMD EPYC 7B13" in host.read_text()
    assert "nightly-00" in host.read_text()


def test_the_index_says_what_changed_lately_and_when(site):
    text = html.unescape((site / "index.html").read_text())
    messages = re.findall(r'<span class="change">(.*?)</span>', text)
    assert messages == [
        f"worse: ops_per_s of jemalloc-5.1.0 against glibc on append · ephemeral since nightly-{LOST}"
        " (2026-12-02)"
    ]
    assert 'href="index.html"' not in text  # the index leads to others, not to itself


def test_a_variants_page_says_what_it_is(site):
    text = (site / "variant-jemalloc-5.1.0.html").read_text()
    facts = re.search(r'<dl class="context">(.*?)</dl>', text, re.DOTALL)[1]
    assert "<dd>jemalloc-5.1.0" in facts
    assert f"({RUNS + 1} runs)" in facts  # those of both stores


def test_different_names_are_different_files():
    names = ("a-b", "a_b", "a b", "x_y+z", "x+y_z", "A-B")
    assert slug("a-b") == "a-b"
    assert len({slug(name) for name in names}) == len(names)


def test_no_store_is_an_error(tmp_path):
    result = CliRunner().invoke(main, ["site", str(tmp_path), "--out", str(tmp_path / "none")])
    assert result.exit_code == 3
    assert result.stderr.startswith("error: ")
