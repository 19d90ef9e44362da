"""One source for all variants of an experiment, from its beginning to its end; other sources as variants."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "sources"))  # importlib mode

from scratch_repo import Repo, make_repo

from perfrunner.results import ResultStore
from tests.support.fakes import Lab, variant

pytestmark = pytest.mark.integration


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


def built(driver) -> list[str]:
    return [event["line"] for event in driver.of("BuildProgress") if " of " in event["line"]]


def test_a_source_that_changes_in_mid_run_changes_no_variant(lab: Lab, repo: Repo) -> None:
    lab.write_spec(variants={"base": variant(), "changed": variant(x=1)})
    fakes = {"engine_src": str(repo.engine), "build_sleep": 0.5}
    driver = lab.start(fakes=fakes)
    driver.wait_for("BuildProgress", variant="base")
    repo.write(main_cc="edited\n")
    driver.wait_for("TrialFinished")
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.finish()
    assert built(driver) == ["base of two", "changed of two"]

    code, again = lab.run(resume=True, fakes=fakes)
    assert (code, again.stderr()) == (0, "")
    assert built(again) == ["base of two", "changed of two"], "the copy, not what lies there now"
    warnings = [event["message"] for event in again.of("Warned")]
    assert any("has changed since fake-" in text for text in warnings), warnings
    builds = lab.stored().builds
    assert {b.provenance["source"]["title"] for b in builds} == {"second"}
    assert {b.provenance["source"]["dirty"] == [] for b in builds} == {True}


@pytest.mark.long
def test_resume_refuses_a_source_that_is_gone(lab: Lab, repo: Repo) -> None:
    lab.write_spec()
    fakes = {"engine_src": str(repo.engine)}
    driver = lab.start(fakes=fakes)
    driver.wait_for("TrialFinished")
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.finish()
    repo.write(main_cc="edited\n")
    shutil.rmtree(lab.directory / "cache" / "sources")
    code, again = lab.run(resume=True, fakes=fakes)
    assert code == 2
    assert "its copy is no longer in the build cache" in again.stderr()


def test_revisions_as_variants_are_driven_by_the_tools_of_the_source_in_use(
    lab: Lab, repo: Repo
) -> None:
    lab.write_spec(
        variants={
            "base": {**variant(), "source": {"git": "v1"}},
            "changed": {**variant(), "source": {"git": "feature/x"}},
        },
        blocks=1,
    )
    code, driver = lab.run(fakes={"engine_src": str(repo.engine)})
    assert (code, driver.stderr()) == (0, "")
    assert [line.replace("\n", "/") for line in built(driver)] == [
        "load-tools of two", "base of one", "changed of two/three",
    ]  # fmt: skip
    recorded = lab.stored().experiment.facts["sources"]
    only = [event["line"] for event in driver.of("BuildProgress") if "only " in event["line"]]
    assert only == ["only append consistency_checker kvctl pillowfight", *["only kv_engine"] * 2]
    assert recorded["variants"]["base"]["title"] == "first"
    assert recorded["distances"]["changed"]["ahead"] == 2


@pytest.mark.long
def test_a_revision_that_cannot_be_checked_costs_only_itself(lab: Lab, repo: Repo) -> None:
    """An engine of another time may lack what the settings check asks for."""
    variants = {"base": variant(), "new": variant(), "old": variant()}
    sources = {"base": "main", "new": "feature/x", "old": "v1"}
    lab.write_spec(
        variants={
            name: {**chosen, "source": {"git": sources[name]}} for name, chosen in variants.items()
        },
        blocks=2,
    )
    code, driver = lab.run(fakes={"engine_src": str(repo.engine), "settings_check_fails": ["old"]})
    assert code == 3
    assert "old is not measured: old: opt.x should be 1 but reads 0" in [
        event["message"] for event in driver.of("Warned")
    ]
    data = lab.stored()
    assert data.experiment.state == "done"
    assert {t.status for t in data.trials if t.variant != "old"} == {"ok"}
    old = [t for t in data.trials if t.variant == "old"]
    assert {(t.status, t.reason) for t in old} == {
        ("failed", "the settings check failed: old: opt.x should be 1 but reads 0")
    }
    assert {t.attempt for t in data.trials} == {1}, "nothing is redone for it"


@pytest.mark.parametrize("fails", [["base"], ["new"]])
def test_a_settings_check_that_leaves_nothing_to_compare_ends_the_run(
    lab: Lab, repo: Repo, fails: list[str]
) -> None:
    variants = {"base": {"git": "main"}, "new": {"git": "v1"}}
    lab.write_spec(variants={name: {**variant(), "source": git} for name, git in variants.items()})
    code, driver = lab.run(fakes={"engine_src": str(repo.engine), "settings_check_fails": fails})
    assert code == 3
    assert f"error: {fails[0]}: opt.x should be 1 but reads 0" in driver.stderr()
    assert lab.stored().trials == ()


def test_a_bad_source_ends_with_2_before_anything_starts(lab: Lab, repo: Repo) -> None:
    lab.write_spec(
        variants={"base": variant(), "changed": {**variant(), "source": {"git": "mian"}}}
    )
    code, driver = lab.run(fakes={"engine_src": str(repo.engine)})
    assert code == 2
    assert driver.events == []
    output = driver.stderr()
    assert "variant changed: " in output
    assert "has no revision mian (did you mean main?)" in output
    with ResultStore.open(lab.out, create=False) as store:
        assert list(store.list()) == []
