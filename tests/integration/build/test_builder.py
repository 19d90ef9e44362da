"""Builds of the tiny engine: cache, relinking, provenance, damage, rivals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from perfrunner.build.artifact import Artifact, git_state
from perfrunner.build.builder import build_variant
from perfrunner.build.layout import relink
from perfrunner.build.tree import BuildPlan
from perfrunner.errors import BuildError
from tests.support.tiny_engine import says, variant, write_engine

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("cargo_is_there")]


def compiled(lines: list[str]) -> list[str]:
    return [line.rpartition("/")[2] for line in lines if "Building CXX object" in line]


def test_builds_then_finds(engine: Path, cache: Path) -> None:
    lines: list[str] = []
    first = build_variant(variant(), engine, cache, lines.append)
    assert says(first) == "system core"
    assert first.cached is False
    assert first.path == cache / "artifacts" / first.build_id
    assert [line for line in lines if line.startswith("[")], "ninja's [n/m] reaches the watcher"
    lines.clear()
    again = build_variant(variant(), engine, cache, lines.append)
    assert (again.build_id, again.cached, again.path) == (first.build_id, True, first.path)
    assert again.provenance == first.provenance
    assert lines == [], "nothing was built"


def test_directories_may_have_names_that_are_not_utf_8(tmp_path: Path) -> None:
    directory = tmp_path / os.fsdecode(b"caf\xe9")
    engine = write_engine(directory / "engine")
    built = build_variant(variant(), engine, directory / "cache")
    assert says(built) == "system core"
    assert says(relink(built, 5)) == "system core"


def test_run_time_settings_share_an_artifact(engine: Path, cache: Path) -> None:
    a = build_variant(variant("jemalloc-5.1.0"), engine, cache)
    b = build_variant(
        variant(
            "jemalloc-5.1.0",
            name="thp",
            allocator_options={"metadata_thp": "always"},
            params={"ht_size": "47"},
            env={"X": "1"},
        ),
        engine,
        cache,
    )
    assert b.cached is True
    assert a.build_id == b.build_id


def test_another_allocator_only_relinks(engine: Path, cache: Path) -> None:
    build_variant(variant(), engine, cache)
    lines: list[str] = []
    other = build_variant(variant("jemalloc-5.1.0"), engine, cache, lines.append)
    assert says(other) == "jemalloc-5.1.0 core"
    assert compiled(lines) == ["allocator_jemalloc-5.1.0.cc.o"]
    (engine / "allocators/jemalloc-5.3.1/Cargo.lock").write_text("other")
    assert build_variant(variant("jemalloc-5.1.0"), engine, cache).cached is True


def test_a_switch_recompiles_in_the_same_tree_only_what_it_reaches(
    engine: Path, cache: Path
) -> None:
    default = build_variant(variant(), engine, cache)
    lines: list[str] = []
    llc = build_variant(variant(options={"ht_stats": "llc"}), engine, cache, lines.append)
    assert (says(default), says(llc)) == ("system core", "system llc")
    assert compiled(lines) == ["store.cc.o"]
    assert len([p for p in (cache / "trees").iterdir() if p.is_dir()]) == 1
    back = build_variant(variant("jemalloc-5.1.0"), engine, cache)
    assert says(back) == "jemalloc-5.1.0 core"


def test_a_switch_left_out_has_todays_default(engine: Path, cache: Path) -> None:
    """CMake's cache remembers yesterday's."""
    build_variant(variant(), engine, cache)
    lists = engine / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace('"core"', '"single"'))
    assert says(build_variant(variant(), engine, cache)) == "system single"


def test_changed_source_is_built_again_and_only_what_changed(engine: Path, cache: Path) -> None:
    old = build_variant(variant(), engine, cache)
    (engine / "room.cc").write_text('const char* stats();\nconst char* room() { return "new"; }\n')
    lines: list[str] = []
    new = build_variant(variant(), engine, cache, lines.append)
    assert says(new) == "system new"
    assert says(old) == "system core"
    assert compiled(lines) == ["room.cc.o"]


def test_another_revision_compiles_only_what_differs(
    engine: Path, cache: Path, tmp_path: Path
) -> None:
    """Two checkouts, in turn: each build compiles the one file in which they differ, and none when asked again."""
    other = Path(shutil.copytree(engine, tmp_path / "elsewhere"))
    (other / "room.cc").write_text('const char* room() { return "other"; }\n')
    (other / "notes.h").write_text("\n")
    assert says(build_variant(variant(), engine, cache)) == "system core"
    for source, output in ((other, "system other"), (engine, "system core")):
        for name in ("cached", "built"):
            if name == "built":
                shutil.rmtree(cache / "artifacts")
            lines: list[str] = []
            assert says(build_variant(variant(), source, cache, lines.append)) == output
            if source is other and name == "cached":
                assert compiled(lines) == ["room.cc.o"]
    assert len([p for p in (cache / "trees").iterdir() if p.is_dir()]) == 1


def programs(artifact: Artifact) -> list[str]:
    return sorted(path.name for path in (artifact.path / "bin").iterdir())


def test_programs_that_nobody_runs_are_not_made(engine: Path, cache: Path) -> None:
    lines: list[str] = []
    tool = build_variant(variant(), engine, cache, lines.append, ("a_tool",))
    assert programs(tool) == ["a_tool"]
    assert tool.provenance["programs"] == ["a_tool"]
    assert "main.cc.o" not in compiled(lines)
    assert relink(tool, 1, ("a_tool",)).provenance["programs"] == ["a_tool"]
    lines.clear()
    item = build_variant(variant(), engine, cache, lines.append, ("kv_engine", "kv_engine"))
    assert (programs(item), says(item)) == (["kv_engine"], "system core")
    assert "room.cc.o" not in compiled(lines), "both are made of it"
    lines.clear()
    both = build_variant(variant(), engine, cache, lines.append)
    assert programs(both) == ["a_tool", "kv_engine"]
    assert both.provenance["programs"] == "all"
    assert compiled(lines) == []
    assert len({tool.build_id, item.build_id, both.build_id}) == 3
    again = build_variant(variant(), engine, cache, lines.append, ("a_tool",))
    assert (again.build_id, again.cached) == (tool.build_id, True)


@pytest.mark.long
def test_what_others_made_in_the_tree_is_no_part_of_a_build(
    engine: Path, cache: Path, tmp_path: Path
) -> None:
    """The tool's headers decide nothing about the engine, also where the tool was built before."""
    header = tmp_path / "system" / "of_the_tool.h"
    header.parent.mkdir()
    header.write_text("")
    tool = engine / "tool.cc"
    tool.write_text(f'#include "{header}"\n{tool.read_text()}')
    alone = build_variant(variant(), engine, tmp_path / "other", programs=("kv_engine",))
    build_variant(variant(), engine, cache)
    after = build_variant(variant(), engine, cache, programs=("kv_engine",))
    assert (after.build_id, after.cached) == (alone.build_id, False)
    header.write_text("// upgraded\n")
    assert build_variant(variant(), engine, cache, programs=("kv_engine",)).cached is True
    assert build_variant(variant(), engine, cache, programs=("a_tool",)).cached is False


