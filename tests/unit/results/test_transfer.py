"""Archives: a run that moves between stores is whole, and a hostile archive writes nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
import stat
import zipfile
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.errors import PerfrunnerError, StoreError, UsageError
from perfrunner.experiment.session import resume
from perfrunner.results import (
    BuildRecord,
    ExperimentData,
    ExperimentRecord,
    ResultStore,
    TrialRecord,
    open_store,
    transfer,
)
from perfrunner.results.database_errors import ServerAwayError
from perfrunner.results.transfer import MANIFEST, import_archive, write_archive
from perfrunner.spec.pair import small_spec

NOW = datetime(2026, 11, 20, 22, 0, 0, 123456, tzinfo=timezone.utc)
RUN = "demo-20261120-220000"
RAW_DIR = f"{RUN}/trials/1-pf-glibc"
FILES = {"samples.jsonl": b'{"t": 1}\n' * 1000, "slices.json": b"{}", "empty.log": b""}


def fill(store: ResultStore, *, digests: bool = True) -> None:
    """A run with a build, two trials and raw files of the first."""
    record = ExperimentRecord(
        id=RUN, name="demo", spec_json={"baseline": "glibc", "variants": {"glibc": {}}}, spec_text="name: demo\n",
        spec_path="/home/ann/demo.yaml", seed=2**62, created_at=NOW, tool_version="0.1",
        facts={"hosts": {"h": {"cpus": 2}}}, state="done",
    )  # fmt: skip
    trial = TrialRecord(
        block=1, attempt=1, position=1, workload="pf", bucket="persistent", variant="glibc", build_id="b1",
        status="ok", reason="", started_at=NOW, finished_at=NOW + timedelta(seconds=5),
        metrics={"ops_per_s": 1.0000000001e6}, facts={"note": "ü"}, raw_dir=RAW_DIR,
    )  # fmt: skip
    build = BuildRecord("glibc", "b1", "/cache/b1", True, {"compiler": "g++"}, {"opt.x": "1"})
    store.create_experiment(record)
    store.add_build(RUN, build)
    store.add_trial(RUN, trial)
    store.add_trial(
        RUN, replace(trial, block=2, status="failed", reason="crash", metrics={}, raw_dir="")
    )
    assert store.directory is not None
    raw = store.directory / RAW_DIR
    raw.mkdir(parents=True)
    for name, content in FILES.items():
        (raw / name).write_bytes(content)
    if digests:
        store.keep_raw(RUN, RAW_DIR, raw)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results directory of the archived run."""
    directory = tmp_path_factory.mktemp("here")
    with ResultStore.open(directory) as store:
        fill(store)
        write_archive(store, RUN, directory / "run.zip")
    return directory


@pytest.fixture
def archive(here: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(here / "run.zip", tmp_path))


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


def manifest_of(archive: Path) -> dict:
    with zipfile.ZipFile(archive) as opened:
        return json.loads(opened.read(MANIFEST))


def rewritten(archive: Path, document: dict, members: dict[str, bytes] | None = None) -> Path:
    """The archive with another manifest, and with other or additional members."""
    path = archive.with_name("hostile.zip")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        contents = {info.filename: old.read(info) for info in old.infolist()} | (members or {})
        contents[MANIFEST] = json.dumps(document).encode()
        for name, content in contents.items():
            new.writestr(name, content)
    return path


def entry(raw_dir: str, name: str, content: bytes = b"x") -> dict:
    digest = hashlib.sha256(content).hexdigest()
    return {"raw_dir": raw_dir, "name": name, "sha256": digest, "bytes": len(content)}


def refused(archive: Path, tmp_path: Path) -> str:
    """Import a hostile archive; it must change nothing. Returns the message."""
    out = tmp_path / "there"
    with ResultStore.open(out) as there:
        before = sorted(path for path in tmp_path.rglob("*"))
        with pytest.raises(PerfrunnerError) as raised:
            import_archive(there, archive)
        assert there.list() == []
    assert sorted(path for path in tmp_path.rglob("*")) == before
    return raised.value.message


