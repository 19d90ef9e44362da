"""Known gains: kept or lost by the numbers, the same in every format; and those of our specs by the kept results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from synthetic import VARIANTS, Shape, write

from perfrunner.cli import main
from perfrunner.report import build_report, render
from perfrunner.results import ResultStore
from perfrunner.spec.expectations import ExpectedGain
from perfrunner.spec.loader import load_spec
from perfrunner.spec.switches import own_table
from tools.writeups.archive import read_archive

GLIBC, JEMALLOC, THP = VARIANTS
ROOT = Path(__file__).parents[3]
SPECS = [
    path
    for path in sorted((ROOT / "specs" / "experiments").glob("*.yaml"))
    if "\nexpected_gains:" in path.read_text(encoding="utf-8")
]


def with_expected_gains(data, *expected_gains):
    known = [
        ExpectedGain.model_validate(expected_gain).model_dump(mode="json")
        for expected_gain in expected_gains
    ]
    spec = {**data.experiment.spec_json, "expected_gains": known}
    return replace(data, experiment=replace(data.experiment, spec_json=spec))


def expected_gain(**changes):
    values = {
        "variant": THP,
        "workload": "append",
        "bucket": "ephemeral",
        "metric": "ops_per_s",
        "at_least": 0.02,
    }
    return {**values, **changes}  # fmt: skip


# In the synthetic store THP is 3.1 % faster than glibc, 1.9 % than jemalloc; its fragmentation 3.3 points higher.
@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "kept"),
        ({"at_least": 0.10}, "lost"),
        ({"against": JEMALLOC, "at_least": 0.01}, "kept"),
        ({"against": JEMALLOC, "at_least": 0.10}, "lost"),
        ({"metric": "latency_get_p99_us"}, "kept"),
        ({"metric": "latency_get_p99_us", "at_least": 0.5}, "lost"),
        ({"metric": "fragmentation_rss", "at_least": 1.0}, "lost"),  # it became worse
        ({"metric": "fragmentation_rss", "variant": JEMALLOC, "at_least": 1.0}, "kept"),
        ({"workload": "pillow"}, "unjudged"),
        ({"metric": "mapped_bytes"}, "unjudged"),
        ({"against": "elsewhere"}, "unjudged"),
    ],
)
def test_a_expected_gain_is_judged_by_its_interval(data, changes, state):
    (line,) = build_report(with_expected_gains(data, expected_gain(**changes))).expected_gains
    assert line.state == state
    assert bool(line.why) is (state == "unjudged")


def test_an_interval_that_reaches_both_is_unsure(make):
    noisy = make(sd=0.2, blocks=3, discarded_block=None)
    (line,) = build_report(with_expected_gains(noisy, expected_gain())).expected_gains
    assert line.state == "unsure"


@pytest.mark.parametrize("fmt", ["terminal", "markdown", "html"])
def test_a_lost_expected_gain_stands_above_the_numbers(data, fmt, tmp_path):
    report = build_report(with_expected_gains(data, expected_gain(), expected_gain(at_least=0.1)))
    text = str(report.warnings) if fmt == "html" else " ".join(render(report, fmt).split())
    assert "an expected gain is lost" in text
    assert "at least +10 % is expected" in text
    assert ("expected gains", "kept 1, lost 1") in [tuple(fact) for fact in report.context]


def test_a_program_reads_the_state(data):
    matches = json.loads(
        render(
            build_report(with_expected_gains(data, expected_gain(), expected_gain(at_least=0.1))),
            "json",
        )
    )
    assert [line["state"] for line in matches["expected_gains"]] == ["kept", "lost"]
    assert matches["expected_gains"][0]["against"] == GLIBC
    assert "expected_gains" not in json.loads(render(build_report(data), "json"))


@pytest.mark.parametrize(("at_least", "code"), [("2%", 0), ("10%", 1)])
def test_report_ends_with_1_when_a_stored_expected_gain_is_lost(tmp_path, at_least, code):
    write(tmp_path, Shape(workloads=("append",), buckets=("ephemeral",)))
    with ResultStore.open(tmp_path, create=False) as store:
        record = store.resolve(None)
        data = with_expected_gains(store.load(record.id), expected_gain(at_least=at_least))
    other = tmp_path / "other"
    with ResultStore.open(other) as store:
        store.create_experiment(data.experiment)
        for build in data.builds:
            store.add_build(record.id, build)
        for trial in data.trials:
            store.add_trial(record.id, trial)
    words = ["report", "--out", str(other), "--fail-on", "lost"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == code
    assert ("--fail-on lost: " in result.stderr) is bool(code)


def kept(path):
    return ROOT / "docs" / "experiments" / "data" / f"{path.stem}.json.gz"


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_expected_gains_of_our_specs_are_there_in_what_was_published(path):
    """And a variant that is worth nothing any more is reported: the same numbers under the names of each other."""
    spec = load_spec(path, [], None)
    assert load_spec(path, [], None, profile="lane").expected_gains == spec.expected_gains
    if not kept(path).exists():
        return
    (data, *_) = read_archive(kept(path))
    known = [g.model_dump(mode="json") for g in spec.expected_gains]
    lines = build_report(with_expected_gains(data, *known)).expected_gains
    assert {line.state for line in lines} == {"kept"}, [
        line for line in lines if line.state != "kept"
    ]
    for line in lines:
        swapped = {
            line.expected_gain.variant: line.against,
            line.against: line.expected_gain.variant,
        }
        trials = tuple(replace(t, variant=swapped.get(t.variant, t.variant)) for t in data.trials)
        single = with_expected_gains(
            replace(data, trials=trials), line.expected_gain.model_dump(mode="json")
        )
        (turned,) = build_report(single).expected_gains
        assert turned.state == "lost", turned


def test_every_switch_has_a_known_expected_gain_or_a_reason_why_not():
    guarded = set()
    for path in SPECS:
        spec = load_spec(path, [], None)
        for known in spec.expected_gains:
            variants = (known.variant, known.against or spec.baseline)
            after, before = (spec.variants[name].options for name in variants)
            guarded |= {name for name in {*after, *before} if after.get(name) != before.get(name)}
    reasons = {name for name, switch in own_table().items() if switch.no_expected_gain}
    assert set(own_table()) == guarded | reasons
