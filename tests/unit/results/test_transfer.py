"""Archives: a run that moves between stores is whole, and is stored completely or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.errors import UsageError
from perfrunner.experiment.session import resume
from perfrunner.results import (
    ExperimentData,
    ResultStore,
    open_store,
    transfer,
)
from perfrunner.results.database_errors import ServerAwayError
from perfrunner.results.transfer import import_archive, write_archive
from perfrunner.spec.pair import small_spec
from tests.support.archived_run import FILES, RAW_DIR, RUN, fill, manifest_of, rewritten


def test_a_run_arrives_as_it_left(here: Path, archive: Path, tmp_path: Path) -> None:
    with ResultStore.open(here) as old, ResultStore.open(tmp_path / "there") as there:
        moved = import_archive(there, archive)
        assert (moved.experiment.id, moved.trials, moved.files) == (RUN, 2, 3)
        before, after = old.load(RUN), there.load(RUN)
        assert after.trials == before.trials
        assert after.builds == tuple(replace(build, path="") for build in before.builds)
        facts = dict(after.experiment.facts)
        assert facts.pop("imported")["from"] == "run.zip"
        assert replace(after.experiment, facts=facts) == before.experiment
        assert there.verify_raw(RUN).intact == len(FILES)
    for name, content in FILES.items():
        assert (tmp_path / "there" / RAW_DIR / name).read_bytes() == content


def test_the_same_run_gives_the_same_archive(here: Path, archive: Path, tmp_path: Path) -> None:
    with ResultStore.open(here) as store:
        write_archive(store, RUN, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_raw_files_that_are_stored_by_content_travel_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.sqlite?raw={tmp_path}/contents"
    with open_store(tmp_path / "group", url) as store:
        fill(store)
    for path in (tmp_path / "group" / RAW_DIR).iterdir():
        path.unlink()
    (tmp_path / "group" / RAW_DIR).rmdir()
    other = f"sqlite:///{tmp_path}/other.sqlite?raw={tmp_path}/other-contents"
    with open_store(tmp_path / "group", url) as here, open_store(tmp_path / "new", other) as there:
        assert write_archive(here, RUN, tmp_path / "run.zip").problems == ()
        import_archive(there, tmp_path / "run.zip")
        assert there.verify_raw(RUN).intact == len(FILES)
        assert set(there.load(RUN).contents[RAW_DIR]) == set(FILES)


def test_damaged_and_missing_raw_files_are_left_out_and_named(tmp_path: Path) -> None:
    with ResultStore.open(tmp_path / "here") as store:
        fill(store)
        (tmp_path / "here" / RAW_DIR / "slices.json").write_text("[]")
        (tmp_path / "here" / RAW_DIR / "empty.log").unlink()
        moved = write_archive(store, RUN, tmp_path / "run.zip")
    assert moved.files == 1
    assert sorted(problem.split(":")[0] for problem in moved.problems) == [
        f"{RAW_DIR}/empty.log",
        f"{RAW_DIR}/slices.json",
    ]


def test_an_archive_of_an_earlier_version_is_read_in_todays_words(
    archive: Path, tmp_path: Path
) -> None:
    def spec(key: str) -> dict[str, object]:
        return {"variants": {"glibc": {"allocator": {"name": "jemalloc-5.1.0", key: "historic"}}}}

    document = manifest_of(archive)
    document["experiment"]["spec_json"] = spec("profile")
    with ResultStore.open(tmp_path / "there") as there:
        import_archive(there, rewritten(archive, document))
        assert there.load(RUN).experiment.spec_json == spec("preset")


def test_nothing_that_is_stored_is_replaced(archive: Path, tmp_path: Path) -> None:
    with ResultStore.open(tmp_path / "there") as there:
        import_archive(there, archive)
        kept = tmp_path / "there" / RAW_DIR / "slices.json"
        kept.write_text("mine")
        with pytest.raises(UsageError, match="is stored already"):
            import_archive(there, archive)
        assert kept.read_text() == "mine"
        there.delete(RUN)
        with pytest.raises(UsageError, match=r"exists, but no run .* is stored"):
            import_archive(there, archive)
        assert kept.read_text() == "mine"
        assert there.list() == []


def test_an_imported_run_is_never_resumed(archive: Path, tmp_path: Path) -> None:
    document = manifest_of(archive)
    document["experiment"]["state"] = "running"
    spec = small_spec()
    document["experiment"]["name"] = spec.name
    document["experiment"]["spec_json"] = spec.model_dump(mode="json")
    out = tmp_path / "there"
    with ResultStore.open(out) as there:
        import_archive(there, rewritten(archive, document))
        assert there.load(RUN).experiment.state == "interrupted"
        assert there.own() == []
        assert there.latest() is None
        with pytest.raises(UsageError, match="nothing to resume"):
            resume(there, out, spec, seed=None)
        with pytest.raises(UsageError, match="was imported"):
            resume(there, out, spec, seed=None, run=RUN)
    for words in (["run", "--resume"], ["run", "--resume", RUN], ["aa"]):
        assert CliRunner().invoke(main, [*words, "--out", str(out)]).exit_code == 2, words


def test_a_run_that_is_stored_keeps_its_files_though_the_server_went_away(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise ServerAwayError("postgresql://server: connection refused")

    monkeypatch.setattr(ResultStore, "keep_raw", away)
    monkeypatch.setattr(ResultStore, "delete", away)
    with open_store(tmp_path / "there", None) as store:
        with pytest.raises(ServerAwayError):
            import_archive(store, archive)
        assert [summary.experiment.id for summary in store.list()] == [RUN]
        assert (tmp_path / "there" / RAW_DIR / "slices.json").exists()


def test_the_files_of_a_run_are_on_disk_before_its_row(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    synced = []
    sync, add = transfer.sync_path, ResultStore.add

    def recorded(path: Path) -> None:
        synced.append(path)
        sync(path)

    def added(store: ResultStore, data: ExperimentData) -> None:
        assert (there / RUN).is_dir()
        assert synced[-1] == there, "the entry of the run's directory"
        add(store, data)

    monkeypatch.setattr(transfer, "sync_path", recorded)
    monkeypatch.setattr(ResultStore, "add", added)
    with open_store(there, None) as store:
        assert import_archive(store, archive).trials == 2
