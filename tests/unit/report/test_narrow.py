"""What is pasted or read in little room: pull requests, commit messages, twelve variants on a narrow terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from perfrunner.analysis.published import published_lines
from perfrunner.cli import main
from perfrunner.report import build_report, render
from perfrunner.report.charts import draw_charts
from perfrunner.report.numbers import folded
from perfrunner.report.render import read_raw
from perfrunner.spec.expectations import PublishedValues
from tools.writeups.archive import read_archive

TWELVE = (
    "glibc",
    *(f"jemalloc-5.1.0,metadata_thp=always,narenas={n}" for n in range(1, 7)),
    *(
        f"jemalloc-5.1.0,background_thread=true,metadata_thp={how}"
        for how in ("auto", "always", "disabled")
    ),
    "jemalloc-5.0.1",
    "system",
)
PUBLISHED = PublishedValues.model_validate(
    {
        "source": "a commit <message>",
        "tables": [
            {
                "title": "throughput",
                "workload": "append",
                "rows": [
                    {
                        "label": "ops/s", "metric": "ops_per_s", "workload": "append", "bucket": "ephemeral",
                        "values": {name: 1_831_406 + 10_000 * n for n, name in enumerate(TWELVE)},
                    }
                ],
            }
        ],
    }
)  # fmt: skip


@pytest.fixture
def twelve(make):
    return make(
        blocks=6,
        discarded_block=None,
        workloads=("append",),
        buckets=("ephemeral",),
        variants=TWELVE,
    )


@pytest.fixture
def small(report):
    """Every better or worse of the report within its margin."""
    rows = tuple(
        replace(row, small=True) if row.verdict in ("better", "worse") else row
        for row in report.comparison.rows
    )
    return replace(report, comparison=replace(report.comparison, rows=rows))


# -- a pull request


def test_markdown_is_a_sentence_a_small_table_and_folds(report):
    text = render(report, "markdown")
    head, _, rest = text.partition("<details>")
    tables = [line for line in head.splitlines() if line.startswith("|:--")]
    assert len(tables) == 1
    assert head.index("- **jemalloc-5.1.0**") < head.index("|:--")
    assert "### " not in head
    outside = re.sub(r"<details>.*?</details>", "", f"<details>{rest}", flags=re.DOTALL)
    left = [line for line in outside.splitlines() if line]
    assert [line.partition(":")[0] for line in left] == ["Chart to attach", "Reproduce"]


def test_even_the_published_section_is_folded(report):
    compared = replace(
        report, published=PUBLISHED, published_lines=published_lines(PUBLISHED, report.comparison)
    )
    text = render(compared, "markdown")
    assert text.index("<details>") < text.index("Published values")
    assert text.count("<details>") == text.count("</details>") == text.count("</summary>")


def test_github_reads_the_folds_as_markdown(report):
    """HTML ends at a blank line: without one behind it, a table in a fold stays text."""
    text = render(report, "markdown", every=True)
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("<details>"):
            assert line.endswith("</summary>")
            assert lines[number - 1] == lines[number + 1] == ""
        if line == "</details>":
            assert lines[number - 1] == lines[number + 1] == ""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    tables = [token for token in tokens if token.type == "table_open"]
    assert len(tables) == 1 + len(report.comparison.cases)
    html = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert len(html) == text.count("<details>") + text.count("</details>")


@pytest.mark.long
def test_the_chart_to_attach_is_named_and_is_drawn_under_that_name(report, data, demo, tmp_path):
    (line,) = [
        x for x in render(report, "markdown").splitlines() if x.startswith("Chart to attach")
    ]
    assert line == "Chart to attach: `charts/comparison.png` (draw it with `--charts charts`)"
    drawn = draw_charts(report, data, read_raw(report, data), names=("comparison",))
    assert {chart.name for chart in drawn} == {"comparison"}
    words = ["report", "--format", "markdown", "--charts", str(tmp_path), "--out", str(demo)]
    text = CliRunner().invoke(main, words, catch_exceptions=False).stdout
    path = re.search(r"Chart to attach: `([^`]+)`\n", text)[1]
    assert Path(path).is_file()


# -- a commit message


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_small_difference_is_called_small_everywhere(small, width):
    rows = [row for row in small.comparison.rows if row.primary and row.small]
    assert rows
    commit = render(small, "commit")
    assert len(re.findall(r"(?:better|worse) \(small\)", commit)) == len(rows)
    assert max(map(len, commit.splitlines())) <= 72
    text = render(small, "terminal", console=Console(width=width, file=io.StringIO()))
    table = text.partition("ops_per_s")[2]
    assert len(re.findall(r"small", table)) == len(rows)
    assert "(small)" in render(small, "markdown").partition("<details>")[0].partition("|:--")[2]


def test_variants_of_a_historic_table_are_never_cut_alike(twelve):
    report = build_report(twelve, published=PUBLISHED)
    text = render(report, "commit", every=True)
    assert max(map(len, text.splitlines())) <= 72
    titles = [
        name
        for before, line in zip(text.splitlines(), text.splitlines()[1:], strict=False)
        if line == "ops/s"
        for name in before.split()
    ]
    assert len(titles) == len(set(titles)) == 12
    for n in range(12):
        assert f"{1_831_406 + 10_000 * n:,}" in text


# -- what was published, at 80 columns


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("ops_per_s", 20, ["ops_per_s"]),
        ("CheckpointBench/GetCursorsToDrop/10000 ↓ (µs)", 34, ["CheckpointBench/GetCursorsToDrop/", "10000 ↓ (µs)"]),
        ("1 000 000 inserts, PeakBytesPerItem", 16, ["1 000 000", "inserts,", "PeakBytesPerItem"]),
        ("ExtractClosedUnrefCheckpoints", 16, ["ExtractClosed", "UnrefCheckpoints"]),
        ("fragmentation_payload_rss ↓", 22, ["fragmentation_payload_", "rss ↓"]),
        ("nothingtobreakat", 5, ["nothingtobreakat"]),
    ],
)  # fmt: skip
def test_labels_are_broken_at_their_seams(text, width, lines):
    assert folded(text, width).split("\n") == lines


def test_metrics_of_programs_are_broken_at_their_seams_on_a_terminal():
    (data, *_) = read_archive(ARCHIVES[0].with_name("flush-persistence-callback.json.gz"))
    text = render(build_report(data), "terminal", console=Console(width=80, file=io.StringIO()))
    assert re.search(r"^ +FlushVBucket/ +FlushVBucket/$", text, re.MULTILINE)
    assert re.search(r"^PeakBytesPerItem  transaction ", text, re.MULTILINE)
    assert "10 000 inserts " in text


ARCHIVES = sorted((Path(__file__).parents[3] / "docs" / "experiments" / "data").glob("*.json.gz"))
# Programs; many variants.
MANY_SHAPES = ("flush-persistence-callback", "jemalloc-metadata-thp-matrix")
NUMBER = r"[\d,]+(?:\.\d+)?"
CHANGE = re.compile(
    rf"(?:[+\N{{MINUS SIGN}}]{NUMBER} \S+ \[(?:[+\N{{MINUS SIGN}}]{NUMBER}, [+\N{{MINUS SIGN}}]{NUMBER}|exact)\]"
    rf"|[\N{{MULTIPLICATION SIGN}}÷]{NUMBER} \[(?:{NUMBER}, {NUMBER}|exact)\]) [✔✘=?]( small)?( (more|less) CPU)?"
)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if name in MANY_SHAPES else pytest.mark.long, id=name)
        for path in ARCHIVES
        for name in [path.name.partition(".")[0]]
    ],
)
def test_what_was_published_fits_80_columns_in_one_notation(path):
    for data in read_archive(path):
        report = build_report(data)
        console = Console(width=80, file=io.StringIO())
        for shown in ({}, {"every": True, "verbose": True}):
            text = render(report, "terminal", console=console, **shown)
            assert max(map(cell_len, text.splitlines())) <= 80
        table = render(report, "terminal", console=console).partition("[95 % interval]")[0]
        changes = [
            case
            for line in table.splitlines()
            for case in re.split(r"\s{2,}", line.strip())
            if re.search(r" [✔✘=?]( small)?( (more|less) CPU)?$", case)
        ]
        judged = [r for r in report.comparison.rows if r.primary and r.effect and r.verdict]
        assert len(changes) == len(judged)
        assert [case for case in changes if not CHANGE.fullmatch(case)] == []


# -- twelve variants


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("verbose", [False, True])
def test_twelve_variants_on_a_terminal_have_whole_names(twelve, width, verbose):
    report = build_report(twelve)
    console = Console(width=width, file=io.StringIO())
    text = render(report, "terminal", console=console, verbose=verbose)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert _first_columns(text)[: len(TWELVE)] == list(TWELVE)
    assert len(re.findall(r"[+\N{MINUS SIGN}]\d+\.\d+ %", text)) >= 11
    # One table of it.
    assert len([line for line in text.splitlines() if "86.9k ops/s" in line]) == 1


def _first_columns(text):
    """The names of the first table whose lines are variants, as they were before they were folded."""
    lines = text.splitlines()
    (number, heading), *_ = [
        (n, line) for n, line in enumerate(lines) if line.startswith("   ") and "ops_per_s" in line
    ]
    start = heading.index("ops_per_s")
    results = []
    for line in lines[number + 1 :]:
        if not line or line.startswith("["):
            break
        if line[start:].strip():
            results.append(line[:start].strip())
        else:
            results[-1] += line.strip()
    return results
