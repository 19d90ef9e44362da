"""A run that is moved between stores, and what its archive holds."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from perfrunner.results import (
    BuildRecord,
    ExperimentRecord,
    ResultStore,
    TrialRecord,
)
from perfrunner.results.transfer import MANIFEST

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