@pytest.mark.parametrize(
    ("raw_dir", "name"),
    [
        ("..", "evil"),
        ("../there", "results.sqlite"),
        ("/tmp", "evil"),
        (f"{RUN}/../other-20261120-220000/trials", "evil"),
        (f"{RUN}/trials/..", "evil"),
        (f"{RUN}/./trials", "evil"),
        (f"{RUN}//trials", "evil"),
        ("other-20261120-220000/trials", "evil"),
        (RUN, "report.html"),
        ("", "evil"),
        (f"{RUN}/trials", "../evil"),
        (f"{RUN}/trials", "a/b"),
        (f"{RUN}/trials", ".."),
        (f"{RUN}/trials", "."),
        (f"{RUN}/trials", ""),
        (f"{RUN}/trials", "nul\0"),
        (f"{RUN}/trials", "line\nbreak"),
        (f"{RUN}/trials", "back\\slash"),
        (f"{RUN}/trials", "long" * 100),
        (f"{RUN}/" + "deep/" * 100 + "x", "evil"),
    ],
)
def test_a_file_outside_of_the_run_is_refused(
    archive: Path, tmp_path: Path, raw_dir: str, name: str
) -> None:
    document = manifest_of(archive)
    document["files"].append(entry(raw_dir, name))
    members = {f"files/{raw_dir}/{name}".replace("\0", ""): b"x"}
    assert "outside of the run" in refused(rewritten(archive, document, members), tmp_path)


@pytest.mark.parametrize(
    "run",
    [
        "..", ".", "lock", "results.sqlite", "bisect", "../x-20261120-220000", "/x-20261120-220000", "", "a\0b",
        "a/b-20261120-220000", "x" * 200 + "-20261120-220000",
    ],
)  # fmt: skip
def test_an_id_that_no_run_has_is_refused(archive: Path, tmp_path: Path, run: str) -> None:
    document = manifest_of(archive)
    document["experiment"]["id"] = run
    document["files"] = []
    for trial in document["trials"]:
        trial["raw_dir"] = ""
    assert "not the id of a run" in refused(rewritten(archive, document), tmp_path)


def _set(document: dict, path: str, value: object) -> None:
    *steps, last = path.split(".")
    node = document
    for step in steps:
        node = node[int(step)] if step.isdigit() else node[step]
    node[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("experiment.created_at", "2026-11-20T22:00:00"),
        ("experiment.seed", 2**70),
        ("experiment.state", "finished"),
        ("experiment.spec_json", "text"),
        ("experiment.name", "colour\x1b[31m"),
        ("experiment.facts", None),
        ("trials.0.metrics", {"ops_per_s": float("nan")}),
        ("trials.0.metrics", {"ops_per_s": 1e999}),
        ("trials.0.metrics", {"bell\x07": 1.0}),
        ("trials.0.block", 2**40),
        ("trials.0.variant", "x\n" * 5),
        ("trials.0.variant", "x" * 1000),
        ("trials.0.status", "good"),
        ("trials.0.started_at", "yesterday"),
        ("trials.0.raw_dir", "../elsewhere"),
        ("trials.1.block", 1),  # the place of another trial
        ("builds.0.settings", {"a": ["list"]}),
        ("files.0.sha256", "0" * 63),
        ("files.0.sha256", "../" * 21 + "x"),
        ("files.0.bytes", -1),
        ("files.0.bytes", 1),
        ("files.1.bytes", 2**50),
        ("format", 2),
        ("format", "1"),
        ("unknown", 1),
    ],
)
def test_records_that_are_wrong_are_refused(
    archive: Path, tmp_path: Path, path: str, value: object
) -> None:
    document = manifest_of(archive)
    _set(document, path, value)
    refused(rewritten(archive, document), tmp_path)


def test_no_text_of_a_stranger_steers_the_terminal(archive: Path, tmp_path: Path) -> None:
    escape = "\x1b]52;c;cm0=\x07\x9b31m\rover"
    document = manifest_of(archive)
    document["experiment"]["facts"] = {
        "command": ["perfrunner", escape],
        escape: {"cpus": [escape]},
    }
    document["trials"][1]["reason"] = f"crash:\n\t{escape}"
    document["builds"][0]["provenance"] = {"compiler": escape}
    document["experiment"]["spec_text"] = f"name: demo\r\n# {escape}\n"
    with ResultStore.open(tmp_path / "there") as there:
        import_archive(there, rewritten(archive, document))
        data = there.load(RUN)
    records = [dataclasses.asdict(r) for r in (data.experiment, *data.builds, *data.trials)]
    texts = json.dumps(records, default=str, ensure_ascii=False)
    assert not re.search(r"\\u001b|\\u0007|\x9b|\\rover", texts)
    assert data.trials[1].reason.startswith("crash:\n\t")
    assert data.experiment.spec_text.startswith("name: demo\r\n")
    document["experiment"][escape] = 1
    assert "\x1b" not in refused(rewritten(archive, document), tmp_path / "elsewhere")


