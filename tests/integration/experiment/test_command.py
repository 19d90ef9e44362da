"""`perfrunner run` itself, with the fake build and settings check: what a user sees at the end."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from perfrunner.build import builders
from perfrunner.cli import main
from perfrunner.experiment.preflight import builds
from perfrunner.results import ResultStore
from tests.support.fakes import PILLOWFIGHT, ROOT, Lab, variant
from tests.support.worker import fakes

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "sources"))  # importlib mode

from scratch_repo import make_repo

pytestmark = pytest.mark.integration


def invoke(lab: Lab, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    words = ["run", str(lab.spec_path), "--out", str(lab.out), *arguments]
    return invoke_words(monkeypatch, words, lab)


def invoke_words(
    monkeypatch: pytest.MonkeyPatch, words: list[str], lab: Lab, **settings: object
) -> Result:
    build, check = fakes(settings)
    monkeypatch.setattr(builders, "build_variant", build)
    monkeypatch.setattr(builds, "check", check)
    engine_src = str(settings.get("engine_src", ROOT / "engine_src"))
    places = ["--cache", str(lab.directory / "cache"), "--engine-src", engine_src]
    return CliRunner().invoke(main, [*words, *places])


def test_json_is_one_document_on_stdout_and_nothing_else(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write_spec(blocks=1)
    result = invoke(lab, monkeypatch, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["trials"] == {"ok": 2, "discarded": 0, "failed": 0}
    assert "trial  [2/2]" in result.stderr
    (line,) = (lab.out / "history-cache.jsonl").read_text().splitlines()
    assert json.loads(line)["key"][1:] == [2, 0, 0]


def test_ctrl_c_in_the_analysis_keeps_the_results(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write_spec(blocks=1)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("perfrunner.report.build_report", interrupted)
        result = invoke(lab, patch)
    assert result.exit_code == 130, result.output
    assert "Traceback" not in result.output
    shown = CliRunner().invoke(main, ["report", "--out", str(lab.out), "--format", "json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["trials"]["ok"] == 2


def plan_of(words: list[str]) -> list[tuple[Any, ...]]:
    """What `words` would run, in order; they are a command line of the report."""
    assert words[0] == "perfrunner"
    shown = CliRunner().invoke(main, [*words[1:], "--dry-run", "--json"])
    assert shown.exit_code == 0, shown.output
    keys = ("block", "workload", "bucket", "variant", "position")
    return [tuple(trial[key] for key in keys) for trial in json.loads(shown.stdout)["trials"]]


def reproduced(lab: Lab) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The command in the latest report, and the trials that were run, in order."""
    shown = CliRunner().invoke(main, ["report", "--out", str(lab.out), "--format", "json"])
    assert shown.exit_code == 0, shown.output
    words = shlex.split(json.loads(shown.stdout)["facts"]["reproduce"])
    with ResultStore.open(lab.out, create=False) as store:
        trials = store.load(store.resolve(None).id).trials
    return words, [(t.block, t.workload, t.bucket, t.variant, t.position) for t in trials]


