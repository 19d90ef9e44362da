"""`perfrunner ab` on two revisions of the real engine: built in one tree, driven by one revision's tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import BUILD_TIMEOUT_S
from tests.support.built import CACHE
from tests.support.fakes import ROOT

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(BUILD_TIMEOUT_S + 300)]


def perfrunner(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perfrunner", *words, "--cache", str(CACHE), "--json", "-q"],
        cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False,
    )  # fmt: skip


def test_two_revisions_and_the_tools_of_a_third(two_revisions: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    host = {"hosts": {"here": {"work_dir": str(tmp_path / "work")}}}
    cluster.write_text(
        json.dumps(
            {
                "name": "c",
                "transport": "local",
                "engine_nodes": ["here"],
                "load_clients": ["here"],
                **host,
            }
        )
    )
    done = perfrunner(
        tmp_path, "ab", "v1", "v2", "--workload", "pillowfight", "--items", "2000", "--blocks", "1",
        "--cluster", str(cluster), "--engine-src", str(two_revisions / "engine_src"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["trials"] == {"ok": 2, "discarded": 0, "failed": 0}
    builds = document["facts"]["builds"]
    assert [b["provenance"]["source"]["title"] for b in builds.values()] == ["change 1", "change 2"]
    assert len({b["build_id"] for b in builds.values()}) == 2
    linked = builds["v1"]["provenance"]["linked"]
    assert "librocksdb.a" in linked or any(name.startswith("librocksdb.so") for name in linked)
    sources = document["facts"]["recorded"]["sources"]
    assert sources["tools"]["dirty"] == ["load/generators/notes.h", "load/generators/tool_main.cc"]
    assert sources["distances"]["v2"]["changed"] == [["load/generators/tool_main.cc", 1, 0]]
    kept = tmp_path / "perfrunner-results" / document["experiment"] / "trials"
    script = next(kept.glob("1-*v1*/reproduce.sh")).read_text()
    assert "TOOLS_here" in script
    assert "/bin/pillowfight" in script


def test_an_engine_that_does_not_tell_its_allocators_version(
    two_revisions: Path, tmp_path: Path
) -> None:
    """Refused; with `settings_check.skip` measured, and marked."""
    stats = (
        (two_revisions / "engine_src/server/stats/stats.cc").read_text().splitlines(keepends=True)
    )
    messages = [line for line in stats if "allocator::version()" in line]
    assert len(messages) == 1
    (two_revisions / "engine_src/server/stats/stats.cc").write_text(
        "".join(line for line in stats if line not in messages)
    )
    allocator = {"name": "jemalloc-5.3.1"}
    old: dict[str, object] = {
        "allocator": allocator, "source": {"dir": str(two_revisions / "engine_src")},
    }  # fmt: skip

    def run(**settings_check: object) -> subprocess.CompletedProcess[str]:
        spec = {
            "name": "older",
            "cluster": {
                "name": "c", "transport": "local", "engine_nodes": ["here"], "load_clients": ["here"],
                "hosts": {"here": {"work_dir": str(tmp_path / "work")}},
            },
            "engine": {"vbuckets": 16, "quota_mb": 100, "threads": 1},
            "limits": {"client_busy": 1.0},
            "workloads": {"append": {"type": "append", "items": 1000, "rounds": 1, "settle": 0}},
            "buckets": ["ephemeral"],
            "blocks": 1,
            "variants": {"now": {"allocator": allocator}, "old": old | settings_check},
            "baseline": "now",
        }  # fmt: skip
        (tmp_path / "spec.yaml").write_text(json.dumps(spec))
        return perfrunner(tmp_path, "run", "spec.yaml")

    refused = run()
    assert refused.returncode == 3, refused.stderr
    assert "the allocator reports no version" in refused.stderr
    assert "settings_check.skip" in refused.stderr
    done = run(settings_check={"skip": ["allocator.version"]})
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["trials"] == {"ok": 2, "discarded": 0, "failed": 0}
    assert {row["variant"] for row in document["results"] if not row["checked"]} == {"old"}
    (output,) = [text for text in document["warnings"] if "not checked" in text]
    assert output.startswith(
        "old: not checked because of settings_check.skip: allocator.version (asked for"
    )
