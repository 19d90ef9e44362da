"""Progress in a log, and on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from perfrunner.cli.output import duration, size
from perfrunner.cli.progress import BarProgress, LineProgress, QuietProgress, progress_listener, si
from perfrunner.domain import Case
from perfrunner.experiment import events as ev


def trial(status="ok", reason="", number=1):
    return ev.TrialFinished(
        number, 72, 1, 1, "pf", "ephemeral", "je[x],auto", status, reason, 7.4, {"ops_per_s": 1_840_000.0}, Path("t")
    )  # fmt: skip


EVENTS = [
    ev.PlanReady(
        "small-1",
        "small",
        Path("out/small-1"),
        ("a", "b"),
        (("pf", "persistent"),),
        6,
        72,
        0,
        41,
        False,
    ),
    ev.HostReady("here", "engine and load client", {}, (("governor=powersave", "cpupower ..."),)),
    ev.BuildStarted("a"),
    ev.BuildProgress("a", "[1/9] cc"),
    ev.BuildFinished("a", "0123abcd", False, 41.0),
    ev.BuildFinished("b", "4567", True, 0.1),
    ev.BuildFailed("c", "no compiler"),
    ev.SettingsCheckPassed("a", "here", {"opt.metadata_thp": "auto"}),
    ev.BlockStarted(1, 6),
    ev.TrialStarted(1, 72, 1, 1, "pf", "ephemeral", "a"),
    ev.TrialPhase("populate"),
    ev.Eta(400.0, 1, 72),
    trial(),
    trial("discarded", "3 misses", 2),
    ev.BlockDiscarded(1, "pf", "ephemeral", "a", "3 misses", True, 1, 10),
    ev.Precision(Case("pf", "ephemeral"), 6, 5, 0.012, 0.01, "extend"),
    ev.SamplingCheck("a", (("pf", "persistent"),)),
    ev.Warned("low disk", "free some"),
    ev.Interrupted("SIGINT", "perfrunner run x --resume"),
    ev.RunFinished("small-1", 130, 70, 1, 1, 600.0),
]


def shown(kind, terminal=False, events=EVENTS):
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=terminal, width=200, highlight=False, no_color=True
    )
    with kind(console) as listener:
        for event in events:
            listener.on_event(event)
    return stream.getvalue()


def test_a_log_has_one_line_for_each_thing_that_happened():
    lines = shown(LineProgress).splitlines()
    assert lines == [
        "plan   small: 72 trials (2 variants x 1 case x 6 blocks; seed 41)",
        "       results in out/small-1",
        "warning: here: governor=powersave (cpupower ...)",
        "host   here ready (engine and load client)",
        "build  a ...",
        "build  a 41 s (0123abcd)",
        "build  b cached (4567)",
        "build c failed: no compiler",
        "settings check  a on here: opt.metadata_thp=auto",
        "trial  [1/72] block 1/6  je[x],auto · ephemeral · pf  7 s  1.84 M ops/s  left 7 min",
        "trial  [2/72] block 1/6  je[x],auto · ephemeral · pf  7 s  discarded: 3 misses  left 7 min",
        "discarded   block 1 pf · ephemeral: a: 3 misses; repeated at the end (redo 1 of at most 10)",
        "width  pf · ephemeral, 5 clean blocks of 6: ±1.20 %, wanted ±1.00 %: extend",
        "check  measuring sampling overhead: a, 2 trials",
        "warning: low disk (free some)",
        "interrupted (SIGINT); resume with: perfrunner run x --resume",
        "stopped small-1: 70 trials ok, 1 discarded, 1 failed in 10 min",
    ]


def test_what_a_server_lacks_is_not_shown():
    """Other servers have no bucket; a setting may be empty."""
    lines = shown(
        LineProgress,
        events=[
            ev.SettingsCheckPassed("a", "here", {"server.save": "", "server.kind": "redis"}),
            ev.TrialFinished(1, 4, 1, 1, "mixed", "-", "a", "ok", "", 7.4, {}, Path("t")),
            ev.BlockDiscarded(1, "mixed", "-", "a", "3 misses", True, 1, 10),
        ],
    ).splitlines()
    assert lines[0] == 'settings check  a on here: server.kind=redis, server.save=""'
    assert " a · mixed  7 s" in lines[1]
    assert lines[2].startswith("discarded   block 1 mixed: a: 3 misses")


def test_quiet_says_only_what_must_not_be_missed():
    lines = shown(QuietProgress).splitlines()
    assert lines == [
        "warning: here: governor=powersave (cpupower ...)",
        "build c failed: no compiler",
        "warning: low disk (free some)",
        "interrupted (SIGINT); resume with: perfrunner run x --resume",
    ]


def test_a_terminal_has_the_lines_and_the_runs_line():
    text = shown(BarProgress, terminal=True)
    assert "1.84 M ops/s" in text
    assert "[2/72]" in text


def test_the_line_shows_the_trial_in_flight():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200, highlight=False, no_color=True)
    with BarProgress(console) as listener:
        for event in (*EVENTS[:1], *EVENTS[8:13], *EVENTS[9:11]):
            listener.on_event(event)
        text = listener.line.text(120)
    assert "block 1/6" in text
    assert "a · ephemeral · pf" in text
    assert "left 7 min" in text
    assert "populate" in text


def test_a_run_that_ended_by_itself_is_done():
    assert shown(LineProgress, events=[ev.RunFinished("e", 3, 1, 0, 1, 5.0)]).startswith(
        "done   e: 1 trial ok"
    )


def test_a_resumed_run_says_so():
    event = ev.PlanReady("i", "n", Path("o"), ("a",), (("p", "-"),), 6, 72, 30, 41, True)
    assert "30 done before" in shown(LineProgress, events=[event])


def test_a_pipe_gets_lines_and_quiet_gets_quiet():
    assert type(progress_listener(quiet=False)) is LineProgress
    assert type(progress_listener(quiet=True)) is QuietProgress


@pytest.mark.parametrize(
    ("seconds", "text"), [(8.4, "8 s"), (59.4, "59 s"), (240, "4 min"), (9600, "2 h 40 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_sizes_and_rates():
    assert [size(n) for n in (12, 1500, 2.5e9, 7e12)] == ["12 B", "1.5 kB", "2.5 GB", "7.0 TB"]
    assert [si(n) for n in (5, 1234, 1.84e6, 2e9)] == ["5", "1.23 k", "1.84 M", "2.00 G"]
