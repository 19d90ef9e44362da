"""What grows with the amount of data grows no faster than it, and a report costs little more than its imports."""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import insert

sys.path.insert(0, str(Path(__file__).parent / "report"))
import synthetic

from perfrunner.analysis.series import changes
from perfrunner.build.identity import source_files, source_hash
from perfrunner.report.redact import hidden
from perfrunner.results import ExperimentRecord, ResultStore, schema
from tests.support.costs import cost_ratio, python
from tests.support.fakes import ROOT

pytestmark = pytest.mark.long


def test_a_report_costs_little_more_than_what_it_imports(tmp_path: Path) -> None:
    """Numpy and the store's library are most of it, whatever the machine."""
    synthetic.write(tmp_path)
    report = ["-m", "perfrunner", "report", "--out", str(tmp_path)]
    assert cost_ratio(lambda: python(*report), lambda: python("-c", "import numpy, sqlalchemy")) < 3


def test_hashing_the_source_costs_little_more_than_reading_it() -> None:
    root = ROOT / "engine_src"

    def read() -> str:
        digest = hashlib.sha256()
        for path in source_files(root):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    assert cost_ratio(lambda: source_hash(root), read) < 5


def test_hiding_costs_in_proportion_to_the_length_of_a_word() -> None:
    def text(length: int) -> str:
        word = "x" * length
        return f"{word} /srv/people/alice/.ssh/id {word}"

    assert cost_ratio(lambda: hidden(text(800_000)), lambda: hidden(text(200_000))) < 8


def test_a_series_of_nights_costs_in_proportion_to_its_length() -> None:
    values = list(np.random.default_rng(1).normal(0, 1, 1200))
    assert cost_ratio(lambda: changes(values, 1e-4), lambda: changes(values[:300], 1e-4)) < 10


def test_loading_trials_costs_little_more_than_parsing_their_metrics(tmp_path: Path) -> None:
    metrics = {f"metric_{i}": 1000.0 + i for i in range(24)}
    now = datetime(2026, 11, 20, tzinfo=timezone.utc)
    rows = [
        {"experiment_id": "e1", "block": n, "attempt": 1, "position": 1, "workload": "w", "bucket": "-",
         "variant": "v", "build_id": "b", "status": "ok", "reason": "", "started_at": now,
         "finished_at": now, "metrics": metrics, "facts": {}, "raw_dir": ""}
        for n in range(10_000)
    ]  # fmt: skip
    text = json.dumps(metrics)
    record = ExperimentRecord(
        id="e1", name="e", seed=1, created_at=now, spec_text="", spec_path="", tool_version="1",
        state="done", spec_json={}, facts={},
    )  # fmt: skip
    with ResultStore.open(tmp_path) as store:
        store.create_experiment(record)
        with store._transaction() as connection:
            connection.execute(insert(schema.trials), rows)
        ratio = cost_ratio(
            lambda: store.load("e1"), lambda: [json.loads(text) for _ in range(10_000)], rounds=3
        )
    assert ratio < 20
