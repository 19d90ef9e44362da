"""Profiles in every form of the report: the graph's grouping and colours, the table of functions, what is missing."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
import synthetic
from test_json_schemas import wrong

from perfrunner.measure.cpu_profile import Folded
from perfrunner.report import build_report, render
from perfrunner.report import profiles as texts
from perfrunner.report.flame import boxes, colour_of, difference_svg, flame_svg
from perfrunner.report.numbers import minus
from perfrunner.report.profiles import frames

GLIBC, JEMALLOC, THP = synthetic.VARIANTS
LONG = "kv::Map<" + "std::pair<int, kv::Blob>, " * 6 + "int>::find<true>"
STACKS = {
    GLIBC: {("fe", "run", "malloc"): 50, ("fe", "run", "<script>"): 50},
    JEMALLOC: {("fe", "run", "je_malloc"): 10, ("fe", "run", "<script>"): 90},
    THP: {("fe", "run", LONG): 5, ("fe", "run", "<script>"): 95},
}
BUCKETS = ("persistent", "ephemeral")


def record(variant: str, bucket: str, **changes: object) -> dict[str, object]:
    taken: dict[str, object] = {
        "workload": "pillowfight", "bucket": bucket, "variant": variant, "group": 1, "status": "ok",
        "reason": "", "directory": f"x/{bucket}-{variant}", "event": "cpu-clock", "frequency": 499,
        "samples": 100, "cut_short": False,
    }  # fmt: skip
    return {**taken, **changes}


@pytest.fixture
def profiled(make, tmp_path):
    def build(records, **shape):
        for taken in records:
            directory = tmp_path / str(taken["directory"])
            directory.mkdir(parents=True)
            if taken["status"] == "ok":
                text = Folded(STACKS[taken["variant"]]).text()
                (directory / "profile.folded").write_text(text)
        return make(blocks=2, discarded_block=None, facts={"profiles": records}, **shape)

    return build


@pytest.fixture
def data(profiled):
    return profiled([record(v, b) for b in BUCKETS for v in synthetic.VARIANTS])


def test_each_variant_of_a_profiled_case_is_next_to_the_baseline(data):
    report = build_report(data)
    assert [str(of_it.case) for of_it in report.profiles] == [
        "pillowfight · persistent",
        "pillowfight · ephemeral",
    ]
    first = report.profiles[0]
    assert first.base.taken.variant == GLIBC
    assert [variant.variant.taken.variant for variant in first.variants] == [JEMALLOC, THP]
    assert [(s.function, s.difference) for s in first.variants[0].moved] == [
        ("malloc", -0.5), ("<script>", pytest.approx(0.4)), ("je_malloc", 0.1),
    ]  # fmt: skip


def test_another_baseline_is_another_difference(data):
    variants = build_report(data, baseline=JEMALLOC).profiles[0].variants
    assert [variant.variant.taken.variant for variant in variants] == [GLIBC, THP]
    assert variants[0].moved[0].difference == pytest.approx(0.5)


def test_a_variant_is_compared_with_the_baseline_that_was_alive_next_to_it(profiled, tmp_path):
    results = profiled(
        [
            record(GLIBC, "persistent", directory="x/1"),
            record(JEMALLOC, "persistent", directory="x/2"),
            record(GLIBC, "persistent", directory="x/3", group=2),
            record(THP, "persistent", directory="x/4", group=2),
        ]
    )
    (tmp_path / "x/3/profile.folded").write_text("fe;other 1\n")
    first, second = build_report(results).profiles[0].variants
    assert first.base.taken.directory == "x/1"
    assert second.base.taken.directory == "x/3"
    assert second.moved[0].function == "other"


def test_the_documents_have_the_table_and_say_what_it_is_not(data):
    report = build_report(data)
    document = json.loads(render(report, "json"))
    assert wrong("report", document) == []
    assert len(document["profiles"]) == 4
    assert document["profiles"][0]["functions"][0] == {
        "function": "malloc", "baseline_self_share": 0.5, "self_share": 0.0, "difference": -0.5,
    }  # fmt: skip
    markdown = render(report, "markdown")
    assert (
        "<details><summary>CPU profiles: functions whose own share changed most (4)</summary>"
        in markdown
    )
    assert f"| malloc | 50.0 % | - | {minus('-50.0')} |" in markdown
    assert "\\<script>" in markdown
    assert "differ by up to 8.3 points by chance" in markdown
    assert texts.ONE_SAMPLE in markdown
    assert "4 CPU profiles" in " ".join(render(report, "terminal").split())
    terminal = render(report, "terminal", verbose=True)
    assert f"malloc {minus('-50.0')}; <script> +40.0" in " ".join(terminal.split())


def test_without_profiles_nothing_is_reported_of_them(make):
    report = build_report(make(blocks=2, discarded_block=None))
    assert report.profiles == ()
    assert "profiles" not in json.loads(render(report, "json"))
    assert "rofile" not in render(report, "markdown")


def test_what_failed_is_a_warning_and_what_is_gone_a_note(profiled, tmp_path):
    results = profiled(
        [
            record(GLIBC, "persistent"),
            record(JEMALLOC, "persistent", status="failed", reason="perf saw no sample"),
            record(THP, "persistent"),
        ]
    )
    (tmp_path / f"x/persistent-{THP}/profile.folded").unlink()
    report = build_report(results)
    (case,) = report.profiles
    assert case.variants == ()
    case_name = "pillowfight · persistent"
    assert (
        f"there is no profile of {JEMALLOC} in {case_name}: perf saw no sample" in report.warnings
    )
    assert any(
        note.startswith(f"the profile of {THP} in {case_name} cannot be read")
        for note in report.notes
    )


def test_the_page_has_a_graph_for_each_variant_and_shows_names_as_text(data):
    page = synthetic.plain_page(data)
    graphs = re.findall(r'<svg class="flame".*?</svg>', page, re.DOTALL)
    assert len(graphs) == 6, "of two cases: the baseline's, and two differences"
    for graph in graphs:
        ET.fromstring(graph)  # well-formed
    section = page[page.index('id="profiles"') : page.index('id="environment"')]
    assert "<script>" not in section
    assert "&lt;script&gt;: baseline 50.0 %, this variant 90.0 %, +40.0 points" in section
    assert f'title="{LONG.replace("<", "&lt;").replace(">", "&gt;")}"' in section
    assert texts.ONE_SAMPLE in section
    assert "100 samples of cpu-clock at 499 Hz" in section


def test_boxes_lie_inside_their_callers_and_next_to_each_other():
    root = frames(Folded(STACKS[GLIBC]), Folded(STACKS[JEMALLOC]))
    placed = {box.frame.name: box for box in boxes(root)}
    assert {name: box.depth for name, box in placed.items()} == {
        "all": 0, "fe": 1, "run": 2, "<script>": 3, "je_malloc": 3, "malloc": 3,
    }  # fmt: skip
    assert [
        (placed[n].left, placed[n].width) for n in ("all", "<script>", "je_malloc", "malloc")
    ] == [pytest.approx(place) for place in ((0, 1), (0, 0.7), (0.7, 0.05), (0.75, 0.25))]


def test_what_is_too_narrow_is_left_out_and_keeps_its_place():
    profile = Folded({("a",): 1, ("b",): 999})
    (root, b) = boxes(frames(profile, profile), least=0.01)
    assert (root.frame.name, b.frame.name, b.left) == ("all", "b", pytest.approx(0.001))


def test_colours_go_from_blue_over_white_to_red_and_no_further():
    assert [colour_of(place) for place in (-1, 0, 1)] == ["#2166ac", "#eaeaea", "#b2182b"]
    assert (colour_of(-7), colour_of(7)) == (colour_of(-1), colour_of(1))

    def lightness(colour: str) -> int:
        return sum(int(colour[i : i + 2], 16) for i in (1, 3, 5))

    for sign in (-1, 1):
        steps = [lightness(colour_of(sign * step / 10)) for step in range(11)]
        assert steps == sorted(steps, reverse=True), "more difference is darker"


def test_a_small_difference_is_not_drawn_like_a_large_one():
    near = Folded({("a",): 501, ("b",): 499})
    even = Folded({("a",): 500, ("b",): 500})
    colours = set(re.findall(r'fill="(#\w+)"', difference_svg(frames(even, near), "x")))
    assert "#eaeaea" in colours
    assert all(int(colour[1:3], 16) > 225 for colour in colours), colours


def test_a_graph_of_one_profile_tells_kernel_and_libraries_apart():
    profile = Folded({("t", "f", "g_[k]"): 2, ("t", "f", "[libc.so.6]"): 2})
    fills = re.findall(r'fill="(#\w+)"', flame_svg(frames(profile, profile), 'a "label"'))
    assert len(fills) == 5
    assert len(set(fills)) == 4
    assert 'aria-label="a &quot;label&quot;"' in flame_svg(frames(profile, profile), 'a "label"')


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("kv::run", "kv::run"),
        (LONG, "kv::Map<>::find<>"),
        ("a::operator->" + LONG, "a::operator->kv::Map<>::find<>"),
        ("x" * 100, "x" * 71 + "…"),
    ],
)
def test_a_long_name_loses_its_template_arguments_first(name, shown):
    assert texts.short_name(name) == shown


@pytest.mark.parametrize(
    ("share", "percent", "moved"),
    [(0.1234, "12.3 %", "+12.3"), (0.00123, "0.12 %", "+0.12"), (-0.5, None, minus("-50.0"))],
)
def test_shares_are_percents_and_differences_points(share, percent, moved):
    assert texts.points(share) == moved
    if percent is not None:
        assert texts.percent_of(share) == percent


def test_a_profile_that_was_cut_short_says_so(profiled):
    results = profiled([record(GLIBC, "persistent", cut_short=True)])
    (of_it,) = build_report(results).profiles
    assert texts.how_taken(of_it.base).endswith(
        "truncated: the limit of stored samples was reached"
    )


def test_kept_numbers_say_that_the_stacks_are_elsewhere(data):
    from dataclasses import replace

    report = build_report(replace(data, directory=None))
    assert report.profiles == ()
    assert any("the archive does not contain its stacks" in note for note in report.notes)
