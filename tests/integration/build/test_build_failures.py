"""Builds of the tiny engine that fail, and what is reported and left of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perfrunner.build.builder import build_variant
from perfrunner.build.cache import CACHE_TAG, own_cache
from perfrunner.errors import BuildError
from tests.support.tiny_engine import says, variant

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("cargo_is_there")]


class TestFailures:
    def test_a_compile_error_is_quoted(self, engine: Path, cache: Path) -> None:
        (engine / "room.cc").write_text("int room() { return undeclared_thing; }\n")
        with pytest.raises(BuildError) as caught:
            build_variant(variant(), engine, cache)
        message = str(caught.value)
        assert "the engine's build step failed" in message
        assert "undeclared_thing" in message
        log = Path(message.rpartition("log: ")[2])
        assert log.is_relative_to(cache / "logs")
        assert "undeclared_thing" in log.read_text()
        assert list((cache / "artifacts").iterdir()) == [], "nothing half-made is left"
        (engine / "room.cc").write_text('const char* room() { return "mended"; }\n')
        assert says(build_variant(variant(), engine, cache)) == "system mended"

    def test_a_link_error_is_quoted(self, engine: Path, cache: Path) -> None:
        (engine / "allocator_system.cc").write_text("\n")
        with pytest.raises(BuildError, match=r"undefined symbol: allocator\(\)"):
            build_variant(variant(), engine, cache)

    def test_a_missing_library_names_its_package(self, engine: Path, cache: Path) -> None:
        lists = engine / "CMakeLists.txt"
        lists.write_text(lists.read_text() + "find_package(hwloc REQUIRED)\n")
        with pytest.raises(BuildError, match="configure step failed") as caught:
            build_variant(variant(), engine, cache)
        assert caught.value.hint == "apt-get install libhwloc-dev"

    @pytest.mark.parametrize(
        ("present", "message", "hint"),
        [
            ((), r"no C\+\+ compiler found", "apt-get install g++"),
            (("g++",), "no C compiler found", "apt-get install gcc"),
            (("g++", "gcc"), "cmake is not installed", "apt-get install cmake"),
            (("g++", "gcc", "cmake"), "ninja is not installed", "apt-get install ninja-build"),
            (
                ("g++", "gcc", "cmake", "ninja"),
                r"ld\.lld is not installed",
                "apt-get install lld",
            ),
        ],
    )
    def test_a_missing_tool(
        self, engine: Path, cache: Path, tmp_path: Path, monkeypatch, present, message, hint
    ) -> None:
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in present:
            (tools / name).symlink_to(str(shutil.which(name)))
        monkeypatch.setenv("PATH", str(tools))
        with pytest.raises(BuildError, match=message) as caught:
            build_variant(variant(), engine, cache)
        assert caught.value.hint == hint

    def test_a_chosen_compiler_that_is_not_there(
        self, engine: Path, cache: Path, monkeypatch
    ) -> None:
        monkeypatch.setenv("CXX", "no-such-compiler")
        with pytest.raises(BuildError, match=r"\$CXX: no-such-compiler is not a program"):
            build_variant(variant(), engine, cache)

    def test_source_that_changes_during_that(self, engine: Path, cache: Path) -> None:
        """The build has a copy: what comes of it is what its id says."""

        def meddle(line: str) -> None:
            if line.startswith("["):
                (engine / "room.cc").write_text("no C++ at all\n")

        built = build_variant(variant(), engine, cache, meddle)
        assert says(built) == "system core"
        with pytest.raises(BuildError, match="build step failed"):
            build_variant(variant(), engine, cache)

    def test_an_interrupted_build_leaves_no_process_and_can_go_on(
        self, engine: Path, cache: Path
    ) -> None:
        slow = "add_custom_target(slow ALL COMMAND sleep 987.125)\n"
        lists = engine / "CMakeLists.txt"
        text = lists.read_text()
        lists.write_text(text + slow)

        def interrupt(line: str) -> None:
            if line.startswith("["):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            build_variant(variant(), engine, cache, interrupt)
        assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"987.125" in _read(p)]
        lists.write_text(text)
        assert says(build_variant(variant(), engine, cache)) == "system core"

    def test_a_directory_with_other_things_is_not_taken(self, engine: Path, tmp_path: Path) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "precious").touch()
        with pytest.raises(BuildError, match="is not empty") as caught:
            build_variant(variant(), engine, tmp_path / "home")
        assert "--cache" in (caught.value.hint or "")

    def test_a_cache_that_cannot_be_made(self, engine: Path, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(BuildError, match=r"cannot use the build cache .*: Not a directory"):
            build_variant(variant(), engine, tmp_path / "file" / "cache")

    def test_a_cache_in_a_directory_of_others(self, tmp_path: Path) -> None:
        """A volume is often mounted below a directory that the user cannot write to."""
        cache = tmp_path / "volume"
        cache.mkdir()
        (cache / f"{CACHE_TAG}.1").touch()  # of a process that starts at the same time
        before = tmp_path.stat().st_mtime_ns
        own_cache(cache)
        assert (cache / CACHE_TAG).read_text().startswith("Signature")
        assert tmp_path.stat().st_mtime_ns == before, "nothing was written next to it"

    def test_a_cache_that_two_threads_begin_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Containers that share a volume have equal process ids, as threads have."""
        cache, replace, rivals = tmp_path / "cache", Path.replace, [own_cache]

        def replace_after_the_rival(path: Path, target: Path) -> Path:
            if rivals:
                rivals.pop()(cache)
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", replace_after_the_rival)
        own_cache(cache)
        assert [path.name for path in cache.iterdir()] == [CACHE_TAG]

    def test_a_program_that_would_not_travel(self, engine: Path, cache: Path) -> None:
        lists = engine / "CMakeLists.txt"
        lists.write_text(lists.read_text().replace("$ORIGIN/../lib", "$ORIGIN/../elsewhere"))
        with pytest.raises(
            BuildError, match=r"would not run on another host: it takes lib\S+ from /"
        ):
            build_variant(variant(), engine, cache)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_build_fits_into_the_memory_of_its_container(
    engine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"cpus": 64, "memory_available_bytes": 10**9}
    monkeypatch.setattr("perfrunner.hosts.facts.facts_here", lambda: facts)
    build_variant(variant(), engine, cache)
    (log,) = (cache / "logs").glob("*.log")
    (command,) = [line for line in log.read_text().splitlines() if " -j" in line]
    assert command.endswith(" -j1")
