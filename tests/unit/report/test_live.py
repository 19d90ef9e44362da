"""`perfrunner serve`: progress and provisional estimates of a running experiment, for this machine alone."""

from __future__ import annotations

import http.client
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from unittest.mock import patch

import pytest
import synthetic
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.report.live import LiveServer
from perfrunner.report.live.page import progress
from perfrunner.results import STORE_FILE, ResultStore, open_store

SHAPE = synthetic.Shape(
    blocks=10, void_block=None, workloads=("append",), buckets=("ephemeral",), variants=synthetic.VARIANTS[:2]
)  # fmt: skip
ID = "live-20261124"
AT = datetime(2026, 11, 24, tzinfo=timezone.utc)


@pytest.fixture
def running(tmp_path):
    """A store with an experiment of ten blocks, three of which have been measured; and what is left of it."""
    synthetic.write(tmp_path, SHAPE, "whole")
    with ResultStore.open(tmp_path) as store:
        data = store.load("whole")
        store.delete("whole")
        store.create_experiment(replace(data.experiment, id=ID, state="running"))
        for build in data.builds:
            store.add_build(ID, build)
        store.add_trials(ID, [trial for trial in data.trials if trial.block <= 3])
    return tmp_path, [trial for trial in data.trials if trial.block > 3]


@pytest.fixture
def get(running):
    """get(path, **headers) -> (status, headers, text) of a server on the store."""
    server = LiveServer(partial(open_store, running[0], None, create=False), None, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def ask(path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    yield ask
    server.shutdown()
    thread.join()
    server.server_close()


def test_progress_and_estimates_follow_the_store(get, running):
    status, headers, text = get("/")
    assert status == 200
    assert int(headers["Refresh"]) >= 5
    assert "6 of 20 trials (30 %), 3 of 10 blocks, about" in text
    assert "Provisional estimates" in text
    assert "No verdict: 3 blocks, and a verdict needs 6." in text
    assert 'class="forest"' in text
    place, rest = running
    with ResultStore.open(place) as store:
        store.add_trials(ID, rest)
        store.set_state(ID, "done")
    status, headers, text = get("/")
    assert "20 of 20 trials (100 %)" in text
    assert "Refresh" not in headers
    assert "Provisional" not in text
    assert "What came out" in text


def test_cells_that_have_not_begun_are_planned_and_a_pause_is_no_pace(running):
    place, _ = running
    with ResultStore.open(place) as store:
        data = store.load(ID)
    spec = {**data.experiment.spec_json, "buckets": ["ephemeral", "persistent"]}
    begun = replace(
        data,
        experiment=replace(data.experiment, spec_json=spec),
        trials=tuple(
            replace(
                t,
                started_at=AT + timedelta(hours=h),
                finished_at=AT + timedelta(hours=h, minutes=2),
            )
            for t in data.trials
            for h in (
                0 if t.block == 1 else 10 * t.block,
            )  # interrupted for hours, and gone on with
        ),
    )
    assert progress(begun, 3).planned == 40, "two cells, though one has not begun"
    assert progress(begun, 3).left_s == pytest.approx(2 * 60 * 17), "17 blocks of a cell"


def test_the_whole_report_is_a_link_away(get):
    _, _, text = get("/")
    assert f'href="/{ID}/report.html"' in text
    status, _, text = get(f"/{ID}/report.html")
    assert status == 200
    assert '<script type="application/json" id="data">' in text
    assert "the experiment is still running" in text


def test_what_is_not_there_is_not_found(get):
    assert get("/nothing")[0] == 404
    assert get("/../../etc/passwd")[0] == 404


def test_another_sites_page_is_not_answered(get):
    assert get("/", Host="evil.example:80")[0] == 403


def test_time_left_is_of_the_pace_so_far(running):
    with ResultStore.open(running[0], create=False) as store:
        data = store.load(ID)
    found = progress(data, 3)
    took = data.trials[1].finished_at - data.trials[0].started_at
    assert found.left_s == pytest.approx(7 * took.total_seconds()), "seven blocks of two trials"


def test_an_experiment_that_is_not_known_is_said_at_once(running):
    result = CliRunner().invoke(main, ["serve", "nothing", "--out", str(running[0])])
    assert result.exit_code == 2
    assert "nothing" in result.output


def test_a_store_elsewhere_is_followed_too(running, tmp_path):
    url = f"sqlite:///{running[0] / STORE_FILE}"
    words = ["serve", ID, "--out", str(tmp_path / "nothing"), "--port", "0", "--store", url]
    with patch.object(LiveServer, "serve_forever", side_effect=KeyboardInterrupt):
        result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "http://127.0.0.1:" in result.output
