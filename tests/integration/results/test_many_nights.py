"""Reading a store with the runs of a thousand groups, a hundred thousand trials, costs a few starts of Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfrunner.fleet.queue import DbosQueue
from perfrunner.results import ResultStore
from tests.integration.postgres import raised_postgres
from tests.support.costs import cost_ratio, python
from tests.support.manynights import fill
from tests.unit.fleet.test_queue import job

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

GROUPS = 1000
STARTS = 8  # of an interpreter that imports the largest libraries of a report
STARTS_OF_A_SITE = 20


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


def starts(*words: str, cwd: Path) -> float:
    """Return the CPU cost of a perfrunner command in starts of Python."""
    return cost_ratio(
        lambda: python("-m", "perfrunner", *words, cwd=cwd),
        lambda: python("-c", "import numpy, sqlalchemy", cwd=cwd),
        rounds=3,
    )


@pytest.mark.parametrize("words", [("list",), ("report",), ("history",), ("show",)], ids=" ".join)
def test_the_store_is_read_in_time(url: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert starts(*words, "--store", url, cwd=tmp_path) < STARTS


def test_a_site_of_a_thousand_experiments_and_hosts_is_renewed_in_time(tmp_path: Path) -> None:
    """Its first run works out what each night came to, and keeps that next to the store: it is not the best one."""
    with ResultStore.open(tmp_path / "results") as store:
        fill(store, GROUPS)
    assert starts("site", "public", "--out", "results", cwd=tmp_path) < STARTS_OF_A_SITE
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
    assert starts("fleet", "status", cwd=tmp_path) < STARTS
