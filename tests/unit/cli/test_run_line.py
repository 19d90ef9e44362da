"""The line that a run rewrites: one line whatever the width, and each variant distinguished from the others."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from perfrunner.cli.progress import (
    ROTATION_S,
    BarProgress,
    LineProgress,
    RunLine,
    progress_listener,
)
from perfrunner.domain import Case
from perfrunner.experiment import events as ev
from perfrunner.report.numbers import short_names

VARIANTS = (
    "glibc",
    *(
        f"jemalloc-5.1.0,background_thread={bg},metadata_thp={thp}"
        for bg in ("true", "false")
        for thp in ("disabled", "auto", "always")
    ),
    *(f"a-source-of-a-long-name-{n}-built-with-clang" for n in range(5)),
)
WIDTHS = (40, 60, 80, 120)


def estimates(metric="ops_per_s", bucket="persistent"):
    return ev.Provisional(
        Case("pillowfight", bucket),
        metric,
        tuple(ev.Estimate(variant, 3, "ratio", 1.012, (1.004, 1.02)) for variant in VARIANTS[1:]),
    )


@pytest.fixture
def line():
    now = [0.0]
    results = RunLine(clock=lambda: now[0])
    results.block, results.blocks, results.done, results.total = 12, 40, 1234, 4800
    results.variants, results.names, results.case = (
        VARIANTS,
        VARIANTS,
        Case("pillowfight", "persistent"),
    )
    results.phase = "populate"
    results.set_left(9000)
    results.now = now
    return results


@pytest.mark.parametrize("alone", [False, True])
def test_it_fits_every_width_and_says_what_matters(line, alone):
    if alone:
        line.variants = VARIANTS[4:5]
    line.set_estimates(estimates())
    for width in WIDTHS:
        text = line.text(width)
        assert cell_len(text) <= width
        assert "12/40" in text
        assert "left 2 h 30 min" in text or (width < 60 and "left 2h30m" in text)
        assert re.search(r"so far \S+ \+1.2 %", text), text
        if width >= 50:
            assert re.search(r"j\S+ed " if alone else "12 variants", text)
    assert "[+0.4, +2.0]" in line.text(120)
    assert "persistent · pillowfight" in line.text(130) or alone


def test_an_estimate_is_reported_of_the_case_in_flight_only(line):
    assert "so far" not in line.text(120)
    line.set_estimates(estimates(bucket="ephemeral"))
    assert "so far" not in line.text(120)
    line.set_estimates(estimates("rss_bytes"))
    assert "so far rss_bytes" in line.text(200)


def test_variants_take_turns_where_not_all_have_room(line):
    """While one group is in flight: its blocks may take minutes."""
    shown = set()
    line.set_estimates(estimates())
    for _ in VARIANTS[1:]:
        shown.add(re.search(r"so far (\S+)", line.text(80))[1])
        line.now[0] += ROTATION_S
    assert len(shown) == len(VARIANTS) - 1


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (
            105,
            "block 12/40  glibc, jemalloc-5.1.0, jemalloc-5.1.0-thp · persistent · pillowfight  left 2 h 30 min",
        ),
        (80, "block 12/40  glibc, jemalloc-5.1.0, jemalloc-5.1.0-thp  left 2 h 30 min"),
        (60, "block 12/40  3 variants · pillowfight  left 2 h 30 min"),
        (40, "block 12/40  3 variants  left 2 h 30 min"),
    ],
)  # fmt: skip
def test_the_variants_of_a_group_are_named_where_there_is_room(line, width, text):
    line.variants = line.names = ("glibc", "jemalloc-5.1.0", "jemalloc-5.1.0-thp")
    line.phase = ""
    assert line.text(width) == text


def test_the_time_left_goes_down_between_two_tellings(line):
    line.now[0] += 3600
    assert "left 1 h 30 min" in line.text(80)
    line.now[0] += 9000
    assert "left 0 s" in line.text(80)


@pytest.mark.parametrize("room", [5, 14, 48])
@pytest.mark.parametrize("gap", ["…", "."])
def test_short_names_are_all_different(room, gap):
    names = [*VARIANTS, "x" * 60, "x" * 61, "x" * 59 + "y" + "x" * 60]
    results = short_names(names, room, gap)
    assert list(results) == names
    assert len(set(results.values())) == len(names)
    assert all(len(text) <= room for text in results.values())
    assert results["glibc"] == "glibc"


EVENTS = [
    ev.BuildStarted("jemalloc [x]"),
    ev.BuildProgress("jemalloc [x]", "[1/9] c++ " + "y" * 200),
    ev.BlockStarted(1, 6),
    ev.TrialStarted(1, 72, 1, 1, "pillowfight", "persistent", VARIANTS[0], VARIANTS[1:]),
    ev.TrialPhase("populate"),
    ev.Eta(400.0, 12, 72),
    estimates(),
    ev.TrialStarted(13, 72, 2, 1, "pillowfight", "persistent", VARIANTS[3], ()),
    ev.SamplingCheck("glibc", (("pillowfight", "persistent"),)),
    ev.TrialPhase("populate"),
]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_rich_never_wraps_it(width):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, no_color=True, highlight=False)
    with BarProgress(console) as listener:
        for event in EVENTS:
            listener.on_event(event)
            drawn = console.render_lines(listener.line, pad=False)
            assert len(drawn) == 1
            assert sum(segment.cell_length for segment in drawn[0]) < width
    assert "left" in stream.getvalue()


def test_a_log_has_the_estimates_in_a_line_of_their_own(monkeypatch):
    stream = io.StringIO()
    with LineProgress(Console(file=stream, width=2000)) as listener:
        listener.on_event(estimates())
    assert stream.getvalue().startswith(
        "so far pillowfight · persistent, 3 blocks, provisional ops_per_s: jemalloc-5.1.0,"
    )
    assert stream.getvalue().count("\n") == 1
    for variant in VARIANTS[1:]:
        assert f"{variant} +1.2 % [+0.4, +2.0]" in stream.getvalue()


def test_no_color_and_no_terminal(monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal for rich
    monkeypatch.setenv("TERM", "xterm-256color")
    with progress_listener(quiet=False) as listener:
        assert type(listener) is BarProgress
        for event in [*EVENTS, ev.BuildFailed("a", "no compiler"), ev.Warned("low disk")]:
            listener.on_event(event)
    output = capsys.readouterr()
    assert output.out == ""
    assert "low disk" in output.err
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", output.err)  # no colour; the cursor may move
    monkeypatch.delenv("FORCE_COLOR")
    with progress_listener(quiet=False) as listener:
        assert type(listener) is LineProgress
        for event in EVENTS:
            listener.on_event(event)
    assert "\x1b" not in capsys.readouterr().err
