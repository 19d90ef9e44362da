"""Flame graphs: the tree of callers of two profiles, the boxes and colours, the names and numbers in them."""

from __future__ import annotations

import re

import pytest

from perfrunner.measure.cpu_profile import Folded
from perfrunner.report.flame import (
    LEAST_WIDTH,
    Frame,
    boxes,
    colour_of,
    difference_svg,
    flame_svg,
    frames,
    percent_of,
    points,
    short_name,
)
from perfrunner.report.numbers import minus

LONG = "kv::Map<" + "std::pair<int, kv::Blob>, " * 6 + "int>::find<true>"
GLIBC = Folded({("fe", "run", "malloc"): 50, ("fe", "run", "<script>"): 50})
JEMALLOC = Folded({("fe", "run", "je_malloc"): 10, ("fe", "run", "<script>"): 90})
BASE = Folded({("t", "run", "lock"): 30, ("t", "run"): 10, ("t", "run", "set", "lock"): 60})
VARIANT = Folded({("t", "run", "lock"): 1, ("t", "run"): 2, ("t", "run", "set"): 1})


def test_a_frame_has_the_share_of_all_that_it_calls() -> None:
    root = frames(BASE, VARIANT)
    assert (root.base, root.variant) == pytest.approx((1.0, 1.0))
    run = root.callees["t"].callees["run"]
    assert (run.base, run.variant) == pytest.approx((1.0, 1.0))
    taken = run.callees["set"]
    assert (taken.base, taken.variant, taken.width, taken.difference) == pytest.approx(
        (0.6, 0.25, 0.425, -0.35)
    )
    assert taken.callees["lock"].variant == 0.0, "only the baseline has it"


def test_callees_never_exceed_their_caller() -> None:
    def check(frame: Frame) -> None:
        assert sum(c.width for c in frame.callees.values()) <= frame.width + 1e-12
        for callee in frame.callees.values():
            check(callee)

    check(frames(BASE, VARIANT))


def test_a_profile_next_to_itself_differs_nowhere() -> None:
    root = frames(BASE, BASE)
    assert root.width == pytest.approx(1.0)
    assert root.callees["t"].callees["run"].callees["lock"].difference == 0.0


def test_no_samples_are_no_shares() -> None:
    root = frames(Folded({}), VARIANT)
    assert (root.base, root.variant) == pytest.approx((0.0, 1.0))


def test_boxes_lie_inside_their_callers_and_next_to_each_other() -> None:
    root = frames(GLIBC, JEMALLOC)
    placed = {box.frame.name: box for box in boxes(root)}
    assert {name: box.depth for name, box in placed.items()} == {
        "all": 0, "fe": 1, "run": 2, "<script>": 3, "je_malloc": 3, "malloc": 3,
    }  # fmt: skip
    assert [
        (placed[n].left, placed[n].width) for n in ("all", "<script>", "je_malloc", "malloc")
    ] == [pytest.approx(place) for place in ((0, 1), (0, 0.7), (0.7, 0.05), (0.75, 0.25))]


def test_what_is_too_narrow_is_left_out_and_keeps_its_place() -> None:
    profile = Folded({("a",): 1, ("b",): 999})
    assert LEAST_WIDTH > 0.001
    (root, b) = boxes(frames(profile, profile))
    assert (root.frame.name, b.frame.name, b.left) == ("all", "b", pytest.approx(0.001))


def test_colours_go_from_blue_over_white_to_red_and_no_further() -> None:
    assert [colour_of(place) for place in (-1, 0, 1)] == ["#2166ac", "#eaeaea", "#b2182b"]
    assert (colour_of(-7), colour_of(7)) == (colour_of(-1), colour_of(1))

    def lightness(colour: str) -> int:
        return sum(int(colour[i : i + 2], 16) for i in (1, 3, 5))

    for sign in (-1, 1):
        steps = [lightness(colour_of(sign * step / 10)) for step in range(11)]
        assert steps == sorted(steps, reverse=True), "more difference is darker"


def test_a_small_difference_is_not_drawn_like_a_large_one() -> None:
    near = Folded({("a",): 501, ("b",): 499})
    even = Folded({("a",): 500, ("b",): 500})
    colours = set(re.findall(r'fill="(#\w+)"', difference_svg(frames(even, near), "x")))
    assert "#eaeaea" in colours
    assert all(int(colour[1:3], 16) > 225 for colour in colours), colours


def test_a_graph_of_one_profile_tells_kernel_and_libraries_apart() -> None:
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
def test_a_long_name_loses_its_template_arguments_first(name: str, shown: str) -> None:
    assert short_name(name) == shown


@pytest.mark.parametrize(
    ("share", "percent", "moved"),
    [(0.1234, "12.3 %", "+12.3"), (0.00123, "0.12 %", "+0.12"), (-0.5, None, minus("-50.0"))],
)
def test_shares_are_percents_and_differences_points(
    share: float, percent: str | None, moved: str
) -> None:
    assert points(share) == moved
    if percent is not None:
        assert percent_of(share) == percent
