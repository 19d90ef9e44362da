"""What an engine says of its allocator is what it runs with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfrunner.build.artifact import Artifact
from perfrunner.build.builder import build_variant
from perfrunner.build.settings_check import check
from perfrunner.errors import SettingsCheckError
from perfrunner.hosts import Host, open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.model import EngineSpec
from perfrunner.spec.variant import Variant
from tests.support.built import CACHE
from tests.support.fakes import ROOT
from tests.support.tiny_engine import variant

WRAPPER = """
#include <stddef.h>
void *__libc_malloc(size_t);
void *malloc(size_t size) { return __libc_malloc(size); }
"""
STRDUP = """
#include <string.h>
static char memory[1 << 20];
static size_t used;
char *strdup(const char *text) {
    char *copy = strcpy(memory + used, text);
    used += strlen(text) + 1;
    return copy;
}
"""
ENGINE = EngineSpec(vbuckets=16, quota_mb=64)
PROGRAMS = ("allocator_probe", "kv_engine", "kvctl")


@dataclass(frozen=True)
class Linked:
    """An allocator, options with values that differ from the defaults, and the figures that it reports."""

    name: str
    options: dict[str, str]
    figures: frozenset[str]
    version: str = ""

    def variant(self, **options: str) -> Variant:
        return variant(self.name, allocator_options={**self.options, **options})


LINKED = (
    Linked(
        "jemalloc-5.3.1",
        {"narenas": "1", "background_thread": "true"},
        frozenset({"allocated", "active", "metadata", "resident", "mapped", "retained", "metadata_thp"}),
    ),
    Linked("mimalloc-2.3.2", {"purge_delay": "0", "arena_reserve": "2147483648"}, frozenset({"mapped"})),
    Linked("mimalloc-3.3.2", {"purge_delay": "-1", "allow_thp": "false"}, frozenset({"mapped"})),
    Linked("snmalloc-0.7.6", {}, frozenset({"mapped"})),
    Linked(
        "tcmalloc",
        {"max_total_thread_cache_bytes": "67108864", "aggressive_decommit": "true"},
        frozenset({"allocated", "metadata", "resident", "mapped", "retained"}),
        version="gperftools ",
    ),
)  # fmt: skip


def library(directory: Path, code: str) -> Path:
    """Compile a library that is preloaded."""
    source, path = directory / "wrapper.c", directory / "libothermalloc.so.1"
    source.write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


@pytest.fixture
def preloaded(tmp_path: Path) -> Path:
    """A library with a malloc of its own."""
    return library(tmp_path, WRAPPER)


# A build of the others takes minutes; scripts/test --slow has them all.
QUICK = ("mimalloc-3.3.2", "tcmalloc")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(single, id=single.name, marks=() if single.name in QUICK else pytest.mark.long)
        for single in LINKED
    ],
)
def linked(request: pytest.FixtureRequest) -> Linked:
    chosen: Linked = request.param
    return chosen


@pytest.fixture(scope="module")
def artifact(linked: Linked) -> Artifact:
    return build_variant(variant(linked.name), ROOT / "engine_src", CACHE, print, PROGRAMS)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as opened:
        yield opened


def probe(artifact: Artifact, **env: str) -> dict[str, str]:
    """Run allocator_probe, which allocates 10 MB."""
    done = subprocess.run(
        [artifact.path / "bin" / "allocator_probe"],
        env={**os.environ, **env},
        check=True,
        capture_output=True,
        text=True,
    )
    pairs = (line.partition(" ") for line in done.stdout.splitlines())
    return {name: value for name, _, value in pairs}


def stat(kv_engine: Path, port: int, group: str) -> dict[str, Any]:
    kvctl = [kv_engine.with_name("kvctl"), "--host=127.0.0.1", f"--port={port}", "stat", group]
    done = subprocess.run(kvctl, check=True, capture_output=True, text=True)
    values: dict[str, Any] = json.loads(done.stdout)[group]
    return values


def allocator_name(kv_engine: Path, port: int) -> str:
    return str(stat(kv_engine, port, "allocator")["name"])


def test_a_preloaded_malloc_is_not_called_the_systems(
    kv_engine: Path,
    start_engine: Callable[..., Any],
    preloaded: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LD_PRELOAD of a shell never reaches an engine, but /etc/ld.so.preload reaches all programs of a host."""
    assert allocator_name(kv_engine, start_engine().port) == "system"
    monkeypatch.setenv("LD_PRELOAD", str(preloaded))
    other = start_engine("--data-dir", str(preloaded.parent / "other"))
    assert allocator_name(kv_engine, other.port) == "malloc of libothermalloc.so.1"


@pytest.mark.slow
def test_a_linked_allocator_passes_the_settings_check(
    artifact: Artifact, linked: Linked, host: Host
) -> None:
    checked = check(host, str(artifact.path), linked.variant(), ENGINE)
    settings = dict(checked.settings)
    assert settings.pop("allocator.name") == linked.name
    assert settings.pop("allocator.version", "").startswith(linked.version)
    assert set(settings) == {f"allocator.options.{name}" for name in linked.options}


@pytest.mark.slow
def test_an_option_that_is_unknown_is_refused(
    artifact: Artifact, linked: Linked, host: Host
) -> None:
    if not linked.options:
        with pytest.raises(ValueError, match="takes none at run time"):
            linked.variant(no_such_thing="1")
        return
    with pytest.raises(SettingsCheckError, match=r"has no opt\.no_such_thing|rejects its options"):
        check(host, str(artifact.path), linked.variant(no_such_thing="1"), ENGINE)


@pytest.mark.slow
def test_a_build_is_not_taken_for_one_with_another_allocator(
    artifact: Artifact, linked: Linked, host: Host
) -> None:
    with pytest.raises(SettingsCheckError, match=f"the engine has {linked.name}"):
        check(host, str(artifact.path), variant("jemalloc-5.1.0"), ENGINE)


@pytest.mark.slow
def test_blocks_of_another_allocator_are_noticed(
    artifact: Artifact, linked: Linked, tmp_path: Path
) -> None:
    assert probe(artifact)["name"] == linked.name
    other = probe(artifact, LD_PRELOAD=str(library(tmp_path, STRDUP)))["name"]
    assert other.startswith("malloc of ")
    assert other.endswith(f"(strdup does not allocate with {linked.name})")


@pytest.mark.slow
def test_figures_that_an_allocator_lacks_are_left_out(artifact: Artifact, linked: Linked) -> None:
    known = ("allocated", "active", "metadata", "resident", "mapped", "retained", "metadata_thp")
    read = {name: int(value) for name, value in probe(artifact).items() if name in known}
    assert set(read) == linked.figures
    assert 10_000_000 <= read["mapped"] < 100_000_000


@pytest.mark.long
def test_the_unit_test_passes_with_each_allocator(linked: Linked) -> None:
    """The builds of tests have the system's allocator; here the test is linked with this one."""
    directory = CACHE / "allocator-tests"
    configure = [
        "cmake", "-S", ROOT / "engine_src", "--preset", "release", "-B", directory,
        "-DKV_BENCHMARKS=OFF", f"-DENGINE_ALLOCATOR={linked.name}",
    ]  # fmt: skip
    for command in (configure, ["cmake", "--build", directory, "--target", "allocator_test"]):
        subprocess.run(command, check=True)
    subprocess.run([directory / "allocators" / "allocator_test"], check=True)
