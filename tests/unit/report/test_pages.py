"""Write-ups: their tables are those of the kept results, and nothing is claimed that these do not say."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from perfrunner.domain import Case
from perfrunner.errors import StoreError, UsageError
from perfrunner.report import build_report, render
from tools.writeups import archive
from tools.writeups.archive import archive_bytes, read_archive
from tools.writeups.pages import charts_of, data_file, image_file, lines_of, read_page
from tools.writeups.publish import publish
from tools.writeups.regions import renewed

EXPERIMENTS = Path(__file__).parents[3] / "docs" / "experiments"
PAGES = sorted(EXPERIMENTS.glob("*.md"))
CLUSTER = {"name": "here", "transport": "local", "hosts": {"here": {}},
           "engine_nodes": ["here"], "load_clients": ["here"]}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_says_what_its_results_say(page):
    """Fails when text and numbers part. To renew a page from its numbers: scripts/publish NAME --kept."""
    assert renewed(page) == page.read_text(encoding="utf-8")
    for chart in charts_of(page):
        if data_file(page).exists():
            assert image_file(page, chart).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_equality_is_claimed_only_with_its_verdict(page):
    """Prose may say *same* (a verdict). "Alike", "stays", "no difference" claim equality without having shown it."""
    prose = re.sub(r"<!-- generated.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    claims = (
        r"\b(are alike|stays? (where|the same)|makes? no difference|does not see|do(es)? not differ"
        r"|changes? nothing|differs? nowhere|(gains?|costs?) as much as)\b"
    )
    hits = [line for line in prose.splitlines() if re.search(claims, line)]
    assert hits == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_how_many_blocks_were_run_is_reported_by_the_run_alone(page):
    """A count by hand parts from the next run."""
    assert not re.findall(r"^\d+ blocks?\b.*", page.read_text(), flags=re.MULTILINE)


@pytest.fixture
def page(tmp_path, data):
    """A page about the synthetic experiment, with its spec, its index and nothing kept."""
    workloads = {name: {"type": name, "items": 1000} for name in ("pillowfight", "append")}
    workloads["pillowfight"]["duration"] = "5s"
    variants = {v: {"allocator": {"name": v.split(",")[0].replace("glibc", "system")}}
            for v in data.experiment.spec_json["variants"]}  # fmt: skip
    values = dict(zip(variants, (1000, 1012, 1031), strict=True))
    spec = {
        "name": "quickstart", "description": "three allocators", "cluster": CLUSTER, "baseline": "glibc",
        "variants": variants, "workloads": workloads,
        "buckets": ["persistent", "ephemeral"],
        "published": {"source": "a commit", "claim": "faster", "tables": [
            {"title": "rate", "workload": "append", "bucket": "ephemeral",
             "rows": [{"metric": "ops_per_s", "label": "ops/s", "values": values}]}]},
    }  # fmt: skip
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    regions = (
        "run",
        "published",
        "deviations append/ephemeral ops_per_s",
        "table append/ephemeral ops_per_s,latency_*_p99_us",
        "findings",
        "chart published",
    )
    docs = tmp_path / "docs" / "experiments"
    docs.mkdir(parents=True)
    path = docs / "quickstart.md"
    body = "".join(f"<!-- generated: {what} -->\nby hand\n<!-- end -->\n" for what in regions)
    path.write_text(f"<!-- spec: ../../spec.yaml -->\n# A page\n\nProse.\n\n{body}")
    (docs / "README.md").write_text(
        "<!-- generated: contents quickstart.md -->\n<!-- end -->\n"
        "<!-- generated: overview quickstart.md -->\n<!-- end -->\n"
    )
    return path


def test_before_anything_is_kept_the_page_shows_theirs_and_what_was_typed(page):
    text = renewed(page)
    assert "| ops/s | 1,000 ops/s | 1,012 ops/s (+1.2 %) | 1,031 ops/s (+3.1 %) |" in text
    assert text.count("by hand") == 4
    assert "No run is kept yet: `scripts/publish quickstart` measures one." in text


def test_publishing_keeps_the_numbers_and_renews_page_chart_and_index(page, data):
    written = publish(page, data)
    assert {p.name for p in written} == {
        "quickstart.json.gz", "quickstart-published.svg", "quickstart.md", "README.md",
    }  # fmt: skip
    text = page.read_text()
    assert "by hand" not in text
    assert "Prose." in text
    assert f"| seed | {data.experiment.seed} |" in text
    assert "| `latency_get_p99_us` |" in text
    assert "agree" in text
    first = build_report(data).rows(Case("append", "ephemeral"))["ops_per_s"][0].summary
    largest = max(abs(value - first.mean) for value in first.values.values())
    assert f"| `ops_per_s` | {largest / 1e3:.3f}k ops/s |" in text
    assert renewed(page) == text
    index = (page.parent / "README.md").read_text()
    trials = len(data.trials)
    assert f"| [A page](quickstart.md) | three allocators | `spec.yaml` | {trials} | " in index
    assert "[quickstart](quickstart.md): faster" in index
    assert "✔ agrees" in index


def test_the_overview_counts_every_published_change_and_shows_each_that_disagrees(page, data):
    spec = yaml.safe_load((page.parents[2] / "spec.yaml").read_text())
    (table,) = spec["published"]["tables"]
    variants = [v for v in spec["variants"] if v != "glibc"]
    table["rows"] += [
        # Not primary; ours goes the other way: less time an operation where there are more of them.
        {
            "metric": "server_cpu_us_per_op",
            "label": "CPU",
            "values": {"glibc": 1.0, variants[1]: 9.0},
        },
        {"metric": "step_s", "label": "unmeasured", "values": {"glibc": 1, variants[0]: 2}},
    ]
    (page.parents[2] / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    publish(page, data)
    index = (page.parent / "README.md").read_text()
    agreements = [line.agreement for line in lines_of(read_page(page)) if line.effect is not None]
    assert len(agreements) == 4
    for word, verb in (
        ("agrees", "agree"),
        ("disagrees", "disagree"),
        ("cannot tell", "cannot be judged"),
    ):
        assert f"{agreements.count(word)} {verb}" in index
    assert "1 not measured" in index
    assert "| rate: CPU, " in index
    assert index.count("disagrees |") == agreements.count("disagrees") == 1
    assert "unmeasured" not in index


def test_a_chart_of_series_is_of_the_run_and_stays_when_only_its_numbers_are_there(page, data):
    """The series themselves are not kept."""
    page.write_text(page.read_text() + "\n<!-- generated: chart series-memory -->\n<!-- end -->\n")
    publish(page, data)
    picture = image_file(page, "series-memory")
    drawn = picture.read_bytes()
    assert picture in publish(page, data)
    assert picture not in publish(page)
    assert picture.read_bytes() == drawn
    assert f"images/{picture.name}" in page.read_text()
    picture.unlink()
    with pytest.raises(UsageError, match="charts that its results cannot produce: series-memory"):
        publish(page)


def test_a_number_that_is_changed_by_hand_is_found(page, data):
    publish(page, data)
    text = page.read_text()
    page.write_text(re.sub(r"(append.*?)\+(\d)", r"\1+9\2", text, count=1))
    assert page.read_text() != text
    assert renewed(page) == text


def test_a_later_run_of_one_workload_stands_next_to_the_kept_ones(page, data):
    publish(page, data)
    mine = tuple(t for t in data.trials if t.workload == "append")
    later = replace(data, experiment=replace(data.experiment, id="later", seed=7), trials=mine)
    publish(page, later, add=True)
    text = page.read_text()
    assert [d.experiment.id for d in read_archive(data_file(page))] == [data.experiment.id, "later"]
    assert f"| run | `{data.experiment.id}` | `later` |" in text
    assert "| workloads | pillowfight | append |" in text
    assert f"| seed | {data.experiment.seed} | 7 |" in text
    publish(page, data)
    assert len(read_archive(data_file(page))) == 1


def test_a_later_run_of_one_bucket_type_stands_next_to_the_other(page, data):
    publish(page, data)
    before = page.read_text()
    trials = tuple(
        t for t in data.trials if (t.workload, t.bucket) == ("append", "persistent")
    )  # fmt: skip
    later = replace(data, experiment=replace(data.experiment, id="later", seed=7), trials=trials)
    publish(page, later, add=True)
    text = page.read_text()
    assert [d.experiment.id for d in read_archive(data_file(page))] == [data.experiment.id, "later"]
    assert f"| run | `{data.experiment.id}` | `later` |" in text
    assert "| workloads | pillowfight, append · ephemeral | append · persistent |" in text
    table = "<!-- generated: table append/ephemeral"
    assert (
        text[text.index(table) :].split("<!-- end -->")[0]
        == (before[before.index(table) :].split("<!-- end -->")[0])
    ), "the kept run's"


def test_a_pattern_that_matches_nothing_is_no_table_with_a_line_less(page, data):
    publish(page, data)

    def with_patterns(patterns):
        text = page.read_text()
        page.write_text(re.sub(r"(table append/ephemeral) \S+", rf"\1 {patterns}", text))

    with_patterns("ops_per_s,ops_per_sec")
    with pytest.raises(UsageError, match="no metric of append · ephemeral matches ops_per_sec"):
        renewed(page)
    with_patterns("ops_per_s,?ops_per_sec")
    assert "| `ops_per_s` |" in renewed(page)
    with_patterns("?ops_per_sec,?vsz_byte")
    with pytest.raises(UsageError, match="no metric of append"):
        renewed(page)


def test_an_experiment_of_another_spec_is_refused(page, data):
    other = replace(data, experiment=replace(data.experiment, name="other"))
    with pytest.raises(UsageError, match="is about quickstart"):
        publish(page, other)


def test_an_unknown_region_is_an_error(page, data):
    publish(page, data)
    page.write_text(page.read_text().replace("generated: findings", "generated: finding"))
    with pytest.raises(UsageError, match="unknown region 'finding'"):
        renewed(page)


def test_an_archive_gives_the_same_report_and_the_same_bytes(data, tmp_path):
    content = archive_bytes([data])
    assert content == archive_bytes([data])
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)
    (back,) = read_archive(path)
    assert render(build_report(back), "markdown", every=True) == render(
        build_report(data), "markdown", every=True
    ).replace(data.experiment.spec_path, Path(data.experiment.spec_path).name)
    assert archive_bytes([back]) == content


def test_an_archive_with_allocator_profiles_is_read_with_presets(data, tmp_path):
    def specified(key):
        allocator = {"name": "jemalloc-5.1.0", key: "historic"}
        spec = {**data.experiment.spec_json, "variants": {"a": {"allocator": allocator}}}
        return replace(data, experiment=replace(data.experiment, spec_json=spec))

    path = tmp_path / "x.json.gz"
    path.write_bytes(archive_bytes([specified("profile")]))
    (back,) = read_archive(path)
    assert back.experiment.spec_json == specified("preset").experiment.spec_json


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (gzip.compress(b" " * 5000, mtime=0), "larger than"),
        (gzip.compress(b"[" * 3000, mtime=0), "not an archive"),
        (gzip.compress(b"{}", mtime=0)[:-9] + b"\xff" * 9, "x.json.gz"),
        (b"no gzip at all", "x.json.gz"),
    ],
    ids=["too large", "not JSON", "cut off", "not gzip"],
)
def test_an_archive_that_is_none_is_refused(tmp_path, monkeypatch, content, output):
    """Among them one that would fill the memory."""
    monkeypatch.setattr(archive, "LARGEST", 4000)
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=output):
        read_archive(path)


def test_what_stripes_cost_is_what_the_types_say():
    """The table of the page, next to the one that the C++ test checks against the types."""
    source = EXPERIMENTS.parents[1] / "engine_src" / "bucket" / "hash_table_memory_test.cc"
    computed = [
        tuple(map(int, row.split(","))) for row in re.findall(r"\{([\d, ]+)\},", source.read_text())
    ]
    page = (EXPERIMENTS / "hashtable-stats-striping.md").read_text()
    shown = [
        [case.strip() for case in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.endswith(" MiB |")
    ]
    assert [tuple(map(int, row[:6])) for row in shown] == computed
    for row in shown:
        for bytes_each, text in ((row[4], row[6]), (row[5], row[7])):
            assert text == f"{int(bytes_each) * 1024 / 2**20:.2f} MiB"


def test_an_archive_names_no_path_of_the_machine():
    for path in (EXPERIMENTS / "data").glob("*.json.gz"):
        text = gzip.decompress(path.read_bytes()).decode()
        assert not re.search(r'"/(root|home|tmp|work)/', text)
        assert path.stat().st_size < 200_000


def test_what_is_no_archive_is_reported(tmp_path):
    path = tmp_path / "x.json.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(StoreError, match=r"cannot read|no experiments"):
        read_archive(path)