@pytest.mark.long
def test_the_command_of_the_report_measures_the_same_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lab.directory)
    third = {"allocator": {"name": "system"}, "params": {"x": "2"}}
    system = {"allocator": {"name": "system"}}
    lab.write_spec(
        blocks=9,
        relink="never",  # the fake build is not linked
        variants={"base": system, "changed": {**system, "params": {"x": "1"}}, "third": third},
        workloads={"pf": PILLOWFIGHT, "other": PILLOWFIGHT},
    )
    done = invoke(
        lab, monkeypatch, "--set", "blocks=2", "--set", "workloads.pf.items=50", "--variants", "third",
        "--workloads", "pf",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    words, ran = reproduced(lab)
    assert words[2] == "spec.yaml", "the path is as the caller sees it"
    assert plan_of(words) == ran
    again = invoke_words(monkeypatch, ["aa", "--repeats", "1", "--out", str(lab.out)], lab)
    assert again.exit_code == 0, again.output
    words, ran = reproduced(lab)
    assert words[1:3] == ["aa", "spec.yaml"]
    assert plan_of(words) == ran
    assert {trial[3] for trial in ran} == {"base", "base-again"}


@pytest.mark.long
def test_the_command_of_the_report_names_the_cluster_and_the_source(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is the default; both were given relative to where the caller was."""
    monkeypatch.chdir(lab.directory)
    lab.write_spec(blocks=1)
    document = json.loads(lab.spec_path.read_text())
    elsewhere = {**document["cluster"], "name": "elsewhere"}
    (lab.directory / "other.yaml").write_text(json.dumps(elsewhere))
    repo = make_repo(lab.directory / "repo")
    source = repo.engine.relative_to(lab.directory)
    done = invoke_words(
        monkeypatch, ["run", "spec.yaml", "--cluster", "other.yaml", "--out", str(lab.out)], lab,
        engine_src=source,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    words, ran = reproduced(lab)
    given = {word: words[words.index(word) + 1] for word in ("--cluster", "--engine-src")}
    assert given == {"--cluster": "other.yaml", "--engine-src": str(source)}
    assert plan_of(words) == ran
    shown = CliRunner().invoke(main, [*words[1:], "--dry-run", "--json"])
    assert json.loads(shown.stdout)["cluster"] == "elsewhere"


@pytest.mark.long
def test_the_command_of_a_report_names_the_commits_that_were_measured(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `ab`, of `run` with and of `aa` without a spec: branches may have moved since."""
    monkeypatch.chdir(lab.directory)
    repo = make_repo(lab.directory / "repo")
    shas = {name: repo.git("rev-parse", "--short=12", name).strip() for name in ("v1", "main")}
    lab.write_spec(
        blocks=1,
        workloads={"pf": PILLOWFIGHT},
        variants={"base": variant()},
        baseline="base",
        relink="never",  # the fake build is not linked
    )
    ab = ["ab", "v1", "main", "--spec", str(lab.spec_path), "--out", str(lab.out)]
    run = ["run", "spec.yaml", "--source", "base=main", "--out", str(lab.out)]
    for words, variants in (
        (ab, shas),
        (run, {"base": shas["main"]}),
        (["aa", "--out", str(lab.out)], {"base": shas["main"]}),
        (["aa", "spec.yaml", "--source", "base=v1", "--out", str(lab.out)], {"base": shas["v1"]}),
    ):
        done = invoke_words(monkeypatch, words, lab, engine_src=repo.engine)
        assert done.exit_code == 0, done.output
        again, ran = reproduced(lab)
        last = {name: again[again.index(f"{name}={sha}") - 1] for name, sha in variants.items()}
        assert last == dict.fromkeys(variants, "--source")
        assert plan_of(again) == ran


@pytest.mark.long
def test_a_finished_run_gets_more_blocks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.write_spec(blocks=1)
    assert invoke(lab, monkeypatch).exit_code == 0
    assert invoke(lab, monkeypatch, "--resume").exit_code == 2, "nothing is unfinished"
    extended = invoke(lab, monkeypatch, "--extend", "2", "--json")
    assert extended.exit_code == 0, extended.output
    document = json.loads(extended.stdout)
    assert {t.block for t in lab.stored().trials} == {1, 2, 3}
    assert document["facts"]["blocks"] == 3
    assert "--repeats 3" in document["facts"]["reproduce"]
    name = document["experiment"]
    words = ["run", "--resume", name, "--extend", "1", "--out", str(lab.out)]
    assert invoke_words(monkeypatch, words, lab).exit_code == 0, "the recorded spec will do"
    assert {t.block for t in lab.stored().trials} == {1, 2, 3, 4}
    nothing = invoke_words(monkeypatch, ["run", "--resume", name, "--out", str(lab.out)], lab)
    assert nothing.exit_code == 2
    assert f"every trial of {name} is complete" in nothing.stderr
    assert lab.stored().experiment.state == "done"


@pytest.mark.long
def test_a_finished_run_with_failed_cases_is_finished(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = {"base": variant(), "changed": variant(), "other": variant()}
    lab.write_spec(blocks=3, variants=variants)
    words = ["run", str(lab.spec_path), "--out", str(lab.out), "--json"]
    failed = invoke_words(monkeypatch, words, lab, build_fails=["changed"])
    assert failed.exit_code == 3, failed.output
    messages = [line for line in failed.stderr.splitlines() if line.startswith("failed: ")]
    first = "block 1, changed · persistent · pf"
    assert messages == [
        f"failed: {first} (and 2 more): the build failed: the compiler refused changed"
    ]
    data = lab.stored()
    assert data.experiment.state == "done"
    again = [*words, "--resume", data.experiment.id]
    done = invoke_words(monkeypatch, again, lab)
    assert done.exit_code == 0, done.output
    assert {(row["variant"], row["n"]) for row in json.loads(done.stdout)["results"]} == {
        ("base", 3), ("changed", 3), ("other", 3),
    }  # fmt: skip
    redone = [t for t in lab.stored().trials if t.attempt == 2]
    assert sorted((t.block, t.variant) for t in redone) == [
        (block, variant) for block in (1, 2, 3) for variant in variants
    ], "never one variant alone"


def test_a_cause_that_meets_every_trial_ends_the_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write_spec(blocks=9, variants={"base": variant(exit=7), "changed": variant(exit=7)})
    result = invoke(lab, monkeypatch)
    assert result.exit_code == 3
    text = "stopped: 3 trials in a row failed with the same cause: the engine on here did not stop cleanly"
    assert text in result.stderr
    data = lab.stored()
    assert data.experiment.state == "failed", "it can be resumed"
    assert len(data.trials) == 6, "three groups of two"
    for command in ("show", "report"):  # the day after, when stderr is gone
        later = CliRunner().invoke(main, [command, "--out", str(lab.out)])
        assert "3 trials in a row failed with the same cause" in " ".join(later.stdout.split())


@pytest.mark.long
def test_more_discarded_than_may_be_redone_end_the_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write_spec(
        blocks=9,
        limits={"max_discarded": 1},
        # One alone would be excluded.
        variants={"base": variant(lie=5000), "changed": variant(lie=5000)},
    )
    result = invoke(lab, monkeypatch)
    assert result.exit_code == 3
    assert (
        "stopped: more than max_discarded = 1 cases are discarded; the last one: " in result.stderr
    )
    assert {t.block for t in lab.stored().trials} == {1, 2}
    resumed = invoke(lab, monkeypatch, "--resume")
    assert resumed.exit_code == 3, "the host is no better"
    assert "stopped: more than max_discarded = 1 cases are discarded" in resumed.stderr
