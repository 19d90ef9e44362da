from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleetlab import FleetLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FleetLab]:
    lab = FleetLab(tmp_path)
    yield lab
    lab.close()
