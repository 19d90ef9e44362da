"""The warning that one variant was discarded more often than another, of trials in groups and alone."""

from __future__ import annotations

from perfrunner.analysis.compare import compare


def warnings_of(data, trials, variants):
    warnings = compare(data(trials, variants=variants)).warnings
    return [text for text in warnings if "were discarded where" in text]


def attempts(trial, statuses, blocks, **changes):
    """The trials of `blocks` whose first attempt ended so, by variant."""
    return [
        trial(block, variant, {"ops_per_s": 1.0}, status=status, **changes)
        for block in blocks
        for variant, status in statuses.items()
    ]


def test_a_variant_that_is_discarded_where_the_other_counts_is_named(trial, data):
    trials = attempts(trial, {"a": "ok", "b": "discarded"}, range(1, 7), group=1)
    (text,) = warnings_of(data, trials, ("a", "b"))
    assert text.startswith("6 trials of b were discarded where that of a counted")


def test_the_baseline_is_not_blamed_for_the_crash_of_another(trial, data):
    """A crash discards the others of its group."""
    trials = attempts(trial, {"a": "discarded", "b": "failed"}, range(1, 7), group=1)
    assert warnings_of(data, trials, ("a", "b")) == []


def test_the_baseline_is_not_blamed_for_another_group(trial, data):
    """Each group has a trial of the baseline; a busy host discarded the second group."""
    trials = [
        *attempts(trial, {"a": "ok", "b": "ok"}, range(1, 7), group=1),
        *attempts(trial, {"a": "discarded", "c": "discarded"}, range(1, 7), group=2),
    ]
    assert warnings_of(data, trials, ("a", "b", "c")) == []


def test_alone_the_rest_of_a_discarded_case_does_not_run(trial, data):
    trials = attempts(trial, {"b": "discarded"}, range(1, 7))
    trials += attempts(trial, {"a": "ok", "b": "ok"}, range(1, 7), attempt=2)
    (text,) = warnings_of(data, trials, ("a", "b"))
    assert text.startswith("6 trials of b were discarded")
