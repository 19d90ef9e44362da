"""The `expected_gains:` of a spec: what they may name, and that they change no experiment."""

from __future__ import annotations

import pytest

from perfrunner.experiment.session import differences, resolved

EXPECTED_GAIN = "{variant: je, workload: pf, bucket: persistent, metric: ops_per_s, at_least: 10%}"


def with_expected_gains(specs, *expected_gains):
    text = (specs.directory / "spec.yaml").read_text().partition("expected_gains:")[0]
    return (
        text
        + "expected_gains:\n"
        + "".join(f"  - {expected_gain}\n" for expected_gain in expected_gains)
    )


def test_an_expected_gain_is_a_share_or_a_number_in_the_unit_of_its_metric(specs):
    points = EXPECTED_GAIN.replace("ops_per_s", "fragmentation_rss").replace("10%", "1.5")
    large = EXPECTED_GAIN.replace("10%", "300%")
    spec = specs.spec(with_expected_gains(specs, EXPECTED_GAIN, points, large))
    assert [expected_gain.at_least for expected_gain in spec.expected_gains] == [0.1, 1.5, 3.0]
    assert spec.expected_gains[0].against is None
    assert type(spec).model_validate(resolved(spec)) == spec


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "variant: je",
            "variant: jf",
            "expected_gains[0].variant: expected a variant: glibc, je; got jf",
        ),
        (
            "variant: je",
            "variant: je, against: glibd",
            "expected_gains[0].against: expected a variant",
        ),
        ("workload: pf", "workload: pillow", "expected_gains[0].workload: expected a workload: pf"),
        (
            "bucket: persistent, ",
            "",
            "expected_gains[0].bucket: expected persistent or ephemeral of pf",
        ),
        ("ops_per_s", "ops_per_sec", "expected_gains[0].metric"),
        ("ops_per_s", "metadata_thp_pages", "expected a metric with a direction"),
        ("10%", "ten", "expected a percentage such as 10%"),
        ("10%", "0%", "expected a percentage such as 10%"),
        ("ops_per_s, at_least: 10%", "rss_bytes, at_least: 100%", "below 100% where lower is"),
        ("ops_per_s, at_least: 10%", "fragmentation_rss, at_least: 10%", "a positive number"),
    ],
)
def test_what_it_names_must_be_there(specs, old, new, message):
    assert old in EXPECTED_GAIN
    errors = specs.errors(with_expected_gains(specs, EXPECTED_GAIN.replace(old, new)))
    assert message in "\n".join(errors)


def test_a_part_of_the_spec_keeps_the_expected_gains_that_it_can_show(specs):
    spec = specs.spec(with_expected_gains(specs, EXPECTED_GAIN))
    assert spec.restricted(None, ("je",)).expected_gains == spec.expected_gains
    assert spec.restricted(None, ("glibc",)).expected_gains == ()
    assert spec.against_itself().expected_gains == ()


def test_expected_gains_change_no_experiment(specs):
    recorded = resolved(specs.spec())
    assert differences(recorded, specs.spec(with_expected_gains(specs, EXPECTED_GAIN))) == []