def test_an_engine_that_always_makes_all_programs(engine: Path, cache: Path) -> None:
    """One of the time before KV_PROGRAMS: the artifact has what was asked for all the same."""
    lists = engine / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("NOT KV_PROGRAMS OR", "TRUE OR"))
    assert programs(build_variant(variant(), engine, cache, programs=("a_tool",))) == ["a_tool"]
    assert len(programs(build_variant(variant(), engine, cache))) == 2


def test_a_program_that_the_engine_does_not_have(engine: Path, cache: Path) -> None:
    with pytest.raises(
        BuildError, match="this engine does not build the program new_bench"
    ) as refused:
        build_variant(variant(), engine, cache, programs=("kv_engine", "new_bench"))
    assert refused.value.hint is not None
    assert "--workloads" in refused.value.hint
    assert list((cache / "artifacts").iterdir()) == []


def test_the_same_source_in_another_directory_is_the_same_build(
    engine: Path, cache: Path, tmp_path: Path
) -> None:
    first = build_variant(variant(), engine, cache)
    copy = Path(shutil.copytree(engine, tmp_path / "copy", ignore=shutil.ignore_patterns("tests")))
    again = build_variant(variant(), copy, cache)
    assert (again.build_id, again.cached) == (first.build_id, True)


def test_a_changed_test_is_no_new_build(engine: Path, cache: Path) -> None:
    build_variant(variant(), engine, cache)
    (engine / "room_test.cc").write_text("changed")
    assert build_variant(variant(), engine, cache).cached is True


