"""`profiles:`: named overlays that `--profile` puts over the rest of a spec."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.errors import SpecError
from perfrunner.experiment.session import differences, resolved
from perfrunner.spec.assemble import profile_names
from perfrunner.spec.loader import load_spec

EXPERIMENTS = Path(__file__).parents[3] / "specs" / "experiments"
PROFILES = """\
profiles:
  large:
    blocks: 20
    variants: {je: {allocator: {options: {narenas: 1}}}}
    workloads: {pf: {items: 5M}}
  bad:
    workloads: {pf: {items: many}}
"""


def with_profiles(specs, profile, *overrides, text=PROFILES):
    path = specs.directory / "spec.yaml"
    path.write_text(path.read_text() + text)
    return load_spec(path, overrides, None, profile)


def test_an_overlay_is_merged_key_by_key_and_recorded(specs):
    spec = with_profiles(specs, "large")
    assert (spec.blocks, spec.workloads["pf"].items, spec.workloads["pf"].duration) == (
        20,
        5_000_000,
        5.0,
    )
    assert spec.variants["je"].allocator.options["narenas"] == "1"
    assert spec.variants["je"].allocator.options["metadata_thp"] == "always"
    assert (spec.name, spec.profile) == ("small", "large")


def test_without_a_profile_none_is_applied(specs):
    spec = with_profiles(specs, None)
    assert (spec.blocks, spec.profile) == (10, None)


def test_set_wins_over_the_profile(specs):
    assert with_profiles(specs, "large", "blocks=3").blocks == 3


def test_an_error_in_a_profile_is_reported_at_its_line(specs):
    with pytest.raises(
        SpecError, match=r"spec.yaml:15: .*workloads.pf.items: expected a whole number"
    ):
        with_profiles(specs, "bad")
    with_profiles(specs, None, text="")


@pytest.mark.parametrize(
    ("text", "profile", "message"),
    [
        (PROFILES, "larg", "expected a profile of the spec: large, bad; got larg (did you mean large?)"),
        ("", "large", "spec.yaml:1: the spec has no `profiles`; omit --profile large"),
        ("profiles: 5\n", None, "profiles: expected a mapping, got 5"),
        ("profiles: {a: 5}\n", None, "profiles.a: expected a mapping, got 5"),
        ("profiles: {a: {name: b}}\n", "a", "expected no name in a profile"),
        ("profile: large\n", None, "expected no profile at the top level of a spec (choose one with --profile)"),
        ("profile: perf\n", None, "expected no profile at the top level of a spec (set it in a workload); got perf"),
        ("profils: {}\n", None, "unknown key (did you mean profiles?)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported(specs, text, profile, message):
    with pytest.raises(SpecError) as caught:
        with_profiles(specs, profile, text=text)
    assert message in str(caught.value)


PUBLISHED = EXPERIMENTS.parent / "published"


@pytest.mark.parametrize(
    "path", [EXPERIMENTS / p.name for p in sorted(PUBLISHED.glob("*.yaml"))], ids=lambda p: p.stem
)
def test_the_historic_size_of_each_experiment_is_a_profile(path):
    assert "historic" in profile_names(path)
    spec, usual = load_spec(path, [], None, "historic"), load_spec(path, [], None)
    assert spec.workloads != usual.workloads
    assert spec.published == usual.published


def test_the_historic_sizes():
    thp = load_spec(EXPERIMENTS / "jemalloc-metadata-thp-matrix.yaml", [], None, "historic")
    assert (thp.workloads["append"].items, thp.workloads["pillowfight"].items) == (
        5_000_000,
        20_000_000,
    )
    assert {v.allocator.options["narenas"] for v in thp.variants.values()} == {"1"}
    dcp = load_spec(EXPERIMENTS / "dcp-ready-queue.yaml", [], None, "historic")
    assert dcp.workloads["busy"].ht_size == 393_209


def test_a_run_that_was_begun_before_there_were_profiles_goes_on(specs):
    recorded = {
        k: v for k, v in resolved(specs.spec()).items() if k not in ("profile", "published")
    }
    assert differences(recorded, specs.spec()) == []


def test_a_run_that_was_begun_before_there_were_build_hosts_goes_on(specs):
    recorded = resolved(specs.spec())
    assert recorded["cluster"].pop("build_host") is None
    assert differences(recorded, specs.spec()) == []
    recorded["cluster"]["build_host"] = "elsewhere"
    assert differences(recorded, specs.spec()) == ["cluster"]


def test_a_run_of_before_a_setting_was_known_goes_on_where_it_has_its_default(specs):
    recorded = resolved(specs.spec())
    del recorded["client"]["python"], recorded["engine"]["cpus"]
    assert differences(recorded, specs.spec()) == []
    assert differences(recorded, specs.spec(None, "engine.cpus=0-1")) == ["engine"]
    recorded["client"]["of_tomorrow"] = 1
    assert "client" in differences(recorded, specs.spec())


def test_validate_looks_into_every_profile(specs):
    path = specs.directory / "spec.yaml"
    path.write_text(path.read_text() + PROFILES)
    result = CliRunner().invoke(main, ["validate", str(path)])
    assert result.exit_code == 2
    assert "workloads.pf.items: expected a whole number" in result.output
