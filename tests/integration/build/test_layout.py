"""One build in other orders: what moves, what stays, what is kept for it and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from perfrunner.build.artifact import Artifact
from perfrunner.build.builder import build_variant
from perfrunner.build.layout import relink, relinked_id, shuffled
from perfrunner.build.ninja import parse_commands
from perfrunner.errors import BuildError
from tests.support.tiny_engine import says, variant, write_engine

pytestmark = pytest.mark.integration

FUNCTIONS = 40


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny engine with some functions to put in order, built once: `engine/` and `cache/`."""
    directory = tmp_path_factory.mktemp("lab")
    engine = write_engine(directory / "engine")
    parts = "".join(
        f"__attribute__((noinline)) int part_{n}(int x) {{ return x * {n + 3} + {n}; }}\n"
        for n in range(FUNCTIONS)
    )
    total = " + ".join(f"part_{n}(1)" for n in range(FUNCTIONS))
    (engine / "room.cc").write_text(
        f"const char* stats();\n{parts}int total = {total};\nconst char* room() {{ return stats(); }}\n"
    )
    build_variant(variant(), engine, directory / "cache")
    return directory


@pytest.fixture(scope="module")
def base(lab: Path) -> Artifact:
    return build_variant(variant(), lab / "engine", lab / "cache")


def order(artifact: Artifact) -> list[str]:
    """Our functions by address."""
    nm = subprocess.check_output(["nm", "-n", artifact.path / "bin/kv_engine"], text=True)
    names = [line.split()[-1] for line in nm.splitlines()]
    return [name for name in names if name.startswith("_Z") and "part_" in name]


def test_two_seeds_two_orders_and_nothing_else(base: Artifact) -> None:
    single, two = relink(base, 1), relink(base, 2)
    assert sorted(order(single)) == sorted(order(two)) == sorted(order(base))
    assert len({tuple(order(a)) for a in (base, single, two)}) == 3
    assert len(order(base)) == FUNCTIONS
    assert says(single) == says(two) == says(base) == "system core"
    assert len({base.build_id, single.build_id, two.build_id}) == 3
    for name in ("lib/libz.so.1", "lib/libstdc++.so.6"):
        assert (single.path / name).samefile(base.path / name), "shared with the base, not a copy"


def test_the_same_seed_is_the_same_program(base: Artifact, lab: Path) -> None:
    first = relink(base, 3)
    assert first.cached is False
    assert relink(base, 3).cached is True
    program = (first.path / "bin/kv_engine").read_bytes()
    shutil.rmtree(first.path)
    again = relink(base, 3)
    assert again.cached is False
    assert again.build_id == first.build_id
    assert (again.path / "bin/kv_engine").read_bytes() == program


def test_provenance_names_the_base_and_the_seed(base: Artifact) -> None:
    facts = relink(base, 4).provenance
    assert facts["relinked"] == {"base": base.build_id, "seed": 4, "programs": ["kv_engine"]}
    assert facts["build_id"] == relinked_id(base.build_id, 4)
    assert facts["source"] == base.provenance["source"]
    assert "LLD" in facts["linker"]
    assert "relinked" not in base.provenance