def test_the_callers_flags_do_not_matter(
    engine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXXFLAGS", "-DHT_STATS=nonsense --no-such-flag")
    monkeypatch.setenv("LDFLAGS", "--no-such-flag")
    monkeypatch.setenv("DESTDIR", str(cache / "dest"))
    assert says(build_variant(variant(), engine, cache)) == "system core"


def test_the_artifact_moves_with_its_libraries(engine: Path, cache: Path, tmp_path: Path) -> None:
    artifact = build_variant(variant(), engine, cache)
    names = {p.name for p in (artifact.path / "lib").iterdir()}
    assert {"libz.so.1", "libstdc++.so.6"} <= names
    assert not {name for name in names if name.startswith(("libc.so", "libm.so", "ld-linux"))}
    moved = tmp_path / "moved"
    shutil.copytree(artifact.path, moved)
    shutil.rmtree(cache)
    done = subprocess.run([moved / "bin/kv_engine"], capture_output=True, text=True, check=True)
    assert done.stdout == "system core\n"
    ldd = subprocess.check_output(["ldd", moved / "bin/kv_engine"], text=True)
    assert f"libz.so.1 => {moved}/bin/../lib/libz.so.1" in ldd


def test_provenance(engine: Path, cache: Path) -> None:
    subprocess.run(["git", "init", "-q", engine], check=True)
    git = ["git", "-C", engine, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    revision = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    facts = build_variant(variant("jemalloc-5.1.0"), engine, cache).provenance
    assert facts["source"]["git_revision"] == revision
    assert facts["source"]["git_dirty"] is False
    assert facts["allocator"]["pin"] == {
        "crate": "jemalloc-sys",
        "version": "0.1.8",
        "sha256": "bfc62c8e",
    }
    assert "-O1" in facts["compiler"]["flags"]
    assert facts["compiler"]["version"]
    assert set(facts["seconds"]) == {"configure", "build", "install"}
    assert facts["built_at"].endswith("+00:00")
    (engine / "room.cc").write_text('const char* room() { return "new"; }\n')
    assert build_variant(variant(), engine, cache).provenance["source"]["git_dirty"] is True


def test_a_repository_that_a_source_only_lies_in_says_nothing_of_it(
    engine: Path, tmp_path: Path
) -> None:
    """A build cache below a home directory that is kept in git."""
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    unknown = {"git_revision": None, "git_dirty": None}
    assert git_state(engine, dict(os.environ)) == unknown
    subprocess.run([*git, "add", engine], check=True)
    assert git_state(engine, dict(os.environ))["git_revision"]


class TestWhatTheSystemBrings:
    """A static library and a header that are not the engine's: their content is a part of the build id."""

    @pytest.fixture
    def outside(self, engine: Path, tmp_path: Path) -> Path:
        made = tmp_path / "outside"
        made.mkdir()
        self.write(made, "first")
        lists = engine / "CMakeLists.txt"
        lists.write_text(
            lists.read_text()
            + f"target_include_directories(kv_engine SYSTEM PRIVATE {made})\n"
            + f"target_link_libraries(kv_engine {made}/libext.a)\n"
        )
        (engine / "main.cc").write_text(
            "#include <cstdio>\n#include <ext.h>\nconst char* ext();\n"
            'int main() { std::printf("%s %s\\n", ext(), HEADER); }\n'
        )
        return made

    def write(self, made: Path, library: str, header: str = "one") -> None:
        (made / "ext.h").write_text(f'#define HEADER "{header}"\n')
        (made / "ext.cc").write_text(f'const char* ext() {{ return "{library}"; }}\n')
        argv = ["g++", "-c", made / "ext.cc", "-o", made / "ext.o"]
        subprocess.run(argv, check=True)
        (made / "libext.a").unlink(missing_ok=True)
        subprocess.run(["ar", "rcD", made / "libext.a", made / "ext.o"], check=True)

    def test_another_library_or_header_is_another_build(
        self, engine: Path, cache: Path, outside: Path
    ) -> None:
        first = build_variant(variant(), engine, cache)
        assert says(first) == "first one"
        assert build_variant(variant(), engine, cache).cached is True
        self.write(outside, "second")
        second = build_variant(variant(), engine, cache)
        assert (says(second), second.cached) == ("second one", False)
        self.write(outside, "second", "two")
        third = build_variant(variant(), engine, cache)
        assert (says(third), third.cached) == ("second two", False)
        self.write(outside, "first")
        again = build_variant(variant(), engine, cache)
        assert (again.build_id, again.cached) == (first.build_id, True)
        assert len({first.build_id, second.build_id, third.build_id}) == 3

    def test_an_upgrade_is_seen_though_its_files_are_older_than_the_build(
        self, engine: Path, cache: Path, outside: Path
    ) -> None:
        """A package's files have the time at which the distribution made it, which ninja takes for unchanged."""
        first = build_variant(variant(), engine, cache)
        self.write(outside, "second", "two")
        for file in outside.iterdir():
            os.utime(file, (1_000_000_000, 1_000_000_000))
        second = build_variant(variant(), engine, cache)
        assert says(second) == "second two"
        assert second.build_id != first.build_id
        lines: list[str] = []
        build_variant(variant(options={"ht_stats": "llc"}), engine, cache, lines.append)
        assert not [line for line in lines if "recompiling everything" in line], "once is enough"

    def test_provenance_names_them(self, engine: Path, cache: Path, outside: Path) -> None:
        linked = build_variant(variant(), engine, cache).provenance["linked"]
        assert len(linked["libext.a"]["sha256"]) == 64
        assert linked["libext.a"]["package"] == ""
        (zlib,) = (facts for name, facts in linked.items() if name.startswith("libz.so"))
        if shutil.which("dpkg-query"):
            assert zlib["package"].startswith("zlib1g ")


@pytest.mark.long
def test_another_cargo_is_another_build_of_what_it_builds(
    engine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_cargo(version: str) -> tuple[str, str]:
        monkeypatch.setattr(
            "perfrunner.build.builder.require_cargo", lambda allocator, env: f"cargo {version}"
        )
        made = [
            build_variant(variant(name), engine, cache) for name in ("jemalloc-5.1.0", "system")
        ]
        assert made[0].provenance["cargo"] == f"cargo {version}"
        return made[0].build_id, made[1].build_id

    item, two = with_cargo("1.80"), with_cargo("1.95")
    assert item[0] != two[0]
    assert item[1] == two[1]


@pytest.mark.parametrize(
    "damage",
    [
        "truncate",
        "no-manifest",
        *(pytest.param(what, marks=pytest.mark.long) for what in ("remove", "add", "manifest")),
    ],
)
def test_a_damaged_artifact_is_built_again(engine: Path, cache: Path, damage: str) -> None:
    artifact = build_variant(variant(), engine, cache)
    program = artifact.path / "bin" / "kv_engine"
    if damage == "truncate":
        os.truncate(program, 100)
    elif damage == "remove":
        program.unlink()
    elif damage == "add":
        (artifact.path / "bin" / "stranger").write_text("x")
    elif damage == "manifest":
        (artifact.path / "manifest.json").write_text("{")
    else:
        (artifact.path / "manifest.json").unlink()
    lines: list[str] = []
    again = build_variant(variant(), engine, cache, lines.append)
    assert again.cached is False
    assert "is damaged" in lines[0]
    assert says(again) == "system core"
    assert sorted(p.name for p in (again.path / "bin").iterdir()) == ["a_tool", "kv_engine"]
    assert build_variant(variant(), engine, cache).cached is True


def test_rivals_build_once(engine: Path, cache: Path) -> None:
    results: list[Artifact] = []
    lines: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(build_variant(variant(), engine, cache, lines.append))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(artifact.cached for artifact in results) == [False, True, True, True]
    assert "waiting for another build in the same tree" in lines
    assert says(results[0]) == "system core"


def test_two_allocators_at_once_do_not_mix(engine: Path, cache: Path) -> None:
    names = ["system", "jemalloc-5.1.0"]
    results: dict[str, str] = {}

    def build(name: str) -> None:
        results[name] = says(build_variant(variant(name), engine, cache))

    threads = [threading.Thread(target=build, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: f"{name} core" for name in names}


def test_the_cache_is_marked_for_backups_and_clean(engine: Path, cache: Path) -> None:
    build_variant(variant(), engine, cache)
    assert (
        (cache / "CACHEDIR.TAG")
        .read_text()
        .startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )


def test_the_manifest_lists_every_file(engine: Path, cache: Path) -> None:
    artifact = build_variant(variant(), engine, cache)
    files = json.loads((artifact.path / "manifest.json").read_text())["files"]
    present = {
        p.relative_to(artifact.path).as_posix() for p in artifact.path.rglob("*") if p.is_file()
    }
    assert set(files) == present - {"manifest.json"}


def test_trees_do_not_depend_on_the_variant() -> None:
    class AnyToolchain:
        cxx, cc, identity = "g++", "gcc", "g++ 12"

    def key(**changes: object) -> str:
        fields = {
            "source_dir": Path("/s"),
            "options": {},
            "allocator": "system",
            "build_type": "Release",
            "toolchain": AnyToolchain,
        }
        return BuildPlan(**{**fields, **changes}).tree_key

    assert key() == key(allocator="jemalloc-5.1.0") == key(options={"A": "1"})
    assert key(source_dir=Path("/t")) == key(), "nor on where the source lies"
    assert key(build_type="Debug") != key()
