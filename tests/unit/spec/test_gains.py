"""The `gains:` of a spec: what they may name, and that they change no experiment."""

from __future__ import annotations

import pytest

from perfrunner.run.opening import differences, resolved

GAIN = "{variant: je, workload: pf, bucket: persistent, metric: ops_per_s, at_least: 10%}"


def with_gains(specs, *gains):
    text = (specs.directory / "spec.yaml").read_text().partition("gains:")[0]
    return text + "gains:\n" + "".join(f"  - {gain}\n" for gain in gains)


def test_a_gain_is_a_share_or_a_number_in_the_unit_of_its_metric(specs):
    points = GAIN.replace("ops_per_s", "fragmentation_rss").replace("10%", "1.5")
    large = GAIN.replace("10%", "300%")
    spec = specs.spec(with_gains(specs, GAIN, points, large))
    assert [gain.at_least for gain in spec.gains] == [0.1, 1.5, 3.0]
    assert spec.gains[0].against is None
    assert type(spec).model_validate(resolved(spec)) == spec


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("variant: je", "variant: jf", "gains[0].variant: expected a variant: glibc, je; got jf"),
        ("variant: je", "variant: je, against: glibd", "gains[0].against: expected a variant"),
        ("workload: pf", "workload: pillow", "gains[0].workload: expected a workload: pf"),
        ("bucket: persistent, ", "", "gains[0].bucket: expected persistent or ephemeral of pf"),
        ("ops_per_s", "ops_per_sec", "gains[0].metric"),
        ("ops_per_s", "metadata_thp_pages", "expected a metric with a good direction"),
        ("10%", "ten", "expected a percentage such as 10%"),
        ("10%", "0%", "expected a percentage such as 10%"),
        ("ops_per_s, at_least: 10%", "rss_bytes, at_least: 100%", "below 100% where lower is"),
        ("ops_per_s, at_least: 10%", "fragmentation_rss, at_least: 10%", "a positive number"),
    ],
)
def test_what_it_names_must_be_there(specs, old, new, message):
    assert old in GAIN
    errors = specs.errors(with_gains(specs, GAIN.replace(old, new)))
    assert message in "\n".join(errors)


def test_a_part_of_the_spec_keeps_the_gains_that_it_can_show(specs):
    spec = specs.spec(with_gains(specs, GAIN))
    assert spec.restricted(None, ("je",)).gains == spec.gains
    assert spec.restricted(None, ("glibc",)).gains == ()
    assert spec.against_itself().gains == ()


def test_gains_change_no_experiment(specs):
    recorded = resolved(specs.spec())
    assert differences(recorded, specs.spec(with_gains(specs, GAIN))) == []
