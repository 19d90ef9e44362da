"""A store with the runs of a thousand groups, a hundred thousand trials, is read in two seconds of CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfrunner.fleet.dbos_queue import DbosQueue
from perfrunner.results import ResultStore
from tests.integration.postgres import raised_postgres
from tests.support.fakes import ROOT
from tests.support.manynights import fill
from tests.unit.fleet.test_queue import job

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

GROUPS = 1000
SECONDS = 2.0  # the issue's; others on the machine take no part in it, but its caches do
SECONDS_OF_A_SITE = 5.0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "postgresql":
        with raised_postgres() as server:
            yield _filled(server.new_database())
    else:
        yield _filled(f"sqlite:///{tmp_path_factory.mktemp('many') / 'all.sqlite'}")


def _filled(url: str) -> str:
    with ResultStore.open(url) as store:
        fill(store, GROUPS)
    return url


def cpu_seconds(*words: str, cwd: Path) -> float:
    """Of a command in a process of its own, imports and all; the best of three, for it is the program's."""
    found = []
    for _ in range(3):
        before = os.times()
        subprocess.run(
            [sys.executable, "-m", "perfrunner", *words], cwd=cwd, check=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        after = os.times()
        found.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    return min(found)


@pytest.mark.parametrize("words", [("list",), ("report",), ("history",), ("show",)], ids=" ".join)
def test_the_store_is_read_in_time(url: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert cpu_seconds(*words, "--store", url, cwd=tmp_path) < SECONDS


def test_a_site_of_a_thousand_experiments_and_hosts_is_renewed_in_time(tmp_path: Path) -> None:
    """Its first run works out what each night came to, and keeps that beside the store: it is not the best one."""
    with ResultStore.open(tmp_path / "results") as store:
        fill(store, GROUPS)
    assert cpu_seconds("site", "public", "--out", "results", cwd=tmp_path) < SECONDS_OF_A_SITE
    assert len(list((tmp_path / "public").glob("host-*.html"))) == GROUPS


def test_status_of_a_thousand_groups(tmp_path: Path) -> None:
    lines = ["groups:"]
    for number in range(GROUPS):
        lines.append(f"  g{number}: {{cluster: c{number}.yaml}}")
        (tmp_path / f"c{number}.yaml").write_text(
            f"name: c{number}\ntransport: ssh\nhosts: {{kv: {{address: 10.1.{number // 250}.{number % 250}}}}}\n"
            "engine_nodes: [kv]\nload_clients: [kv]\n"
        )
    (tmp_path / "fleet.yaml").write_text("\n".join(lines) + "\n")
    queue = DbosQueue.open(str(tmp_path / "fleet.sqlite"), create=True)
    for number in range(GROUPS):
        queue.submit(replace(job(), id=f"job-{number}", group=f"g{number}"))
    queue.close()
    assert cpu_seconds("fleet", "status", cwd=tmp_path) < SECONDS
