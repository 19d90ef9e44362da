"""What a night keeps and removes: the site, reports, logs and builds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.build.cache import CACHE_TAG
from perfrunner.cli import main
from perfrunner.cli.nightly_place import Place
from tests.support.nights import OUT

ROOT = Path(__file__).parents[3]


def test_the_site_is_renewed_where_it_is_asked_for(night, cli):
    night(0.0)
    assert list(cli.directory.rglob("index.html")) == []
    for nights in (2, 3):
        night(0.0, 0, "--site", "public")
        index = (cli.directory / "public" / "index.html").read_text()
        assert index.count('/report.html">small-') == nights
    assert (cli.directory / "public" / "spec-small.html").is_file()
    assert (cli.directory / OUT / "nightly" / "trend.html").is_file()


def test_a_site_that_cannot_be_written_takes_no_news_with_it(nights, cli):
    (cli.directory / "public").write_text("a file")
    nights.next = 3
    result = CliRunner().invoke(main, ["nightly", "spec.yaml", "--site", "public/s"])
    assert result.exit_code == 3
    assert result.stdout.startswith("Subject: perfrunner: small failed")
    assert result.stderr.startswith("error: cannot write")


def test_so_many_reports_and_logs_are_kept_and_the_trend_page_is_renewed(night, cli):
    for _ in range(4):
        night(0.0, 0, "--keep", "2")
    place = cli.directory / OUT / "nightly"
    assert len(list((place / "logs").iterdir())) == 2
    reports = sorted(path.read_text() for path in (place / "reports").iterdir())
    assert reports[-1] == "<p>small-20261004</p>"
    trend = (place / "trend.html").read_text()
    assert trend.count("<circle") == 8  # four runs of two series
    assert "ops_per_s, pf · persistent: je against glibc" in trend
    state = json.loads((place / "state.json").read_text())
    assert state == {"small": {"failed": "", "reported_at": "2026-10-04T02:00:00+00:00"}}


def test_files_of_a_spec_with_a_longer_name_are_kept(tmp_path):
    place = Place(tmp_path)
    place.make()
    names = [
        "redis-20261101-020000-000000.log",
        "redis-7-20261101-020000-000000.log",
        "redis-7-20261102-020000.log",
    ]
    for name in names:
        (place.logs / name).touch()
    place.keep_newest("redis", 1)
    assert sorted(path.name for path in place.logs.iterdir()) == names
    place.keep_newest("redis-7", 1)
    assert sorted(path.name for path in place.logs.iterdir()) == [names[0], names[2]]


def artifacts(directory, count):
    for number in range(count):
        artifact = directory / "artifacts" / f"b{number}"
        artifact.mkdir(parents=True)
        os.utime(artifact, (1e9 + number, 1e9 + number))
    return directory / "artifacts"


@pytest.mark.parametrize(("keep", "stay"), [("5", 5), ("1", 4)], ids=["5", "all of one night"])
def test_so_many_builds_are_kept_here_and_on_the_hosts(night, cli, keep, stay):
    """Each night with a new source adds one for each variant, of tens of megabytes."""
    places = [artifacts(cli.directory / name, 7) for name in ("cache", "work")]
    (cli.directory / "cache" / CACHE_TAG).touch()
    night(3, 3, "--keep", keep)
    assert {len(list(place.iterdir())) for place in places} == {7}, "nothing ran there"
    night(0.0, None, "--keep", keep)
    for place in places:
        assert sorted(path.name for path in place.iterdir()) == [f"b{n}" for n in range(7)][-stay:]


def test_builds_that_cannot_be_removed_take_no_news_with_it(night, nights, cli):
    artifacts(cli.directory / "cache", 7)  # not marked as a cache of ours
    nights.next = 0.0
    result = CliRunner().invoke(main, ["nightly", "spec.yaml", "--keep", "5"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "old builds were not removed: " in result.stderr


LATE_IMPORTS = """
import sys
from pathlib import Path
from perfrunner.cli import main, nightly
from tests.support.nights import Nights

def ours():
    return {name for name in sys.modules if name.startswith("perfrunner")}

played = Nights(Path.cwd())
played.night, played.commits, played.truth = 14, True, -0.05
seen = set()

def run_spec(*args, **words):
    seen.update(ours() if not seen else ())
    return played(*args, **words)

nightly.run_spec = run_spec
main(["nightly", "spec.yaml", "--site", "site"], standalone_mode=False)
print(len(played.compared), *sorted(ours() - seen), file=sys.stderr)
"""


@pytest.mark.long
def test_a_night_loads_what_it_needs_before_its_first_run(followed, cli):
    """A `git pull` in the meantime must not mix the modules of two versions."""
    done = subprocess.run(
        [sys.executable, "-c", LATE_IMPORTS], cwd=cli.directory, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == "1", done.stderr
