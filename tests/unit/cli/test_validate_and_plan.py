"""`validate` and `plan`."""

from __future__ import annotations

import json

import pytest

from perfrunner.errors import UsageError
from perfrunner.spec.suggest import selection, split_names

MATRIX = ("glibc", "auto,3", "always,3")


def test_validate_says_ok(cli):
    assert (
        cli("validate", "spec.yaml").stdout == "spec.yaml: ok (3 variants x 2 cases x 2 blocks)\n"
    )


def test_validate_reports_every_file(cli):
    (cli.directory / "bad.yaml").write_text("name: X\n")
    result = cli("validate", "bad.yaml", "spec.yaml", "none.yaml", code=2)
    assert "spec.yaml: ok" in result.stdout
    assert "error: bad.yaml:1: name: expected a name of a-z" in result.stderr
    assert "error: none.yaml: cannot be read: no such file" in result.stderr


def test_validate_json(cli):
    (cli.directory / "bad.yaml").write_text("name: X\n")
    document = cli.json("validate", "bad.yaml", code=2)
    assert document["ok"] is False
    assert any(e.startswith("bad.yaml:1: name:") for e in document["specs"][0]["errors"])


def test_validate_takes_overrides(cli):
    assert (
        "--set blocks=x: blocks:"
        in cli("validate", "spec.yaml", "--set", "blocks=x", code=2).stderr
    )


def test_plan_shows_variants_cases_and_order(cli):
    text = cli("plan", "spec.yaml", "--seed", 3).stdout
    assert "small: 12 trials (3 variants x 2 cases x 2 blocks), about" in text
    assert "seed 3 (given)" in text
    assert "glibc (baseline)" in text
    assert "metadata_thp:always" in text


def test_plan_json_is_the_plan(cli):
    document = cli.json("plan", "spec.yaml", "--seed", "3", "--repeats", "4")
    assert (document["blocks"], document["seed"], document["seed_drawn"]) == (4, 3, False)
    assert len(document["trials"]) == 24
    assert set(document["trials"][0]) == {
        "block", "position", "workload", "bucket", "variant", "group",
    }  # fmt: skip
    assert document["groupings"]["pf"]["schedule"] == "interleaved"
    assert document == cli.json("plan", "spec.yaml", "--seed", "3", "--repeats", "4")


def test_the_time_holds_builds_and_the_sampling_check(cli, monkeypatch):
    def seconds(*words):
        return cli.json("plan", "spec.yaml", *words)["expected_seconds"]

    text = cli("plan", "spec.yaml").stdout
    assert (
        "this includes 2 builds that are not in the cache (about 2 min) and the sampling check"
        in text
    )
    bare = seconds("--set", "sampling_check=false")
    trials = bare - 2 * 60
    # 2 trials a case next to 3 variants x 2 blocks of it
    assert seconds() - bare == pytest.approx(trials * 2 / 6, abs=0.2)
    engine = cli.directory / "engine_src"
    (engine / "options").mkdir(parents=True)
    (engine / "INTERFACE").write_text("3\n")
    (engine / "CMakeLists.txt").write_text("project(kv)\n")
    monkeypatch.setattr("perfrunner.build.builder.is_built", lambda *_: True)
    assert seconds("--set", "sampling_check=false") == pytest.approx(trials, abs=0.2)
    assert "builds" not in cli("plan", "spec.yaml").stdout.split("variants")[1]


def test_the_time_holds_a_trial_of_the_baseline_for_each_group(cli, monkeypatch):
    monkeypatch.setattr("perfrunner.cli.plan.BUILD_SECONDS", 0.0)
    words = ("plan", "spec.yaml", "--workloads", "pf", "--set", "sampling_check=false")
    whole, divided = (cli.json(*words, *more) for more in ((), ("--set", "limits.group_size=2")))
    assert [len(plan["trials"]) for plan in (whole, divided)] == [6, 8]
    assert divided["expected_seconds"] == pytest.approx(whole["expected_seconds"] * 8 / 6, abs=0.2)


def test_profiles_of_the_trials_add_none_to_the_plan(cli):
    words = ("plan", "spec.yaml", "--seed", "3", "--workloads", "pf")
    plain, profiled = (
        cli.json(*words, *more) for more in ((), ("--set", "workloads.pf.profile=perf"))
    )
    for key in ("trials", "expected_seconds"):
        assert profiled[key] == plain[key]


