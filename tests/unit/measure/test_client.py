from __future__ import annotations

import json
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, check_stored, merge_reports, parse_report

H = {"count": 2, "mean": 1500.0, "max": 2000, "buckets": [[1000, 1], [2000, 1]]}


def pillowfight(**changes: Any) -> dict[str, Any]:
    access = {
        "ops": 300, "gets": 100, "sets": 200, "hits": 99, "misses": 1,
        "errors": {"etmpfail": 2, "timeout": 0}, "seconds": 2.5,
        "series": [{"t": 1.0, "ops": 120}, {"t": 2.0, "ops": 130}, {"t": 2.5, "ops": 50}],
        "latency_ns": {"get": H, "set": H},
    }  # fmt: skip
    client = {
        "cpu_user_s": 0.5,
        "cpu_sys_s": 0.25,
        "wall_s": 2.5,
        "threads": 2,
        "busiest_thread_busy": 0.4,
    }
    return {
        "tool": "pillowfight", "schema": 1, "options": {}, "populate": None,
        "access": access, "client": client, **changes,
    }  # fmt: skip


def parse(document: object) -> ClientReport:
    return parse_report(json.dumps(document), "client.json")


def test_a_load_that_stored_nothing_is_an_error() -> None:
    stored = pillowfight()["access"]
    check_stored(parse(pillowfight(populate={**stored, "errors": {"other": 299, "enomem": 1}})))
    refused = {**stored, "errors": {"other": 300}, "refusal": "SERVER_ERROR too large"}
    with pytest.raises(TrialError, match=r"refused all 300 items.* 'SERVER_ERROR too large'"):
        check_stored(parse(pillowfight(populate=refused)))


def test_a_pillowfight_report_is_read() -> None:
    report = parse(pillowfight())
    assert report.prepare is None
    assert report.drive is not None
    assert (report.drive.ops, report.drive.misses, report.drive.error_count) == (300, 1, 2)
    assert [(s.t, s.ops, s.width) for s in report.drive.series] == [
        (1, 120, 1),
        (2, 130, 1),
        (2.5, 50, 0.5),
    ]
    assert report.client.cpu_s == 0.75
    assert not report.interrupted


def test_the_operations_of_append_are_the_requests_that_a_server_counts() -> None:
    report = parse(
        {
            "tool": "append", "schema": 1, "load": {"ops": 10, "seconds": 1},
            "update": {"rmw": 65, "seconds": 2, "gets": 65, "sets": 64, "errors": {}},
            "live_bytes": 12345, "client": pillowfight()["client"],
        }
    )  # fmt: skip
    assert report.drive is not None
    assert report.drive.ops == 129
    assert report.live_bytes == 12345
    assert report.prepare is not None
    assert report.prepare.ops == 10


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "printed no JSON"),
        ('{"tool": "pilo', "printed no JSON"),
        ("[1]", "expected a JSON object"),
        ('{"tool": "pillowfight", "schema": 2}', "expected schema 1, got 2"),
        ('{"tool": "memtier", "schema": 1}', "unknown load tool 'memtier'"),
        (json.dumps(pillowfight(client=None)), "`client` is missing"),
        (json.dumps(pillowfight(access={"ops": "many"})), "`ops` is missing or not a number"),
        (
            json.dumps(
                pillowfight(access={"ops": 1, "seconds": 1, "series": [{"t": 0, "ops": 1}]})
            ),
            "series does not advance",
        ),
    ],
)
def test_a_wrong_report_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(TrialError, match=r"^client\.json: ") as caught:
        parse_report(text, "client.json")
    assert says in str(caught.value)


def test_merged_clients_add_up_and_the_series_is_added_second_by_second() -> None:
    single, two = parse(pillowfight()), parse(pillowfight())
    merged = merge_reports([single, two])
    assert merged.drive is not None
    assert (merged.drive.ops, merged.drive.misses, merged.drive.errors["etmpfail"]) == (600, 2, 4)
    assert [s.ops for s in merged.drive.series] == [240, 260, 100]
    assert merged.drive.latency["get"].count == 4
    assert merged.drive.seconds == 2.5  # they ran side by side
    assert merged.client.cpu_s == 1.5
    assert merged.client.threads == 4
    assert merged.client.busiest_thread_busy == 0.4  # the busiest of all, no average


def test_a_merged_series_ends_with_the_shortest_client() -> None:
    long, short = pillowfight(), pillowfight()
    short["access"]["series"] = short["access"]["series"][:1]
    merged = merge_reports([parse(long), parse(short)])
    assert merged.drive is not None
    assert len(merged.drive.series) == 1


def test_phases_that_only_some_clients_drove_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="some did not"):
        merge_reports([parse(pillowfight()), parse(pillowfight(access=None))])
