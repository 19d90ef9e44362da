"""What changes a build id, and what does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from perfrunner.build.identity import (
    allocator_hash,
    allocator_pin,
    build_id,
    recipe_id,
    source_files,
    source_hash,
)
from perfrunner.errors import BuildError

PARTS = {
    "source": "s",
    "options": {"ENGINE_HT_STATS": "core"},
    "allocator": "system",
    "pin": "",
    "compiler": "g++ 12",
    "build_type": "RelWithDebInfo",
}


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("main.cc", True),
        ("new/room.cc", True),
        ("new/CMakeLists.txt", True),
        ("benchmarks/bench.cc", True),
        ("allocators/shim.c", True),
        ("allocators/jemalloc-5.1.0/Cargo.lock", False),  # its own hash
        ("room_test.cc", False),
        ("tests/new.cc", False),
        ("fuzz/frame_fuzz.cc", False),
        ("room/frame_fuzz.cc", False),
        ("build/CMakeCache.txt", False),
        ("build-rel/generated/x.h", False),
        ("perfrunner-results/ab/x.yaml", False),
        (".cache/index", False),
        (".clang-format", False),
        ("README.md", False),
        ("main.cc~", False),
    ],
)
def test_what_counts_as_source(engine: Path, file: str, counts: bool) -> None:
    before = source_hash(engine)
    path = engine / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("another text")
    assert (source_hash(engine) != before) is counts


def test_names_and_boundaries_count(tmp_path: Path) -> None:
    hashes = set()
    for number, files in enumerate(
        ({"a": "bc"}, {"ab": "c"}, {"a": "b", "c": ""}, {"a": "bc", "d": ""})
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "CMakeLists.txt").touch()
        for name, text in files.items():
            (directory / name).write_text(text)
        hashes.add(source_hash(directory))
    assert len(hashes) == 4


def test_place_time_and_mode_do_not_count(engine: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(engine, tmp_path / "elsewhere")
    os.utime(copy / "main.cc", (1, 1))
    (copy / "main.cc").chmod(0o600)
    assert source_hash(copy) == source_hash(engine)


def test_a_removed_file_counts(engine: Path) -> None:
    before = source_hash(engine)
    (engine / "room.cc").unlink()
    assert source_hash(engine) != before


def test_each_part_of_the_recipe_counts() -> None:
    ids = {recipe_id(**PARTS)}
    for part in PARTS:
        value = {"ENGINE_HT_STATS": "llc"} if part == "options" else "other"
        ids.add(recipe_id(**{**PARTS, part: value}))
    assert len(ids) == 1 + len(PARTS)
    assert all(len(single) == 12 and int(single, 16) >= 0 for single in ids)


def test_a_part_of_the_programs_is_another_build() -> None:
    assert recipe_id(**PARTS, programs=()) == recipe_id(**PARTS)
    assert recipe_id(**PARTS, programs=("b", "a")) == recipe_id(**PARTS, programs=("a", "b"))
    ids = [recipe_id(**PARTS, programs=names) for names in ((), ("a",), ("b",), ("a", "b"))]
    assert len(set(ids)) == len(ids)


def test_the_order_of_options_does_not_count() -> None:
    a, b = {"A": "1", "B": "2"}, {"B": "2", "A": "1"}
    assert recipe_id(**{**PARTS, "options": a}) == recipe_id(**{**PARTS, "options": b})


def test_what_is_linked_counts() -> None:
    recipe = recipe_id(**PARTS)
    ids = [
        build_id(recipe, sums)
        for sums in ({"/a.so": "1"}, {"/a.so": "2"}, {"/b.so": "1"}, {"/a.so": "1", "headers": "3"})
    ]
    assert len({*ids, recipe, build_id("other", {"/a.so": "1"})}) == 6
    assert build_id(recipe, {"/a": "1", "/b": "2"}) == build_id(recipe, {"/b": "2", "/a": "1"})


def test_the_pin_is_the_chosen_allocators_alone(engine: Path) -> None:
    before = allocator_hash(engine, "jemalloc-5.1.0")
    (engine / "allocators/jemalloc-5.3.1/Cargo.lock").write_text("other")
    assert allocator_hash(engine, "jemalloc-5.1.0") == before
    (engine / "allocators/jemalloc-5.1.0/Cargo.lock").write_text("other")
    assert allocator_hash(engine, "jemalloc-5.1.0") != before
    assert allocator_hash(engine, "system") == ""


def test_how_allocators_are_built_counts(engine: Path) -> None:
    """Their builds are shared by all sources that have the same pin."""
    before = allocator_hash(engine, "jemalloc-5.1.0")
    (engine / "allocators/CargoAllocator.cmake").write_text("set(CFLAGS -O1)")
    assert allocator_hash(engine, "jemalloc-5.1.0") != before
    assert allocator_hash(engine, "system") == ""


def test_the_pin_names_the_crate(engine: Path) -> None:
    pin = allocator_pin(engine, "jemalloc-5.1.0")
    assert pin is not None
    assert (pin.crate, pin.version, pin.sha256) == ("jemalloc-sys", "0.1.8", "bfc62c8e")
    assert allocator_pin(engine, "system") is None
    with pytest.raises(BuildError, match="pins no crate of an allocator"):
        allocator_pin(engine, "jemalloc-5.3.1")


def test_no_source(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"holds no engine source"):
        source_hash(tmp_path)


def test_the_hash_of_the_real_engine_is_of_what_is_built() -> None:
    root = Path(__file__).parents[3] / "engine_src"
    names = [path.relative_to(root).as_posix() for path in source_files(root)]
    assert "CMakeLists.txt" in names
    assert not [name for name in names if name.endswith(("_test.cc", ".md"))]
