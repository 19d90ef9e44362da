"""A run over SSH whose link is cut in a trial: the trial is void and redone, the run goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from sshd import Sshd

from perfrunner.results import ResultStore
from tests.support.fakes import Lab, variant

pytestmark = pytest.mark.integration

SLOW = {"base": variant(sleep=1.0), "changed": variant(sleep=1.0)}


def test_a_cut_link_costs_a_block(sshd: Sshd, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    host = sshd.host_spec(lab.work).model_dump(mode="json", exclude_none=True)
    cluster = {
        "name": "lab", "transport": "ssh", "hosts": {"kv1": host},
        "engine_nodes": ["kv1"], "load_clients": ["kv1"],
    }  # fmt: skip
    lab.write_spec(cluster=cluster, variants=SLOW, blocks=1)
    driver = lab.start()
    driver.wait_for("TrialPhase", phase="access")
    for pid in sshd.session_pids():
        os.kill(pid, signal.SIGKILL)
    assert driver.finish() == 0, driver.stderr()
    with ResultStore.open(lab.out, create=False) as store:
        data = store.load(store.resolve(None).id)
    ended = sorted((t.attempt, t.variant, t.status) for t in data.trials)
    assert ended == [
        (1, "base", "void"), (1, "changed", "void"), (2, "base", "ok"), (2, "changed", "ok"),
    ]  # fmt: skip
    assert "lost" in data.trials[0].reason
    assert any("waiting for the hosts" in event["message"] for event in driver.of("Warned"))
    assert not list((lab.work / "ledger").glob("*.json")), "the cut trial's engines were stopped"
    lab.assert_nothing_left()