def test_it_travels_as_the_base_does(base: Artifact, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(relink(base, 1).path, moved)
    ldd = subprocess.check_output(["ldd", moved / "bin/kv_engine"], text=True)
    assert f"libz.so.1 => {moved}/bin/../lib/libz.so.1" in ldd


def test_the_build_tree_is_not_needed(lab: Path, tmp_path: Path) -> None:
    """Another variant has been built in it since, then it is gone, and so is the source."""
    engine, cache = tmp_path / "engine", tmp_path / "cache"
    shutil.copytree(lab / "engine", engine)
    base = build_variant(variant(), engine, cache)
    build_variant(variant("jemalloc-5.1.0", options={"ht_stats": "llc"}), engine, cache)
    assert says(relink(base, 1)) == "system core"
    shutil.rmtree(engine)
    shutil.rmtree(cache / "trees")
    assert says(relink(base, 2)) == "system core"


def test_variants_share_what_they_have_in_common(lab: Path, base: Artifact) -> None:
    objects = lab / "cache" / "objects"
    before = set(objects.iterdir())
    other = build_variant(variant("jemalloc-5.1.0"), lab / "engine", lab / "cache")
    added = set(objects.iterdir()) - before
    assert len(added) == 1, "only the other allocator's object"
    assert says(relink(other, 1)) == "jemalloc-5.1.0 core"
    assert relinked_id(other.build_id, 1) != relinked_id(base.build_id, 1)


def test_a_damaged_object_is_refused_and_a_lost_one_is_built_again(
    lab: Path, tmp_path: Path
) -> None:
    engine, cache = lab / "engine", tmp_path / "cache"
    base = build_variant(variant(), engine, cache)
    victim = next((cache / "objects").glob("*.a"))
    data = victim.read_bytes()
    victim.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(BuildError, match="is damaged") as caught:
        relink(base, 1)
    assert "clean --builds" in (caught.value.hint or "")
    assert not [p for p in (cache / "artifacts").iterdir() if p != base.path]
    victim.unlink()
    lines: list[str] = []
    assert build_variant(variant(), engine, cache, lines.append).cached is False
    assert "gone: building it again" in lines[0]
    assert says(relink(base, 1)) == "system core"


def test_a_damaged_relinked_artifact_is_made_again(base: Artifact) -> None:
    made = relink(base, 5)
    os.truncate(made.path / "bin" / "kv_engine", 100)
    again = relink(base, 5)
    assert again.cached is False
    assert says(again) == says(base) == "system core"


def test_a_base_without_a_readable_manifest_is_refused(base: Artifact, tmp_path: Path) -> None:
    """What a relinked artifact shares with it has the sums that are written there."""
    copy = tmp_path / "artifacts" / base.build_id
    shutil.copytree(base.path, copy)
    for kept in ("links", "objects"):
        shutil.copytree(base.path.parent.parent / kept, tmp_path / kept)
    (copy / "manifest.json").write_text("{")
    with pytest.raises(BuildError, match=r"cannot read .*manifest\.json"):
        relink(Artifact(base.build_id, copy, base.provenance, True, 0.0), 5)


def test_every_program_can_be_linked_again(base: Artifact) -> None:
    both = relink(base, 7, ("a_tool", "kv_engine"))
    for name in ("a_tool", "kv_engine"):
        program = (both.path / "bin" / name).read_bytes()
        assert program != (base.path / "bin" / name).read_bytes()


def test_what_is_refused(base: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="seed 0"):
        relink(base, 0)
    with pytest.raises(ValueError, match="no program"):
        relink(base, 1, ())
    with pytest.raises(BuildError, match="links no program no_such") as caught:
        relink(base, 1, ("no_such",))
    assert caught.value.hint == "its programs: a_tool, kv_engine"
    monkeypatch.setattr("perfrunner.build.layout.linker_version", lambda env: "LLD 99")
    with pytest.raises(BuildError, match=r"was linked by .*LLD.*, here is LLD 99"):
        relink(base, 6)


def test_link_steps_among_ninjas_commands() -> None:
    text = (
        "/usr/bin/c++ -O2 -o a.o -c a.cc\n"
        ": && /usr/bin/cmake -E rm -f l.a && /usr/bin/ar qc l.a a.o && :\n"
        ": && /usr/bin/c++ -O2 'a b.o' -o server/kv_engine -Wl,-rpath,:: l.a && :\n"
        ": && /usr/bin/c++ @big.rsp -o other && :\n"
    )
    assert parse_commands(text) == {
        "kv_engine": [
            "/usr/bin/c++", "-O2", "a b.o", "-o", "server/kv_engine", "-Wl,-rpath,::", "l.a",
        ]
    }  # fmt: skip


def test_the_command_of_a_shuffled_link() -> None:
    argv = shuffled(["c++", "a.o", "-o", "x", "-Wl,-rpath,/t::"], 7, Path("/out/x"))
    assert argv == [
        "c++", "a.o", "-o", "/out/x", "-Wl,-rpath,$ORIGIN/../lib", "-fuse-ld=lld",
        "-Wl,--shuffle-sections=.text=7", "-Wl,--shuffle-sections=.text.[^u]*=7",
    ]  # fmt: skip


CLEANS_UP = """
struct Counted { ~Counted() { asm volatile("" ::: "memory"); --alive; } static inline int alive = 0; };
void thrower(int), fails(int);
int main(int argc, char**) {
    try { fails(argc); } catch (int) { return Counted::alive; }
    return 1;
}
__attribute__((noinline)) void fails(int x) {
    Counted::alive++;
    Counted counted;
    asm volatile("");
    thrower(x);
}
__attribute__((noinline)) void thrower(int x) { if (x) throw x; }
"""


def test_exceptions_clean_up_in_every_order(tmp_path: Path) -> None:
    """Also next to cold functions without any code, as jemalloc has them: two pieces of code at one address."""
    empty = "\n".join(
        f"__attribute__((cold, used)) void empty_{n}(void) {{ __builtin_unreachable(); }}"
        for n in range(FUNCTIONS)
    )
    (tmp_path / "a.cc").write_text(CLEANS_UP)
    (tmp_path / "b.c").write_text(empty)
    compiled = ["-O2", "-ffunction-sections", "-c"]
    subprocess.run(["c++", *compiled, "a.cc"], cwd=tmp_path, check=True)
    subprocess.run(["cc", *compiled, "b.c"], cwd=tmp_path, check=True)
    for seed in range(1, 6):
        link = shuffled(["c++", "a.o", "b.o", "-o", "a"], seed, tmp_path / "program")
        subprocess.run(link, cwd=tmp_path, check=True)
        assert subprocess.run([tmp_path / "program"], check=False).returncode == 0, seed
