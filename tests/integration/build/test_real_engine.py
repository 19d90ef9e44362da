"""The proof against the real kv_engine and kvctl: what was built is proved, what was not is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "build"))  # importlib mode

from tiny_engine import variant

from perfrunner.build import prove
from perfrunner.cluster import Host, open_host
from perfrunner.errors import ProofError
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.model import EngineSpec

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
ENGINE = EngineSpec(vbuckets=16, quota_mb=64)


@pytest.fixture(scope="module")
def artifact() -> str:
    """A build of the defaults with the system's allocator (scripts/test makes it)."""
    bin_dir = Path(os.environ.get("KV_BIN_DIR", ROOT / "build" / "artifact" / "bin"))
    if not (bin_dir / "kv_engine").is_file() or not (bin_dir / "kvctl").is_file():
        pytest.fail(f"no kv_engine and kvctl in {bin_dir}: set KV_BIN_DIR, or run scripts/test")
    return str(bin_dir.parent)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as opened:
        yield opened
        assert opened.processes() == []


def test_the_defaults_are_proved(host: Host, artifact: str) -> None:
    arm = variant(options={"cursor_drop": "compare"}, params={"ht_size": "97"})
    proof = prove(host, artifact, arm, ENGINE)
    assert proof.settings == {
        "allocator.name": "system",
        "options.cursor_drop": "compare",
        "params.ht_size": "97",
    }
    assert proof.stats["allocator"]["version"].startswith("glibc")
    assert proof.stats["config"]["vbuckets"] == "16"


def test_another_allocator_is_refused(host: Host, artifact: str) -> None:
    with pytest.raises(ProofError, match=r"asked for jemalloc-5\.1\.0, the engine has system"):
        prove(host, artifact, variant("jemalloc-5.1.0"), ENGINE)


def test_another_switch_is_refused(host: Host, artifact: str) -> None:
    arm = variant(name="walk", options={"cursor_drop": "walk"})
    with pytest.raises(
        ProofError,
        match=r"variant walk: options\.cursor_drop: asked for walk, the engine has compare",
    ):
        prove(host, artifact, arm, ENGINE)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"no_such": "1"}, "unknown parameter 'no_such'"), ({"ht_size": "many"}, "ht_size")],
)
def test_a_parameter_that_the_engine_refuses(
    host: Host, artifact: str, params: dict[str, str], message: str
) -> None:
    with pytest.raises(ProofError, match=rf"does not start on local \(exit 2\): .*{message}"):
        prove(host, artifact, variant(params=params), ENGINE)
