"""Where the engine's source is looked for, in which order."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import perfrunner
from perfrunner.cli.request import find_engine_source
from perfrunner.errors import UsageError


def engine(directory: Path) -> Path:
    (directory / "options").mkdir(parents=True)
    (directory / "CMakeLists.txt").write_text("project(kv)\n")
    return directory


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFRUNNER_ENGINE_SRC", raising=False)
    package = tmp_path / "site-packages" / "perfrunner"
    package.mkdir(parents=True)
    monkeypatch.setattr(perfrunner, "__file__", str(package / "__init__.py"))
    return tmp_path


def test_the_order_of_places(here, monkeypatch):
    spec = here / "repo" / "specs" / "experiments" / "x.yaml"
    spec.parent.mkdir(parents=True)
    packaged = engine(here / "site-packages" / "perfrunner" / "_engine_src")
    assert find_engine_source(None, spec) == packaged
    near_cwd = engine(here / "engine_src")
    assert find_engine_source(None, None) == near_cwd
    near_spec = engine(here / "repo" / "engine_src")
    assert find_engine_source(None, spec) == near_spec
    named = engine(here / "env")
    monkeypatch.setenv("PERFRUNNER_ENGINE_SRC", str(named))
    assert find_engine_source(None, spec) == named
    option = engine(here / "option")
    assert find_engine_source(option, spec) == option


def test_an_editable_install_uses_its_checkout(here):
    checkout = engine(here / "site-packages" / "engine_src")
    assert find_engine_source(None, here / "x.yaml") == checkout


def test_a_named_place_that_is_wrong_is_not_passed_over(here, monkeypatch):
    engine(here / "engine_src")
    with pytest.raises(UsageError, match=r"--engine-src .*nowhere is not an engine source"):
        find_engine_source(here / "nowhere", None)
    monkeypatch.setenv("PERFRUNNER_ENGINE_SRC", str(here))
    with pytest.raises(UsageError, match=r"\$PERFRUNNER_ENGINE_SRC"):
        find_engine_source(None, None)


def test_another_projects_folder_is_not_taken(here):
    (here / "engine_src").mkdir()
    (here / "engine_src" / "CMakeLists.txt").write_text("project(other)\n")
    with pytest.raises(UsageError) as caught:
        find_engine_source(None, here / "x.yaml")
    assert "--engine-src" in caught.value.hint


def test_within_the_engine_its_name_does_not_matter(here, monkeypatch):
    own = engine(here / "site-packages" / "engine_src")
    other = engine(here / "kv" / "engine")
    (other / "server").mkdir()
    monkeypatch.chdir(other / "server")
    assert find_engine_source(None, None) == own, "another project with options/"
    (other / "options" / "Options.cmake").touch()
    assert find_engine_source(None, None) == other


def test_revisions_are_those_of_the_repository_that_we_are_in(here, monkeypatch):
    own = engine(here / "site-packages" / "engine_src")
    assert find_engine_source(None, None, revisions=True) == own, "in none"
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here.parent))
    mine = here / "mine"
    engine(mine / "src" / "kv")
    (mine / "src/kv/options/Options.cmake").touch()
    subprocess.run(["git", "init", "-q", mine], check=True)
    subprocess.run(["git", "-C", mine, "add", "."], check=True)
    monkeypatch.chdir(mine)
    with pytest.raises(UsageError, match="mine has no engine_src/ here or above") as caught:
        find_engine_source(None, None, revisions=True)
    assert caught.value.hint == f"--engine-src {mine / 'src/kv'}"
    assert find_engine_source(None, None) == own, "the engine as it is"
    assert find_engine_source(mine / "src/kv", None, revisions=True) == mine / "src/kv"
