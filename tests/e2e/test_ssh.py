"""The same spec over SSH, on an sshd of our own: deploy, run, fetch, and leave nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))  # importlib mode

from sshd import raised_sshd

from tests.e2e.conftest import BUILD_TIMEOUT_S, CACHE, WORKLOADS, RealLab

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(BUILD_TIMEOUT_S + 120)]


def test_a_tiny_experiment_over_ssh(real: RealLab, tmp_path: Path) -> None:
    with raised_sshd(tmp_path / "sshd") as server:
        host = server.host_spec(work_dir=real.work).model_dump(mode="json", exclude_none=True)
        real.write_spec(
            cluster={
                "name": "lab", "transport": "ssh", "hosts": {"kv1": host},
                "engine_nodes": ["kv1"], "load_clients": ["kv1"],
            },
            workloads={"pillowfight": WORKLOADS["pillowfight"]},
        )  # fmt: skip
        done, report = real.json()
    assert done.returncode == 0, done.stderr
    assert report["trials"] == {"ok": 2, "discarded": 0, "failed": 0}
    data = real.stored()
    assert data.experiment.facts["hosts"]["kv1"]["kernel"]
    for trial in data.trials:
        kept = {path.name for path in (real.out / trial.raw_dir).iterdir()}
        assert {"engine.log", "client.json", "samples.jsonl", "reproduce.sh"} <= kept
        assert "ssh -p" in (real.out / trial.raw_dir / "reproduce.sh").read_text()
    real.assert_nothing_left()
    assert not list((real.work / "runs").iterdir())


@pytest.mark.long
def test_built_on_the_engine_node_and_linked_again_there(real: RealLab, tmp_path: Path) -> None:
    """The build host's cache is the one that outlives the tests; the controller's is empty, so all is fetched."""
    CACHE.mkdir(parents=True, exist_ok=True)
    real.work.mkdir(mode=0o700)
    (real.work / "build").symlink_to(CACHE)
    with raised_sshd(tmp_path / "sshd") as server:
        host = server.host_spec(work_dir=real.work).model_dump(mode="json", exclude_none=True)
        real.write_spec(
            cluster={
                "name": "lab", "transport": "ssh", "hosts": {"kv1": host},
                "engine_nodes": ["kv1"], "load_clients": ["kv1"], "build_host": "kv1",
            },
            workloads={"pillowfight": WORKLOADS["pillowfight"]},
            relink="shuffle",
        )  # fmt: skip
        done, report = real.json("--cache", str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert report["trials"] == {"ok": 2, "discarded": 0, "failed": 0}
    data = real.stored()
    assert {build.provenance["build_host"] for build in data.builds} == {"kv1"}
    assert len({trial.facts["relinked"] for trial in data.trials} - {None}) == 2
    (fetched,) = (tmp_path / "cache" / "artifacts").iterdir()
    assert fetched.name == data.builds[0].build_id
    real.assert_nothing_left()


@pytest.mark.long
def test_revisions_are_compiled_on_a_build_host_that_has_nothing_but_compilers(
    real: RealLab, two_revisions: Path, tmp_path: Path
) -> None:
    """No cache, neither there nor here: the whole engine once, then what differs, in one tree of the build host."""
    with raised_sshd(tmp_path / "sshd") as server:
        hosts = {
            name: server.host_spec(work_dir=place).model_dump(mode="json", exclude_none=True)
            for name, place in (("kv1", real.work), ("maker", tmp_path / "maker"))
        }
        real.write_spec(
            cluster={
                "name": "lab", "transport": "ssh", "hosts": hosts,
                "engine_nodes": ["kv1"], "load_clients": ["kv1"], "build_host": "maker",
            },
            variants={
                name: {"allocator": {"name": "system"}, "source": {"git": name}}
                for name in ("v1", "v2")
            },
            baseline="v1",
            workloads={"pillowfight": WORKLOADS["pillowfight"]},
        )  # fmt: skip
        here = tmp_path / "cache"
        done, report = real.json(
            "--cache", str(here), "--engine-src", str(two_revisions / "engine_src")
        )
    assert done.returncode == 0, done.stderr
    assert report["trials"] == {"ok": 2, "discarded": 0, "failed": 0}
    builds = report["facts"]["builds"]
    assert {b["provenance"]["build_host"] for b in builds.values()} == {"maker"}
    assert [b["provenance"]["source"]["title"] for b in builds.values()] == ["change 1", "change 2"]
    made = {path.name for path in (tmp_path / "maker/build/artifacts").iterdir()}
    assert len(made) == 3, "two variants, and the load tools of the source in use"
    assert {b["build_id"] for b in builds.values()} < made
    assert {path.name for path in (here / "artifacts").iterdir()} == made, (
        "all of them were fetched"
    )
    assert len([path for path in (tmp_path / "maker/build/trees").iterdir() if path.is_dir()]) == 1
    assert not (here / "trees").exists(), "nothing was compiled here"
    real.assert_nothing_left()
