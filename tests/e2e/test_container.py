"""The Dockerfile, built and run for real, on a base of Debian made from this machine's own package sources."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.sshd import raised_sshd
from tests.support.fakes import ROOT

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(3600)]

BASE, IMAGE = "localhost/debian:bookworm-slim", "localhost/perfrunner"
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
ROOTS = Path("/etc/ssl/certs/ca-certificates.crt")  # of a machine whose TLS is signed again
MOUNTED = "/etc/machine-roots.crt"
OWNER = 12345  # of the mounted results; nobody in the image

SPEC = """\
name: small
cluster: local
baseline: one
variants:
  one: {allocator: {name: system}}
  two: {allocator: {name: system}, env: {MALLOC_ARENA_MAX: "1"}}
engine: {vbuckets: 16, quota_mb: 128, threads: 1, shards: 1}
buckets: [ephemeral]
workloads:
  pf: {type: pillowfight, items: 5000, duration: 1200ms, ramp: 200ms, settle: 0, threads: 1}
blocks: 2
sampling_check: false
"""


@dataclass(frozen=True)
class Containers:
    """An image store of our own; nothing of the machine's is read or written."""

    directory: Path
    run_root: str  # podman refuses more than 50 characters

    @property
    def store(self) -> list[str]:
        return ["--root", str(self.directory / "root"), "--runroot", self.run_root]

    def buildah(self, *words: str) -> str:
        return ran(["buildah", *self.store, *words])

    def run(self, *words: str, mounts: Sequence[str] = (), directory: str = "") -> str:
        options = [
            "run", "--rm", "--network", "host", "--runtime", "runc", "--pids-limit", "0",
            "--ulimit", f"nofile={hard(resource.RLIMIT_NOFILE)}", "--ulimit", "nproc=4096:4096",
        ]  # fmt: skip
        # Other tests may measure on this host at the same time.
        options += ["-e", "PERFRUNNER_SHARE_HOST=1"]
        for mount in mounts:
            options += ["-v", mount]
        options += ["-w", directory] if directory else []
        podman = ["podman", *self.store, "--cgroup-manager", "cgroupfs", "--events-backend", "file"]
        return ran([*podman, *options, IMAGE, *words])


def hard(limit: int) -> str:
    """Both limits as the hard one here: a container may not ask for more than we have."""
    value = resource.getrlimit(limit)[1]
    return f"{value}:{value}"


def ran(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if missing := [tool for tool in ("buildah", "podman", "mmdebstrap") if not shutil.which(tool)]:
        pytest.skip(f"needs {', '.join(missing)}")
    if not SOURCES.exists():
        pytest.skip(f"no {SOURCES} to make a base from")
    run_root = tempfile.mkdtemp(prefix="podman-")
    made = Containers(tmp_path_factory.mktemp("containers"), run_root)
    base = made.directory / "base.tar"
    ran(["mmdebstrap", "--variant=minbase", "bookworm", str(base), str(SOURCES)])
    working = made.buildah("from", "scratch").strip()
    made.buildah("add", working, str(base), "/")
    made.buildah("config", "--cmd", "bash", working)
    made.buildah("commit", working, BASE)
    base.unlink()
    pip = made.directory / "pip.conf"
    pip.write_text(f"[global]\ncert = {MOUNTED}\n")
    made.buildah(
        "bud", "--format", "docker", "--isolation", "chroot", "--pull-never", "--network", "host", "--from", BASE,
        "-v", f"{ROOTS}:{MOUNTED}:ro", "-v", f"{pip}:/etc/pip.conf:ro",
        "-t", IMAGE, str(ROOT),
    )  # fmt: skip
    yield made
    shutil.rmtree(run_root)


def test_the_command_behind_the_image_is_run(containers: Containers) -> None:
    assert "Usage: perfrunner" in containers.run("perfrunner", "--help")


def listed_at(cache: Path) -> dict[str, int]:
    """When each artifact was finished; the time of its directory is that of its last use."""
    listed = (cache / "perfrunner" / "artifacts").glob("*/manifest.json")
    return {path.parent.name: path.stat().st_mtime_ns for path in listed}


def test_an_experiment_leaves_results_of_the_directorys_owner(
    containers: Containers, tmp_path: Path
) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    for directory in (results, cache):
        directory.mkdir()
        os.chown(directory, OWNER, OWNER)
    (tmp_path / "small.yaml").write_text(SPEC)
    tmp_path.chmod(0o755)
    mounts = [f"{results}:/results", f"{cache}:/cache", f"{tmp_path}:/specs"]
    command = ["perfrunner", "run", "/specs/small.yaml", "--out", "/results"]
    containers.run(*command, mounts=mounts)
    (run,) = results.glob("small-*")
    assert (run / "report.html").exists()
    assert {path.stat().st_uid for path in results.rglob("*")} == {OWNER}
    built = listed_at(cache)
    assert built
    containers.run(*command, mounts=mounts)
    assert listed_at(cache) == built, "the volume keeps the builds"


def test_a_container_measures_another_host_with_the_key_that_is_mounted(
    containers: Containers, tmp_path: Path
) -> None:
    """As the documentation says: key and known hosts where ssh looks for them, nothing named in the cluster's file."""
    home, results, work = tmp_path / ".ssh", tmp_path / "results", tmp_path / "work"
    for directory in (home, results):
        directory.mkdir(mode=0o700)
    (tmp_path / "small.yaml").write_text(SPEC)
    tmp_path.chmod(0o755)
    with raised_sshd(tmp_path / "sshd") as server:
        shutil.copy(server.key, home / "id_ed25519")
        shutil.copy(server.known_hosts, home / "known_hosts")
        for path in (home, *home.iterdir(), results):
            os.chown(path, OWNER, OWNER)
        host = {"address": "127.0.0.1", "port": server.port, "user": "root", "work_dir": str(work)}
        cluster = {
            "name": "far", "transport": "ssh", "hosts": {"far": host}, "engine_nodes": ["far"],
            "load_clients": ["far"],
        }  # fmt: skip
        (tmp_path / "hosts.yaml").write_text(json.dumps(cluster))
        containers.run(
            "perfrunner", "run", "small.yaml", "--cluster", "hosts.yaml", "--out", "/results",
            mounts=[f"{home}:/home/perfrunner/.ssh:ro", f"{tmp_path}:/specs", f"{results}:/results"],
            directory="/specs",
        )  # fmt: skip
        assert "Accepted publickey for root" in server.log()
    (run,) = results.glob("small-*")
    shown = json.loads(containers.run(
        "perfrunner", "report", "--out", "/results", "--format", "json", mounts=[f"{results}:/results"],
    ))  # fmt: skip
    assert shown["trials"] == {"ok": 4, "discarded": 0, "failed": 0}
    assert set(shown["facts"]["recorded"]["hosts"]) == {"far"}
    assert {path.stat().st_uid for path in run.rglob("*")} == {OWNER}
    assert list((work / "artifacts").iterdir()), "the engine was sent there"
