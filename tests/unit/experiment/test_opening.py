"""Which experiment a run belongs to, where several results directories share one store."""

from __future__ import annotations

from datetime import datetime, tzinfo
from pathlib import Path

import pytest

from perfrunner.errors import UsageError
from perfrunner.experiment.session import Session, begin, resume
from perfrunner.results import open_store
from perfrunner.spec.loader import load_spec
from tests.support.fakes import spec_text


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'all.sqlite'}"


@pytest.fixture(autouse=True)
def _standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Standing(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime(2026, 11, 24, 2, 0, 0, tzinfo=tz)

    monkeypatch.setattr("perfrunner.experiment.session.datetime", Standing)


def begun(out: Path, url: str | None) -> Session:
    path = out.parent / "spec.yaml"
    path.write_text(spec_text(out.parent / "work"))
    with open_store(out, url) as store:
        return begin(
            store, out, load_spec(path, [], None), text=path.read_text(), path=path, seed=None
        )


def test_runs_that_begin_in_one_second_are_distinguished(tmp_path: Path, url: str) -> None:
    """Whether of one results directory or of two that share a store."""
    runs = [begun(tmp_path / group, url) for group in "aabab"]
    assert len({session.experiment.id for session in runs}) == 5
    for session, group in zip(runs, "aabab", strict=True):
        assert session.directory == tmp_path / group / session.experiment.id
        assert (session.directory / "spec.yaml").is_file()
    matches = sorted(path.name for path in (tmp_path / "b").iterdir() if path.is_dir())
    assert len(matches) == 2, "nothing is left of a name that was taken"


def test_a_run_of_another_group_is_not_gone_on_with(tmp_path: Path, url: str) -> None:
    theirs = begun(tmp_path / "a", url).experiment
    spec = load_spec(tmp_path / "spec.yaml", [], None)
    with open_store(tmp_path / "b", url) as store:
        with pytest.raises(UsageError, match="nothing to resume"):
            resume(store, tmp_path / "b", spec, seed=None)
        with pytest.raises(UsageError, match="nothing to extend: there is no experiment") as caught:
            resume(store, tmp_path / "b", spec, seed=None, extend=2)
        assert caught.value.hint == "start one: omit --extend"
        with pytest.raises(UsageError, match="another results directory"):
            resume(store, tmp_path / "b", spec, seed=None, run=theirs.id)
        assert store.latest() is None
        assert len(store.list()) == 1
    mine = begun(tmp_path / "b", url).experiment
    with open_store(tmp_path / "b", url) as store:
        assert resume(store, tmp_path / "b", spec, seed=None).experiment.id == mine.id
