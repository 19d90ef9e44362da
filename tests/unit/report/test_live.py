"""`perfrunner serve`: progress and provisional estimates of a running experiment, for this machine alone."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from unittest.mock import patch

import pytest
import synthetic
from click.testing import CliRunner

from perfrunner.cli import main
from perfrunner.experiment.outdir import OutDirLock
from perfrunner.paths import STORE_FILE
from perfrunner.report.live import LiveServer, _Handler, progress
from perfrunner.results import ResultStore, open_store

SHAPE = synthetic.Shape(
    blocks=10, discarded_block=None, workloads=("append",), buckets=("ephemeral",), variants=synthetic.VARIANTS[:2]
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
    with OutDirLock(tmp_path):
        yield tmp_path, [trial for trial in data.trials if trial.block > 3]


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

    ask.address = server.server_address
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
    assert "Summary" in text


def test_cases_that_have_not_begun_are_planned_and_a_pause_is_no_pace(running):
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
    assert progress(begun, 3).planned == 40, "two cases, though one has not begun"
    assert progress(begun, 3).left_s == pytest.approx(2 * 60 * 17), "17 blocks of a case"
    spec["workloads"] = {**spec["workloads"], "htb": {"type": "microbench"}}
    assert progress(begun, 3).planned == 60, "a program without an engine has no bucket"


def test_the_whole_report_is_a_link_away(get):
    _, _, text = get("/")
    assert f'href="/{ID}/report.html"' in text
    status, headers, text = get(f"/{ID}/report.html")
    assert status == 200
    assert '<script type="application/json" id="data">' in text
    assert "Refresh" not in headers, "what a reader chose on it would be lost"
    assert "the experiment is still running" in text


def test_what_is_not_there_is_not_found(get):
    assert get("/nothing")[0] == 404
    assert get("/../../etc/passwd")[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example:80", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:8321", 403),
        ("", 403),
        ("localhost:8321", 200),
        ("127.0.0.1", 200),
    ],
)
def test_another_sites_page_is_not_answered(get, host, status):
    assert get("/", Host=host)[0] == status


@pytest.mark.parametrize(
    "path", ["/%00", "/%ff%0d%0aX:%20y", "/" + "x" * 5000, "/%2e%2e/%2e%2e/etc/passwd"]
)
def test_a_path_that_means_nothing_is_not_found(get, path):
    status, headers, _ = get(path)
    assert status == 404
    assert "X" not in headers


def test_a_viewer_that_hangs_keeps_nobody_waiting_and_is_let_go(get, monkeypatch):
    assert _Handler.timeout <= 60
    monkeypatch.setattr(_Handler, "timeout", 0.5)
    with (
        socket.create_connection(get.address) as silent,
        socket.create_connection(get.address) as half,
    ):
        half.sendall(b"GET / HTTP/1.1\r\n")
        assert get("/")[0] == 200
        for single in (silent, half):
            single.settimeout(60)
            assert single.recv(1) == b""


def test_a_viewer_that_goes_away_is_no_fault(get, capfd):
    for path in ("/", f"/{ID}/report.html"):
        with socket.create_connection(get.address) as single:
            single.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            single.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert get("/")[0] == 200  # a page at a time: theirs were made before it
    assert capfd.readouterr().err == ""


def test_two_viewers_see_the_same_page(get):
    with ThreadPoolExecutor(2) as viewers:
        (single, _, text), (other, _, again) = viewers.map(get, ("/", "/"))
    assert (single, other, text) == (200, 200, again)


def test_a_store_that_is_away_is_asked_again(get, running):
    store = running[0] / STORE_FILE
    store.rename(store.with_suffix(".away"))
    store.mkdir()
    status, headers, text = get("/")
    assert status == 503
    assert int(headers["Refresh"]) >= 5
    assert "Traceback" not in text
    store.rmdir()
    store.with_suffix(".away").rename(store)
    assert get("/")[0] == 200


def test_while_variants_are_built_their_number_is_reported(tmp_path):
    synthetic.write(tmp_path, SHAPE, "whole")
    with ResultStore.open(tmp_path) as store, OutDirLock(tmp_path):
        data = store.load("whole")
        store.create_experiment(replace(data.experiment, id=ID, state="running"))
        server = LiveServer(partial(open_store, tmp_path, None, create=False), ID, 0)
        with server:
            assert "0 of 2 variants built, 0 of 20 trials" in server.page("/")[0].decode()
            store.add_build(ID, data.builds[0])
            assert "1 of 2 variants built, 0 of 20 trials" in server.page("/")[0].decode()
            store.set_state(ID, "failed")
            assert "built" not in server.page("/")[0].decode().partition("Experiments")[0]


def test_time_left_is_of_the_pace_so_far(running):
    with ResultStore.open(running[0], create=False) as store:
        data = store.load(ID)
    matches = progress(data, 3)
    took = data.trials[1].finished_at - data.trials[0].started_at
    assert matches.left_s == pytest.approx(7 * took.total_seconds()), "seven blocks of two trials"


def test_an_experiment_that_is_not_known_is_reported_at_once(running):
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
