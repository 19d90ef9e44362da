"""Raw files of a store: kept by content, read where they are, checked, and never outside of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import event

from perfrunner.errors import StoreError, TrialError
from perfrunner.results import ResultStore, schema
from perfrunner.results.files import raw_files
from tests.support.records import experiment, plant, trial


def raw_files_of(tmp_path, **files):
    directory = tmp_path / "trial"
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / f"{name}.json").write_text(text)
    return directory


def test_raw_files_are_kept_by_content_for_any_client_that_reads(sharing, tmp_path):
    """`sharing(out)` opens one store as the group whose results directory is `out`."""
    left = raw_files_of(tmp_path, client="17", other="17", samples="x" * 3_000_000)
    with sharing("a") as mine, sharing("b") as theirs:
        for store, name in ((mine, "e1"), (theirs, "e2")):
            store.create_experiment(experiment(name))
            store.add_trial(name, trial(raw_dir=f"{name}/trials/x"))
            store.keep_raw(name, f"{name}/trials/x", left)
            store.keep_raw(name, f"{name}/trials/x", left)  # by a run that goes on
        contents = [p for p in (tmp_path / "raw").rglob("*") if p.is_file()]
        assert sorted(p.stat().st_size for p in contents) == [2, 3_000_000]
        matches = raw_files(theirs.load("e1"), "e1/trials/x")
        assert {name: path.read_text()[:2] for name, path in matches.items()} == {
            "client.json": "17", "other.json": "17", "samples.json": "xx",
        }  # fmt: skip
        mine.delete("e1")
        assert raw_files(mine.load("e2"), "e2/trials/x")["client.json"].read_text() == "17"
        mine.delete("e2")
    assert not [p for p in (tmp_path / "raw").rglob("*") if p.is_file()]


def test_a_content_that_goes_while_it_is_kept_is_kept_again(sharing, tmp_path):
    """The last other experiment that has it is removed between the copy and its row."""
    left = raw_files_of(tmp_path, client="17")
    with sharing("a") as mine, sharing("b") as theirs:
        mine.create_experiment(experiment("e1"))
        theirs.create_experiment(experiment("e2"))
        theirs.keep_raw("e2", "e2/trials/x", left)
        keep, asked = mine._contents.keep, []

        class Late(type(mine._contents)):
            def keep(self, directory):
                matches = keep(directory)
                if not asked:
                    theirs.delete("e2")
                asked.append(directory)
                return matches

        mine._contents = Late(mine._contents.directory)
        mine.keep_raw("e1", "e1/trials/x", left)
        assert raw_files(mine.load("e1"), "e1/trials/x")["client.json"].read_text() == "17"


def test_the_groups_own_files_are_read_where_they_are(sharing, tmp_path):
    with sharing("a") as store:
        store.create_experiment(experiment())
        store.add_trial("e1", trial())
        with pytest.raises(TrialError, match="without raw files"):
            raw_files(store.load("e1"), "e1/trials/x")
        (tmp_path / "a" / "e1" / "trials" / "x").mkdir(parents=True)
        (tmp_path / "a" / "e1" / "trials" / "x" / "client.json").write_text("1")
        assert list(raw_files(store.load("e1"), "e1/trials/x")) == ["client.json"]


def test_a_content_is_on_disk_before_its_name_and_its_row(sharing, tmp_path, monkeypatch):
    """What a power cut at each moment would leave: no row names a file that was not synced under its name."""
    left, done = raw_files_of(tmp_path, client="17"), []
    fsync, replace_file = os.fsync, os.replace

    def synced(fd):
        done.append(("fsync", Path(f"/proc/self/fd/{fd}").readlink()))
        fsync(fd)

    def replaced(old, new):
        done.append(("replace", Path(new)))
        replace_file(old, new)

    with sharing("a") as store:
        store.create_experiment(experiment())
        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", replaced)
        insertion = event.listens_for(store._engine, "before_cursor_execute")
        insertion(lambda *a: done.append(("row", a[2])) if "INTO raw_files" in a[2] else None)
        store.keep_raw("e1", "e1/trials/x", left)
        first = done.copy()
        done.clear()
        store.create_experiment(experiment("e2"))
        store.keep_raw("e2", "e2/trials/x", left)
    (content,) = (p for p in (tmp_path / "raw").rglob("*") if p.is_file())
    directories = {("fsync", content.parent), ("fsync", content.parent.parent)}
    row = [kind for kind, _ in done].index("row")
    assert directories <= set(done[:row]), "the group that stored it may not have synced them yet"
    done = first
    kinds = [kind for kind, _ in done]
    renamed, row = kinds.index("replace"), kinds.index("row")
    assert done[renamed][1] == content
    assert done[renamed - 1][0] == "fsync"
    assert done[renamed - 1][1].parent == content.parent, "the file under its temporary name"
    assert directories <= set(done[renamed:row])


def test_a_damaged_content_is_not_read_and_is_written_again(sharing, tmp_path):
    left = raw_files_of(tmp_path, client="17")
    with sharing("a") as store:
        store.create_experiment(experiment())
        store.keep_raw("e1", "e1/trials/x", left)
        (content,) = (p for p in (tmp_path / "raw").rglob("*") if p.is_file())
        content.write_bytes(b"\0\0")  # of the same size, as after a power cut
        with pytest.raises(TrialError, match=r"client\.json is damaged"):
            raw_files(store.load("e1"), "e1/trials/x")
        store.create_experiment(experiment("e2"))
        store.keep_raw("e2", "e2/trials/x", left)
        assert content.read_text() == "17"
        assert list(raw_files(store.load("e1"), "e1/trials/x")) == ["client.json"]


def test_verify_finds_damaged_and_missing_files_wherever_they_are(store, tmp_path):
    store.create_experiment(experiment())
    for number in (1, 2, 3):
        directory = tmp_path / "out" / "e1" / "trials" / str(number)
        directory.mkdir(parents=True)
        for name in ("client.json", "samples.jsonl"):
            (directory / name).write_text(f"{number} {name}")
        store.add_trial("e1", trial(block=number, raw_dir=f"e1/trials/{number}"))
        if number < 3:
            store.keep_raw("e1", f"e1/trials/{number}", directory)
    whole = store.verify_raw("e1")
    assert (whole.intact, whole.damaged, whole.missing) == (4, (), ())
    assert whole.unrecorded == ("e1/trials/3",)
    (tmp_path / "out/e1/trials/1/client.json").write_text("1 client.jsoM")
    (tmp_path / "out/e1/trials/2/samples.jsonl").unlink()
    broken = store.verify_raw("e1")
    assert broken.intact == 2
    assert broken.damaged == ("e1/trials/1/client.json",)
    assert broken.missing == ("e1/trials/2/samples.jsonl",)


@pytest.mark.parametrize("raw_dir", ["/etc", "../x", "e1/../../x", "e1/\0"])
def test_a_raw_directory_outside_the_results_is_not_read(store, raw_dir):
    store.create_experiment(experiment())
    with pytest.raises(StoreError, match="raw files"):
        store.add_trial("e1", trial(raw_dir=raw_dir))
    with pytest.raises(TrialError, match="raw files"):
        raw_files(store.load("e1"), raw_dir)


def test_a_content_whose_name_is_no_digest_is_not_read(sharing, tmp_path):
    with sharing("a") as store:
        store.create_experiment(experiment())
        store.keep_raw("e1", "e1/trials/x", raw_files_of(tmp_path, client="17"))
        plant(store, schema.raw_files.update(), sha256="../../../etc/passwd")
        with pytest.raises(StoreError, match="is not a SHA-256"):
            store.load("e1")
        with pytest.raises(StoreError, match="is not a SHA-256"):
            store.delete("e1")


@pytest.fixture
def sharing(tmp_path):
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}?raw={tmp_path / 'raw'}"
    return lambda out: ResultStore.open(url, out=tmp_path / out)


def test_raw_files_need_a_directory_that_every_group_finds(tmp_path):
    with pytest.raises(StoreError, match="absolute"):
        ResultStore.open(f"sqlite:///{tmp_path / 'x.sqlite'}?raw=here")