def test_a_file_that_is_listed_twice_is_refused(archive: Path, tmp_path: Path) -> None:
    document = manifest_of(archive)
    document["files"].append(document["files"][0])
    assert "listed twice" in refused(rewritten(archive, document), tmp_path)


def test_a_changed_or_missing_file_is_refused(archive: Path, tmp_path: Path) -> None:
    document = manifest_of(archive)
    member = f"files/{RAW_DIR}/slices.json"
    assert "SHA-256" in refused(rewritten(archive, document, {member: b"[]"}), tmp_path)
    document["files"].append(entry(RAW_DIR, "more.json"))
    assert "missing" in refused(rewritten(archive, document), tmp_path)


def test_a_file_that_unpacks_to_more_than_it_says_is_refused(archive: Path, tmp_path: Path) -> None:
    document = manifest_of(archive)
    member = f"files/{RAW_DIR}/slices.json"
    bomb = rewritten(archive, document, {member: bytes(50 << 20)})
    assert bomb.stat().st_size < 200_000
    assert "unexpected size" in refused(bomb, tmp_path)


def test_a_size_that_the_zip_file_lies_about_bounds_what_is_read(
    archive: Path, tmp_path: Path
) -> None:
    document = manifest_of(archive)
    member = f"files/{RAW_DIR}/slices.json"
    bomb = rewritten(archive, document, {member: bytes(50 << 20)})
    content = bomb.read_bytes()
    real, lie = (50 << 20).to_bytes(4, "little"), len(b"{}").to_bytes(4, "little")
    assert content.count(real) == 2  # local header and directory
    bomb.write_bytes(content.replace(real, lie))
    refused(bomb, tmp_path)


def test_all_raw_files_together_are_bounded(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "LARGEST_TOTAL", sum(map(len, FILES.values())) - 1)
    assert "GiB of raw files" in refused(archive, tmp_path)


def test_records_are_bounded_before_they_are_parsed(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "LARGEST_MANIFEST", 100)
    assert "unexpected size" in refused(archive, tmp_path)


def test_a_full_disk_is_seen_before_anything_is_written(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        transfer.shutil, "disk_usage", lambda _: transfer.shutil._ntuple_diskusage(9, 9, 0)
    )
    assert "MiB free" in refused(archive, tmp_path)


def test_links_and_modes_of_members_are_ignored(archive: Path, tmp_path: Path) -> None:
    document = manifest_of(archive)
    target = b"/etc/passwd"
    document["files"].append(entry(RAW_DIR, "link", target))
    path = rewritten(archive, document)
    with zipfile.ZipFile(path, "a") as opened:
        info = zipfile.ZipInfo(f"files/{RAW_DIR}/link")
        info.external_attr = (stat.S_IFLNK | 0o4777) << 16
        opened.writestr(info, target)
        opened.writestr("../../not-listed", b"ignored")
    with ResultStore.open(tmp_path / "there") as there:
        import_archive(there, path)
    written = tmp_path / "there" / RAW_DIR / "link"
    assert not written.is_symlink()
    assert written.read_bytes() == target
    assert written.stat().st_mode & 0o7111 == 0
    assert not list(tmp_path.rglob("not-listed"))


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_file_that_is_no_archive_or_cut_off_is_refused(
    archive: Path, tmp_path: Path, kept: float
) -> None:
    content = archive.read_bytes()
    archive.write_bytes(content[: int(kept if kept >= 1 else kept * len(content))])
    assert "run.zip" in refused(archive, tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 10_000, "\xff", '{"format": NaN}', "[]", ""])
def test_records_that_are_not_json_are_refused(archive: Path, tmp_path: Path, text: str) -> None:
    path = archive.with_name("hostile.zip")
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr(MANIFEST, text.encode("latin-1"))
    refused(path, tmp_path)


def test_an_encrypted_archive_is_refused(archive: Path, tmp_path: Path) -> None:
    content = bytearray(archive.read_bytes())
    for signature, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = content.find(signature)
        while place >= 0:
            content[place + at] |= 1
            place = content.find(signature, place + 4)
    archive.write_bytes(content)
    refused(archive, tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_judged_by_their_hash(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr(f"files/{RAW_DIR}/slices.json", b"[]")
    assert "SHA-256" in refused(archive, tmp_path)


def test_a_store_that_fails_leaves_nothing(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(ResultStore, "keep_raw", full)
    assert refused(archive, tmp_path) == "no space left"


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
