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
from perfrunner.results.archive import read_archive
from perfrunner.spec import load_spec
from perfrunner.spec.gains import Gain
from perfrunner.spec.switches import own_table

GLIBC, JEMALLOC, THP = VARIANTS
ROOT = Path(__file__).parents[3]
SPECS = [
    path
    for path in sorted((ROOT / "specs" / "experiments").glob("*.yaml"))
    if "\ngains:" in path.read_text(encoding="utf-8")
]


def with_gains(data, *gains):
    known = [Gain.model_validate(gain).model_dump(mode="json") for gain in gains]
    spec = {**data.experiment.spec_json, "gains": known}
    return replace(data, experiment=replace(data.experiment, spec_json=spec))


def gain(**changes):
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
def test_a_gain_is_judged_by_its_interval(data, changes, state):
    (line,) = build_report(with_gains(data, gain(**changes))).gains
    assert line.state == state
    assert bool(line.why) is (state == "unjudged")


def test_an_interval_that_reaches_both_is_unsure(make):
    noisy = make(sd=0.2, blocks=3, void_block=None)
    (line,) = build_report(with_gains(noisy, gain())).gains
    assert line.state == "unsure"


@pytest.mark.parametrize("fmt", ["terminal", "markdown", "html"])
def test_a_lost_gain_stands_above_the_numbers(data, fmt, tmp_path):
    report = build_report(with_gains(data, gain(), gain(at_least=0.1)))
    text = str(report.warnings) if fmt == "html" else " ".join(render(report, fmt).split())
    assert "a known gain is lost" in text
    assert "at least +10 % is expected" in text
    assert ("known gains", "kept 1, lost 1") in [tuple(fact) for fact in report.context]


def test_a_program_reads_the_state(data):
    found = json.loads(render(build_report(with_gains(data, gain(), gain(at_least=0.1))), "json"))
    assert [line["state"] for line in found["gains"]] == ["kept", "lost"]
    assert found["gains"][0]["against"] == GLIBC
    assert "gains" not in json.loads(render(build_report(data), "json"))


@pytest.mark.parametrize(("at_least", "code"), [("2%", 0), ("10%", 1)])
def test_report_ends_with_1_when_a_stored_gain_is_lost(tmp_path, at_least, code):
    write(tmp_path, Shape(workloads=("append",), buckets=("ephemeral",)))
    with ResultStore.open(tmp_path, create=False) as store:
        record = store.resolve(None)
        data = with_gains(store.load(record.id), gain(at_least=at_least))
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
def test_the_gains_of_our_specs_are_there_in_what_was_published(path):
    """And a variant that is worth nothing any more is told: the same numbers under the names of each other."""
    spec = load_spec(path, [], None)
    assert load_spec(path, [], None, profile="lane").gains == spec.gains
    if not kept(path).exists():
        return
    (data, *_) = read_archive(kept(path))
    known = [g.model_dump(mode="json") for g in spec.gains]
    lines = build_report(with_gains(data, *known)).gains
    assert {line.state for line in lines} == {"kept"}, [
        line for line in lines if line.state != "kept"
    ]
    for line in lines:
        swapped = {line.gain.variant: line.against, line.against: line.gain.variant}
        trials = tuple(replace(t, variant=swapped.get(t.variant, t.variant)) for t in data.trials)
        one = with_gains(replace(data, trials=trials), line.gain.model_dump(mode="json"))
        (turned,) = build_report(one).gains
        assert turned.state == "lost", turned


def test_every_switch_has_a_known_gain_or_a_reason_why_not():
    guarded = set()
    for path in SPECS:
        spec = load_spec(path, [], None)
        for known in spec.gains:
            arms = (known.variant, known.against or spec.baseline)
            after, before = (spec.variants[name].options for name in arms)
            guarded |= {name for name in {*after, *before} if after.get(name) != before.get(name)}
    reasons = {name for name, switch in own_table().items() if switch.no_gain}
    assert set(own_table()) == guarded | reasons
