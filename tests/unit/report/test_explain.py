"""Explanations of stored runs: which profiles are compared, the tables, the values, and what is missing."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import synthetic
from click.testing import CliRunner
from test_json_schemas import wrong

from perfrunner.analysis.cases import clean_blocks
from perfrunner.cli import main
from perfrunner.cli.explain import _only_case
from perfrunner.errors import TrialError, UsageError
from perfrunner.measure.cpu_profile import Folded
from perfrunner.report import build_report, render
from perfrunner.report import explain as texts
from perfrunner.report.explain import profiled_cases, profiled_pair

GLIBC, JEMALLOC, THP = synthetic.VARIANTS
SAMPLES = 1000
EVENTS = {"task-clock": 2e9, "instructions": 4e9, "cycles": 2e9}


def stacks(rng: np.random.Generator, variant: str) -> Folded:
    """A third of the CPU in malloc, of jemalloc half as much; the rest is even."""
    malloc = 0.3 if variant == GLIBC else 0.15
    shares = [malloc, 0.1, *[(0.9 - malloc) / 8] * 8]
    counts = rng.multinomial(SAMPLES, np.array(shares) / sum(shares))
    names = ["malloc", "send", "<script>", *(f"kv::f{n}()" for n in range(7))]
    results = {("front-end", "run", name): int(n) for name, n in zip(names, counts, strict=True)}
    results["front-end", "run", "send", "tcp_sendmsg_[k]"] = results.pop(
        ("front-end", "run", "send")
    )
    return Folded(results)


@pytest.fixture
def profiled(make, tmp_path):
    """A run of eight blocks in which the trials of pillowfight on ephemeral buckets keep profiles."""
    data = make(blocks=8, discarded_block=3)
    rng = np.random.default_rng(8)
    taken = {"event": "cpu-clock", "frequency": 499, "samples": SAMPLES, "cut_short": False}
    trials = []
    for trial in data.trials:
        if (trial.workload, trial.bucket, trial.status) == ("pillowfight", "ephemeral", "ok"):
            directory = tmp_path / trial.raw_dir
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "profile.folded").write_text(stacks(rng, trial.variant).text())
            facts = {**trial.facts, "profile": {**taken, "counters": EVENTS}}
            trials.append(replace(trial, facts=facts))
        else:
            trials.append(trial)
    return replace(data, trials=tuple(trials))


def pair_of(data, base=GLIBC, variant=JEMALLOC):
    (case,) = profiled_cases(data)
    return profiled_pair(data, case, base, variant)


def remove_profiles(data, directory, *, from_block):
    (case,) = profiled_cases(data)
    for trial in case.trials:
        if trial.block >= from_block:
            (directory / trial.raw_dir / "profile.folded").unlink()


def graphs_of(page):
    graphs = re.findall(r'<svg class="flame".*?</svg>', page, re.DOTALL)
    for graph in graphs:
        ET.fromstring(graph)  # well-formed
    return graphs


def test_the_profiles_of_a_case_are_paired_by_block(profiled):
    pair = pair_of(profiled)
    assert (str(pair.case), pair.base, pair.variant) == (
        "pillowfight · ephemeral",
        GLIBC,
        JEMALLOC,
    )
    assert pair.explanation.blocks == 8
    assert pair.explanation.samples == 2 * 8 * SAMPLES
    assert pair.base_stacks.samples == 8 * SAMPLES
    place, change = next(iter(pair.explanation.functions.items()))
    assert (place.thread, place.function) == ("front-end", "malloc")
    assert change.changed
    # 0.3 and 0.15 / 1.0 of about 1.04 µs
    assert change.base == pytest.approx(0.312, rel=0.1)
    assert change.variant == pytest.approx(0.156, rel=0.15)


def test_the_table_and_the_values_have_the_changed_functions(profiled):
    pair = pair_of(profiled)
    rows = texts.function_rows(pair)
    assert rows[0][:2] == ("front-end", "malloc")
    assert len(texts.function_rows(pair, every=True)) == 10
    assert "send" in {row[1] for row in texts.function_rows(pair, every=True)}
    text = "\n".join([texts.title(pair), *texts.summary_lines(pair)])
    assert "8 blocks, 16000 samples of cpu-clock at 499 Hz" in text
    assert "10 functions were compared (false discovery rate 5 %). 0 with fewer than 20" in text
    assert [row[0] for row in texts.event_rows(pair)] == [
        "instructions per operation", "cycles per operation", "instructions per cycle",
    ]  # fmt: skip
    (document,) = texts.explain_document([pair])
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["unit"] == "us_per_op"
    assert document["functions"][0]["function"] == "malloc"
    assert document["functions"][0]["changed"]
    assert document["events"]["instructions"]["baseline"] == pytest.approx(2000 * 1.04, rel=0.1)


def test_every_format_of_the_report_has_the_explanations(profiled):
    report = build_report(profiled)
    assert [pair.variant for pair in report.explanations] == [JEMALLOC, THP]
    document = json.loads(render(report, "json"))
    assert wrong("report", document) == []
    assert document["explanations"][0]["functions"][0]["function"] == "malloc"
    assert "front-end malloc" in render(report, "markdown")
    assert "changes of functions' CPU time" in " ".join(render(report, "terminal").split())
    assert "front-end malloc" in " ".join(render(report, "terminal", verbose=True).split())
    page = synthetic.plain_page(profiled)
    assert len(graphs_of(page)) == 3, "two differences, and the baseline alone"
    section = page[page.index('<h2 id="explained">') : page.index('id="environment"')]
    assert "<code>malloc</code>" in section
    assert "instructions per cycle" in section
    assert f"{8 * SAMPLES} samples of cpu-clock at 499 Hz. A box is" in section
    assert "&lt;script&gt;: baseline" in section
    assert "<script>" not in section


def test_without_profiles_nothing_is_reported_of_them(make):
    data = make(blocks=3, discarded_block=None)
    report = build_report(data)
    assert report.profiled == ()
    assert "explanations" not in json.loads(render(report, "json"))
    assert "profile" not in render(report, "markdown").lower()
    assert 'id="explained"' not in synthetic.plain_page(data)


def test_a_run_with_profiles_after_its_last_block_is_read_without_them(make, tmp_path):
    """Earlier versions recorded each variant once more at the end, in a fact that nothing reads today."""
    old = {
        "workload": "pillowfight", "bucket": "persistent", "variant": GLIBC, "group": 1, "status": "ok",
        "reason": "", "directory": "x/glibc", "event": "cpu-clock", "frequency": 499, "samples": 100,
        "cut_short": False,
    }  # fmt: skip
    failed = {**old, "variant": JEMALLOC, "status": "failed", "reason": "perf ended"}
    (tmp_path / "x/glibc").mkdir(parents=True)
    (tmp_path / "x/glibc/profile.folded").write_text("front-end;run 100\n")
    data = make(blocks=3, discarded_block=None, facts={"profiles": [old, failed]})
    report = build_report(data)
    assert report.profiled == ()
    assert not any("profile" in line for line in (*report.warnings, *report.notes))
    document = json.loads(render(report, "json"))
    assert wrong("report", document) == []
    for form in ("markdown", "terminal"):
        assert render(report, form)
    assert graphs_of(synthetic.plain_page(data)) == []
    result = CliRunner().invoke(main, ["profile", "--out", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "has no CPU profiles" in result.stderr


def test_a_report_without_counters_says_so(profiled):
    def without(trial):
        if "profile" not in trial.facts:
            return trial
        taken = {k: v for k, v in trial.facts["profile"].items() if k != "counters"}
        return replace(trial, facts={**trial.facts, "profile": taken})

    data = replace(profiled, trials=tuple(map(without, profiled.trials)))
    assert texts.NO_COUNTERS in synthetic.plain_page(data)


def test_another_baseline_is_explained_against_it(profiled):
    pairs = build_report(profiled, baseline=JEMALLOC).profiled
    assert [(pair.base, pair.variant) for pair in pairs] == [(JEMALLOC, GLIBC), (JEMALLOC, THP)]
    assert [place.function for place in pairs[1].explanation.changed] == []


def test_a_report_of_too_few_profiles_has_flame_graphs_and_says_why_no_table(profiled, tmp_path):
    remove_profiles(profiled, tmp_path, from_block=3)
    report = build_report(profiled)
    assert [pair.blocks for pair in report.profiled] == [2, 2]
    assert report.explanations == ()
    reason = f"2 blocks with profiles of {GLIBC} and {JEMALLOC}, expected at least 3"
    assert any(reason in note for note in report.notes)
    assert "explanations" not in json.loads(render(report, "json"))
    for form in ("markdown", "terminal"):
        assert "unctions' CPU time" not in render(report, form)
    page = synthetic.plain_page(profiled)
    assert len(graphs_of(page)) == 3
    assert f"The functions are not compared: {reason}; block 3 is left out: " in page
    assert "To compare them, add blocks with `perfrunner run --extend N`." in page
    assert "No function's CPU time changed" not in page
    assert texts.NO_COUNTERS not in page


def test_a_report_without_any_profile_that_can_be_read_has_a_note(profiled, tmp_path):
    remove_profiles(profiled, tmp_path, from_block=1)
    report = build_report(profiled)
    assert report.profiled == ()
    assert any("no block has profiles of" in note for note in report.notes)
    assert any("block 1 is left out: " in note for note in report.notes)


def test_numbers_without_raw_files_say_that_the_stacks_are_elsewhere(profiled):
    report = build_report(replace(profiled, directory=None))
    assert report.profiled == ()
    assert any("the archive does not contain its stacks" in note for note in report.notes)


def test_profiles_that_were_cut_short_are_counted(profiled):
    (case,) = profiled_cases(profiled)
    cut = next(t for t in case.trials if t.variant == JEMALLOC)

    def shortened(trial):
        if trial is not cut:
            return trial
        taken = {**trial.facts["profile"], "cut_short": True}
        return replace(trial, facts={**trial.facts, "profile": taken})

    data = replace(profiled, trials=tuple(map(shortened, profiled.trials)))
    lines = [*texts.summary_lines(pair_of(data))]
    assert lines[0].startswith("1 of 16 profiles end before the load did")
    assert not any("profiles end" in line for line in texts.summary_lines(pair_of(profiled)))


def test_without_cpu_per_operation_shares_are_compared(profiled):
    bare = replace(
        profiled,
        trials=tuple(
            replace(t, metrics={k: v for k, v in t.metrics.items() if "cpu" not in k})
            for t in profiled.trials
        ),
    )
    pair = pair_of(bare)
    assert not pair.per_op
    assert pair.explanation.functions[next(iter(pair.explanation.functions))].base < 1
    assert any("shares of the CPU time" in line for line in texts.summary_lines(pair))
    assert texts.heading(pair)[2] == f"{GLIBC}, %"


def test_a_lost_profile_costs_its_block_and_a_line_says_so(profiled, tmp_path):
    (case,) = profiled_cases(profiled)
    lost = next(t for t in case.trials if t.variant == JEMALLOC and t.block == 5)
    (tmp_path / lost.raw_dir / "profile.folded").unlink()
    pair = pair_of(profiled)
    assert pair.explanation.blocks == 7
    assert pair.unread == (f"block 5 is left out: {lost.raw_dir} has no profile.folded",)


def test_a_profile_without_samples_costs_its_block(profiled, tmp_path):
    (case,) = profiled_cases(profiled)
    short = next(t for t in case.trials if t.variant == JEMALLOC and t.block == 5)
    (tmp_path / short.raw_dir / "profile.folded").write_text("")
    pair = pair_of(profiled)
    assert pair.explanation.blocks == 7
    reason = f"the profile of {JEMALLOC} has no samples (lengthen the load)"
    assert pair.unread == (f"block 5 is left out: {reason}",)


def test_too_few_blocks_are_refused_with_the_reason(profiled, tmp_path):
    remove_profiles(profiled, tmp_path, from_block=3)
    pair = pair_of(profiled)
    assert pair.base_stacks.samples == 2 * SAMPLES
    with pytest.raises(
        TrialError, match=r"2 blocks with .* expected at least 3; block 3"
    ) as caught:
        texts.explain_document([pair])
    assert caught.value.hint == "add blocks with `perfrunner run --extend N`"


def test_the_stacks_of_a_variant_are_the_sum_over_its_trials(profiled, tmp_path):
    (case,) = profiled_cases(profiled)
    lost = next(t for t in case.trials if t.variant == JEMALLOC and t.block == 5)
    (tmp_path / lost.raw_dir / "profile.folded").unlink()
    whole, unread = texts.variant_stacks(profiled, case, GLIBC)
    assert (whole.samples, unread) == (8 * SAMPLES, ())
    others, unread = texts.variant_stacks(profiled, case, JEMALLOC)
    assert others.samples == 7 * SAMPLES
    assert unread == (f"block 5 is left out: {lost.raw_dir} has no profile.folded",)
    for trial in case.of(THP):
        (tmp_path / trial.raw_dir / "profile.folded").unlink()
    with pytest.raises(
        TrialError, match=r"no block has a profile of .*always: block 1 is left out"
    ):
        texts.variant_stacks(profiled, case, THP)


def test_one_of_several_profiled_cases_must_be_chosen(profiled):
    recorded = next(t.facts["profile"] for t in profiled.trials if "profile" in t.facts)
    trials = [replace(t, facts={**t.facts, "profile": recorded}) for t in profiled.trials]
    data = replace(profiled, trials=tuple(trials))
    assert str(_only_case(data, "append/ephemeral").case) == "append · ephemeral"
    with pytest.raises(UsageError, match="has several profiled cases") as caught:
        _only_case(data, "pillowfight")
    assert caught.value.hint == "choose one: --case pillowfight/persistent | pillowfight/ephemeral"


def test_trials_of_one_group_are_paired(profiled):
    """The baseline has a trial in each group of a block; the one next to the variant counts."""
    (case,) = clean_blocks(
        t for t in profiled.trials if (t.workload, t.bucket) == ("pillowfight", "ephemeral")
    ).values()
    trials = case.blocks[1]
    base = next(t for t in trials if t.variant == GLIBC)
    variant = next(t for t in trials if t.variant == JEMALLOC)
    other = replace(base, group=2)
    first = texts._pair([other, replace(base, group=1), replace(variant, group=1)], GLIBC, JEMALLOC)
    assert [t.group for t in first] == [1, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["only"], "expected the names of two variants, A and B; got only"),
        ([GLIBC, "jemaloc-5.1.0"], "has no variant 'jemaloc-5.1.0' (did you mean jemalloc-5.1.0?)"),
        ([GLIBC, GLIBC], "expected two different variants"),
        ([GLIBC, JEMALLOC], "demo-20261120 has no CPU profiles"),
    ],
)
def test_what_cannot_be_explained_is_refused(demo, words, message):
    result = CliRunner().invoke(main, ["explain", *words, "--out", str(demo)])
    assert result.exit_code == 2
    assert message in result.stderr
    if "no CPU profiles" in message:
        assert "--set workloads.pillowfight.profile=perf" in result.stderr
