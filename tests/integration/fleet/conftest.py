from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.postgres import Postgres, raised_postgres
from tests.support.fleetlab import FleetLab


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with raised_postgres() as raised:
        yield raised


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FleetLab]:
    lab = FleetLab(tmp_path)
    yield lab
    lab.close()
