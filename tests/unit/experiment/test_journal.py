from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from perfrunner.experiment.outdir import Journal, read_journal, trial_in_flight


def append(path: Path, *events: str) -> None:
    with contextlib.closing(Journal(path)) as journal:
        for event in events:
            journal.append(event, number=1)


def test_what_is_appended_is_read_in_order(tmp_path: Path) -> None:
    append(tmp_path / "j", "a", "b")
    append(tmp_path / "j", "c")
    assert [record["event"] for record in read_journal(tmp_path / "j")] == ["a", "b", "c"]


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_kill_at_any_byte_of_a_write_loses_that_record_only(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    append(path, "a", "b")
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    append(path, "c")
    events = [record["event"] for record in read_journal(path)]
    assert events[0] == "a"
    assert events[-1] == "c"
    # without only its newline the record is whole, and kept
    assert events == (["a", "b", "c"] if cut == 1 else ["a", "c"])


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none") == []


def test_the_trial_that_a_kill_cost_is_the_one_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "j"
    append(path, "begun", "trial-started", "trial-finished")
    assert trial_in_flight(read_journal(path)) is None
    append(path, "trial-started")
    lost = trial_in_flight(read_journal(path))
    assert lost is not None
    assert lost["event"] == "trial-started"
