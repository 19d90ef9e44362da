"""Which night it is, and what a job makes of itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone

import pytest

from perfrunner.fleet.job import Job, fresh_id, job_of, night_id, night_of, with_store_of
from perfrunner.results.database import without_password

JOB = Job(
    id="j", name="s", spec="/s.yaml", group="g", cluster="/c.yaml", out="/out", directory="/",
    measured=("--repeats", "3"), always=("--cache", "/cache", "--fail-on", "worse"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("moment", "zone", "night"),
    [
        ("2026-11-20 23:50", "UTC", "2026-11-20"),
        ("2026-11-21 00:10", "UTC", "2026-11-20"),
        ("2026-11-21 11:59", "UTC", "2026-11-20"),
        ("2026-11-21 12:00", "UTC", "2026-11-21"),
        ("2026-11-21 05:00", "America/Los_Angeles", "2026-11-20"),  # 21:00 there
        ("2026-11-21 12:30", "America/Los_Angeles", "2026-11-20"),  # 04:30 there
        ("2026-11-20 11:30", "Asia/Tokyo", "2026-11-20"),  # 20:30 there
        ("2026-03-29 00:30", "Europe/Berlin", "2026-03-28"),  # the hour that summer takes
        ("2026-03-29 01:30", "Europe/Berlin", "2026-03-28"),
    ],
)
def test_a_night_lasts_from_noon_to_noon_of_its_zone(moment: str, zone: str, night: str) -> None:
    at = datetime.fromisoformat(moment).replace(tzinfo=timezone.utc)
    assert night_of(at, zone) == date.fromisoformat(night)


def test_a_run_is_begun_with_all_words_and_gone_on_with_without_what_it_knows() -> None:
    always = ["--out", "/out", "--cache", "/cache", "--fail-on", "worse"]
    assert JOB.run_args() == [
        "run", "/s.yaml", "--cluster", "/c.yaml", "--repeats", "3", *always,
    ]  # fmt: skip
    assert JOB.resume_args("s-1") == ["run", "--resume", "s-1", *always]


def test_a_job_is_read_back_also_when_a_newer_perfrunner_wrote_it() -> None:
    assert job_of(JOB.document()) == JOB
    assert job_of({**JOB.document(), "measured": ["--repeats", "3"], "colour": "red"}) == JOB


def test_ids() -> None:
    assert fresh_id("s", "g") != fresh_id("s", "g")
    assert night_id("s", "g", date(2026, 11, 20)) == "s-g-night-20261120"


def test_the_store_of_a_job_has_no_password() -> None:
    url = "postgresql+psycopg://me:s3cret@db.example:5432/results?raw=/raw"
    public = "postgresql+psycopg://me@db.example:5432/results?raw=%2Fraw"
    assert without_password(url) == public
    assert without_password(public) == public
    assert without_password("postgresql://me@db/results?password=s3cret") == (
        "postgresql+psycopg://me@db/results"
    )
    assert without_password("sqlite:////srv/results.sqlite") == "sqlite:////srv/results.sqlite"


def test_a_worker_takes_the_password_of_the_jobs_store_from_its_own_fleet_file() -> None:
    url, public = "postgresql://me:s3cret@db/results", "postgresql://me@db/results"
    assert with_store_of(replace(JOB, store=public), url).store == url
    older = replace(JOB, store="postgresql://me:before@db/results")
    assert with_store_of(older, url).store == url, "its password has changed since"
    other = replace(JOB, store="postgresql://me@elsewhere/results")
    assert with_store_of(other, url) == other
    assert with_store_of(JOB, url) == JOB, "a job of a fleet file without a store"
    assert with_store_of(replace(JOB, store=public), None).store == public
