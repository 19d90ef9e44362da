"""The comment for a pull request: found again, short enough, and without markup or mentions of its own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from perfrunner.report import build_report, render
from perfrunner.report.markdown import HEADER, MOST_CHARACTERS, markdown_text
from perfrunner.report.published import plain


def test_a_comment_begins_with_the_line_by_which_it_is_found_again(report):
    comment = render(report, "github-comment")
    assert comment.splitlines()[:2] == ["<!-- perfrunner: quickstart -->", "## quickstart"]
    markdown = re.sub(r"Chart to attach: .*\n\n", "", render(report, "markdown"))
    assert comment.split("\n", 1)[1] == markdown


def test_a_comment_of_ab_is_the_same_one_for_all_revisions(report):
    ab = replace(report, experiment=replace(report.experiment, name="ab-main-0c1d2e3"))
    assert render(ab, "github-comment").startswith("<!-- perfrunner: ab -->\n")


def test_a_comment_has_room_in_a_pull_request(report):
    long = replace(report, notes=tuple(f"note {n} {'x' * 100}" for n in range(900)))
    whole, comment = render(long, "markdown"), render(long, "github-comment")
    assert len(whole) > MOST_CHARACTERS >= len(comment)
    assert comment.count("<details>") == comment.count("</details>")
    assert "Notes" not in comment
    assert "Results: relevant metrics" in comment
    assert "1 section of details is left out" in comment
    assert comment.rstrip().splitlines()[-1].startswith("Reproduce: `")


def test_a_comment_that_is_long_without_details_is_cut(report):
    long = replace(report, warnings=tuple(f"warning {n} {'x' * 100}" for n in range(900)))
    comment = render(long, "github-comment")
    assert len(comment) <= MOST_CHARACTERS
    assert "the rest is left out" in comment


def test_a_comment_calls_nobody(report):
    called = replace(report, notes=("by @somebody, mail a@example.org", "@x and @y"))
    comment = render(called, "github-comment")
    assert re.search(r"@(?!<!-- -->)\w", re.sub(r"`[^`]*`", "", comment)) is None
    assert "by @<!-- -->somebody" in comment
    # A title of a commit keeps its backticks, which are no code in the comment.
    titled = replace(report, sources=("ab1 honour `@somebody` and `x`",))
    assert "\\`@<!-- -->somebody\\`" in render(titled, "github-comment")


def test_a_comment_names_no_issue_and_no_request(report):
    """Each would list the comment, again at every update."""
    titled = replace(report, sources=("ab1 fix #12 (o/r#13, GH-14, !15)", "run `x #16`"))
    comment = render(titled, "github-comment")
    for number in (12, 13, 14, 15):
        assert re.search(rf"[#!-]<!-- -->{number}\b", comment)
    assert "\\`x \\#<!-- -->16\\`" in comment


def test_a_title_is_shown_as_it_is_written():
    assert plain("main~~2~~ &lt; a") == "main\\~\\~2\\~\\~ \\&lt; a"


def test_a_text_that_begins_with_a_hyphen_is_one_line():
    assert plain("-1\n# x") == "\N{MINUS SIGN}1 \\# x"


def test_no_name_and_no_command_becomes_markup(report):
    """An archive of a stranger may name its variants as it likes."""
    name = "a`|*b* <b>@somebody</b>"
    comparison = replace(report.comparison, baseline=name)
    hostile = replace(report, comparison=comparison, reproduce=f"perfrunner run '{name}\n# x'")
    comment = render(hostile, "github-comment")
    assert f"Change against ``{name}``, paired by block" in comment
    assert comment.endswith(f"Reproduce: ``perfrunner run '{name} # x'``\n")


@pytest.mark.parametrize("metric", ["Map<K, V>/a|b", "`tick`/a"])
def test_a_metric_with_any_name_fills_one_cell(data, metric):
    named = [replace(t, metrics={metric: t.metrics["ops_per_s"]}) for t in data.trials]
    record = replace(data.experiment, spec_json={**data.experiment.spec_json, "primary": [metric]})
    text = markdown_text(build_report(replace(data, trials=named, experiment=record)), every=True)
    cells = {
        len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| `")
    }
    heads = {1 + len(HEADER), 2 + len(record.spec_json["variants"])}
    assert cells == heads
    assert not re.search(r"\d  \[", text)  # a metric without a unit has no gap either
