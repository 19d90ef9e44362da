"""An archive that a stranger made writes nothing outside of its run, and nothing that is wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import stat
import zipfile
from pathlib import Path

import pytest

from perfrunner.errors import PerfrunnerError, StoreError
from perfrunner.results import (
    ResultStore,
    transfer,
)
from perfrunner.results.transfer import MANIFEST, import_archive
from tests.support.archived_run import FILES, RAW_DIR, RUN, manifest_of, rewritten


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
