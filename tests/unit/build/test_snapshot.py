"""Copies of the engine's source by content."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from perfrunner.build.cache import unused_sources
from perfrunner.build.identity import content_hash, tree_files
from perfrunner.build.tree import find_snapshot, mirror, snapshot_path, take_snapshot
from perfrunner.errors import BuildError


def names(directory: Path) -> set[str]:
    return {p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()}


def test_a_snapshot_holds_what_a_build_reads_and_nothing_else(engine: Path, cache: Path) -> None:
    taken = take_snapshot(engine, cache)
    assert names(taken.path) == {p.relative_to(engine).as_posix() for p in tree_files(engine)}
    assert {"main.cc", "allocators/jemalloc-5.1.0/Cargo.lock"} <= names(taken.path)
    assert not {"README.md", "room_test.cc", "tests/CMakeLists.txt"} & names(taken.path)
    assert taken.sha256 == content_hash(taken.path) == content_hash(engine)


def test_it_outlives_its_source_and_is_found_by_content(engine: Path, cache: Path) -> None:
    taken = take_snapshot(engine, cache)
    (engine / "main.cc").write_text("changed\n")
    assert find_snapshot(cache, taken.sha256) == taken
    assert take_snapshot(engine, cache).sha256 != taken.sha256
    assert find_snapshot(cache, "0" * 64) is None


def test_one_that_is_found_is_used(engine: Path, cache: Path) -> None:
    taken = take_snapshot(engine, cache)
    os.utime(taken.path, (1e9, 1e9))
    assert unused_sources(cache) == [taken.path]
    assert find_snapshot(cache, taken.sha256) == taken
    assert unused_sources(cache) == []


def test_a_damaged_one_is_no_snapshot_and_is_made_again(engine: Path, cache: Path) -> None:
    taken = take_snapshot(engine, cache)
    (taken.path / "main.cc").write_text("meddled\n")
    assert find_snapshot(cache, taken.sha256) is None
    assert take_snapshot(engine, cache) == taken
    assert find_snapshot(cache, taken.sha256) == taken
    assert [p.name for p in (cache / "sources").iterdir()] == [
        snapshot_path(cache, taken.sha256).name
    ]


def test_a_pin_counts_though_no_other_source_does(engine: Path) -> None:
    before = content_hash(engine)
    (engine / "allocators/jemalloc-5.3.1/Cargo.lock").write_text("other")
    assert content_hash(engine) != before


def test_no_engine(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(BuildError, match="holds no engine source"):
        take_snapshot(tmp_path, cache)


def test_a_mirror_touches_only_what_differs(engine: Path, tmp_path: Path) -> None:
    target = tmp_path / "tree"
    mirror(engine, target)
    for path in target.rglob("*"):
        os.utime(path, (1, 1))
    (engine / "main.cc").write_text("changed\n")
    (engine / "room.cc").unlink()
    (engine / "tool.cc").chmod(0o755)
    shutil.rmtree(engine / "allocators" / "jemalloc-5.3.1")
    (engine / "new").mkdir()
    (engine / "new" / "a.cc").write_text("\n")
    mirror(engine, target)
    assert content_hash(target) == content_hash(engine)
    assert not (target / "allocators" / "jemalloc-5.3.1").exists()
    assert {p.name for p in target.rglob("*") if p.is_file() and p.stat().st_mtime > 1} == {
        "main.cc",
        "a.cc",
    }
    assert (target / "tool.cc").stat().st_mode & 0o111


def test_a_file_may_become_a_directory_and_a_directory_a_file(engine: Path, tmp_path: Path) -> None:
    target = tmp_path / "tree"
    mirror(engine, target)
    (engine / "room.cc").unlink()
    (engine / "room.cc").mkdir()
    (engine / "room.cc" / "inner.cc").write_text("\n")
    mirror(engine, target)
    assert (target / "room.cc" / "inner.cc").is_file()
    shutil.rmtree(engine / "room.cc")
    (engine / "room.cc").write_text("\n")
    mirror(engine, target)
    assert content_hash(target) == content_hash(engine)
