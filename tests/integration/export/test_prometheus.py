"""The OpenMetrics export in a real Prometheus, queried as the dashboard of docs/grafana does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import perfrunner.results
from perfrunner.cli import main
from tests.support.ports import free_ports
from tests.support.waiting import until

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "report"))
import synthetic

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "perfrunner.json").read_text())

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's prometheus"),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stored")
    synthetic.write(directory, synthetic.Shape(workloads=("pillowfight",), buckets=("ephemeral",)))
    return directory


@pytest.fixture(scope="module")
def prometheus(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose database was made from the export."""
    place = tmp_path_factory.mktemp("prometheus")
    exported = CliRunner().invoke(
        main, ["export", "--format", "openmetrics", "--out", str(stored)], catch_exceptions=False
    )
    (place / "runs.om").write_text(exported.stdout)
    (place / "empty.yaml").write_text("{}\n")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", place / "runs.om", place / "data"],
        check=True, capture_output=True, timeout=600,
    )  # fmt: skip
    port = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={place}/empty.yaml", f"--storage.tsdb.path={place}/data",
             "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until(lambda: process.poll() is not None or is_ready(url), "Prometheus answers")
        assert process.poll() is None, (place / "log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait(600)


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=600) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def query(url: str, expression: str, at: float) -> list[dict[str, Any]]:
    words = urllib.parse.urlencode({"query": expression, "time": at})
    with urllib.request.urlopen(f"{url}/api/v1/query?{words}", timeout=600) as answer:
        return list(json.load(answer)["data"]["result"])


def test_a_trial_is_found_again_at_its_time(prometheus: str, stored: Path) -> None:
    with perfrunner.results.open(stored) as store:
        trial = store.load(store.resolve(None).id).trials[-1]
    (matches,) = query(
        prometheus,
        f'perfrunner_trial{{metric="ops_per_s", variant="{trial.variant}", bucket="ephemeral"}}',
        trial.finished_at.timestamp(),
    )
    assert float(matches["value"][1]) == trial.metrics["ops_per_s"]
    assert (matches["metric"]["spec"], matches["metric"]["unit"]) == ("quickstart", "ops/s")


def test_every_panel_of_the_dashboard_shows_something(prometheus: str, stored: Path) -> None:
    with perfrunner.results.open(stored) as store:
        end = store.load(store.resolve(None).id).trials[-1].finished_at.timestamp() + 60
    targets = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(targets) == 4
    for target in targets:
        expression = target["expr"]
        for name, value in {
            "$spec": "quickstart", "$metric": "ops_per_s", "$workload": ".*", "$bucket": ".*",
            "$__interval": "1d",
        }.items():  # fmt: skip
            expression = expression.replace(name, value)
        matches = query(prometheus, expression, end)
        assert len(matches) in (2, 3), expression
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert labels <= matches[0]["metric"].keys()