def test_plan_draws_a_seed_when_none_is_given(cli):
    assert cli.json("plan", "spec.yaml")["seed_drawn"] is True


def test_a_dry_run_is_a_plan(cli):
    words = ("spec.yaml", "--seed", "3", "--workloads", "pf")
    assert cli("run", *words, "--dry-run").stdout == cli("plan", *words).stdout
    assert not (cli.directory / "perfrunner-results").exists()


def test_variants_with_commas_can_be_selected(cli):
    document = cli.json("plan", "spec.yaml", "--variants", "always,3", "--workloads", "ap")
    assert {t["variant"] for t in document["trials"]} == {"glibc", "always,3"}
    assert {t["workload"] for t in document["trials"]} == {"ap"}


def test_a_mistyped_selection_is_a_usage_error(cli):
    error = cli("plan", "spec.yaml", "--variants", "glib", code=2).stderr
    assert (
        "variants: expected a variant of the spec: glibc, auto,3, always,3; got glib (did you mean glibc?)"
        in error
    )
    assert (
        "got pff (did you mean pf?)"
        in cli("plan", "spec.yaml", "--workloads", "pff", code=2).stderr
    )


def test_names_are_split_at_the_right_commas():
    assert split_names("always,3,glibc", MATRIX) == ["always,3", "glibc"]
    assert split_names("always", MATRIX) is None
    assert selection("variant", ("glibc,auto,3", "glibc"), MATRIX) == ("glibc", "auto,3")
    assert selection("variant", (), MATRIX) is None
    with pytest.raises(UsageError, match="expected a variant"):
        selection("variant", ("glibc,nope",), MATRIX)


def test_the_cluster_option_replaces_the_cluster(cli):
    (cli.directory / "other.yaml").write_text(
        "name: other\ntransport: local\nhosts: {x: {}}\nengine_nodes: [x]\nload_clients: [x]\n"
    )
    assert cli.json("plan", "spec.yaml", "--cluster", "other.yaml")["cluster"] == "other"
    assert (
        "--cluster no.yaml: cluster:"
        in cli("plan", "spec.yaml", "--cluster", "no.yaml", code=2).stderr
    )


def test_a_missing_spec_is_one_clear_error(cli):
    assert cli("run", "none.yaml", code=2).stderr.count("error:") == 1


def test_plan_output_holds_nothing_but_json(cli):
    result = cli("plan", "spec.yaml", "--json")
    json.loads(result.stdout)
    assert result.stderr == ""


PAGER = {
    "name": "pager",
    "about": "a",
    "default": "clock",
    "values": [{"value": "scan"}, {"value": "clock"}],
}


@pytest.fixture
def other_engine(cli):
    """An engine's source, not near the spec, with one switch that ours has not."""
    engine = cli.directory / "other"
    (engine / "options").mkdir(parents=True)
    (engine / "CMakeLists.txt").write_text("project(kv)\n")
    (engine / "options" / "switches.json").write_text(
        json.dumps({"schema": 1, "switches": [PAGER]})
    )
    return engine


def test_build_options_are_those_of_the_engine_source_that_is_named(cli, other_engine, monkeypatch):
    words = ("--set", "variants.glibc.options={pager: scan}")
    ours = cli("plan", "spec.yaml", *words, code=2)
    assert "variants.glibc.options.pager: expected a build option: ht_stats," in ours.stderr
    named = ("--engine-src", other_engine)
    assert cli.json("plan", "spec.yaml", *words, *named)["trials"]
    theirs = cli(
        "plan", "spec.yaml", "--set", "variants.glibc.options={cursor_drop: walk}", *named, code=2
    )
    assert "expected a build option: pager; got cursor_drop" in theirs.stderr
    assert cli("validate", "spec.yaml", *words, code=2)
    monkeypatch.setenv("PERFRUNNER_ENGINE_SRC", str(other_engine))
    assert "ok" in cli("validate", "spec.yaml", *words).stdout


def test_an_option_of_a_variant_that_gets_another_source_is_left_to_the_run(cli):
    words = ("--set", "variants.glibc.options={pager: scan}", "--source", "glibc=HEAD")
    assert cli.json("plan", "spec.yaml", *words)["trials"]
