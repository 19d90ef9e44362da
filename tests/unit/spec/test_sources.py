"""`source:` of a variant: what is read, what is refused and where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from perfrunner.errors import SpecError
from perfrunner.spec.base import refuse
from perfrunner.spec.loader import load_spec
from perfrunner.spec.matrix import variant_name
from perfrunner.spec.source import SourceSpec, source_from_text

SPEC = """\
name: small
cluster: {{name: c, transport: local, hosts: {{h: {{}}}}, engine_nodes: [h], load_clients: [h]}}
baseline: main
variants:
  main: {{allocator: {{name: system}}, source: {{git: main}}}}
  mine:
    allocator: {{name: system}}
    source: {source}
workloads:
  pf: {{type: pillowfight, items: 10k, duration: 5s}}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for engine in (tmp_path / "checkout" / "engine_src", tmp_path / "plain"):
        (engine / "options").mkdir(parents=True)
        (engine / "CMakeLists.txt").touch()
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "fix.patch").touch()
    return tmp_path


def read(directory: Path, source: str):
    path = directory / "specs" / "spec.yaml"
    path.write_text(SPEC.format(source=source))
    return load_spec(path).variants["mine"].source


def test_the_three_kinds(directory: Path) -> None:
    assert read(directory, "{git: origin/my-branch~2}") == SourceSpec(git="origin/my-branch~2")
    patched = read(directory, "{git: main, patch: fix.patch}")
    assert patched == SourceSpec(git="main", patch=str(directory / "specs" / "fix.patch"))
    assert patched.text == "main + fix.patch"
    for name in ("../plain", "../checkout", "../checkout/engine_src"):
        assert read(directory, f"{{dir: {name}}}").dir == str(
            (directory / "specs" / name).resolve()
        )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{}", "variants.mine.source: expected either git: REVISION or dir: DIRECTORY"),
        (
            "{git: a, dir: ../plain}",
            "variants.mine.source: expected either git: REVISION or dir: DIRECTORY",
        ),
        (
            "{dir: ../plain, patch: fix.patch}",
            "variants.mine.source: expected patch only with git: a directory is built as it is",
        ),
        (
            "{git: --upload-pack=x}",
            "variants.mine.source.git: expected a revision, tag or branch of git, got '--upload-pack=x'",
        ),
        (
            "{git: 'a b'}",
            "variants.mine.source.git: expected a revision, tag or branch of git, got 'a b'",
        ),
        (
            "{gti: main}",
            "variants.mine.source.gti: unknown key (did you mean git?); expected one of git, patch, dir",
        ),
        ("main", "variants.mine.source: expected a mapping, got 'main'"),
    ],
)
def test_what_is_refused_and_where(directory: Path, source: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(directory, source)
    path = directory / "specs" / "spec.yaml"
    assert f"{path}:8: {message}" in caught.value.problems


@pytest.mark.parametrize(
    ("source", "field", "words"),
    [
        ("{git: main, patch: no.patch}", "patch", "no such file"),
        ("{dir: ../specs}", "dir", "it has no CMakeLists.txt with options/"),
        ("{dir: ../nowhere}", "dir", "no such directory"),
    ],
)
def test_files_that_are_not_there(directory: Path, source: str, field: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(directory, source)
    (problem,) = [p for p in caught.value.problems if f"variants.mine.source.{field}: " in p]
    assert words in problem


@pytest.mark.parametrize(
    "source", ["{git: main, patch: no.patch}", "{dir: ../nowhere}", "{git: main, patch: fix.patch}"]
)
def test_a_directory_may_have_a_name_that_is_not_utf_8(directory: Path, source: str) -> None:
    """pydantic takes such a text as a value, but not in an error."""
    place = directory / os.fsdecode(b"caf\xe9")
    (place / "specs").mkdir(parents=True)
    if "fix" in source:
        (place / "specs" / "fix.patch").touch()
        assert read(place, source).patch == str(place / "specs" / "fix.patch")
        return
    with pytest.raises(SpecError) as refused:
        read(place, source)
    assert "caf\N{REPLACEMENT CHARACTER}/" in str(refused.value)


def test_errors_may_quote_what_is_not_utf_8() -> None:
    place = os.fsdecode(b"caf\xe9")
    with pytest.raises(PydanticCustomError) as refused:
        refuse({"git": f"{place} has no revision"})
    assert "caf\N{REPLACEMENT CHARACTER} has no revision" in str(refused.value)


def test_a_matrix_over_revisions(directory: Path) -> None:
    path = directory / "specs" / "matrix.yaml"
    text = SPEC.format(source="{git: v0}").replace(
        "workloads:",
        "matrix:\n"
        "  base: {allocator: {name: system}}\n"
        "  axes: {source.git: [v1, origin/x, HEAD~1], params.ht_size: [3, 5]}\n"
        "workloads:",
    )
    path.write_text(text)
    variants = load_spec(path).variants
    assert list(variants)[2:] == [
        "v1,3", "v1,5", "origin-x,3", "origin-x,5", "HEAD-1,3", "HEAD-1,5",
    ]  # fmt: skip
    assert variants["origin-x,5"].source == SourceSpec(git="origin/x")


def test_a_variant_of_the_source_in_use_is_recorded_as_ever(directory: Path) -> None:
    path = directory / "specs" / "spec.yaml"
    path.write_text(SPEC.format(source="null"))
    variants = load_spec(path).model_dump(mode="json")["variants"]
    assert "source" not in variants["mine"]
    assert variants["main"]["source"] == {"git": "main", "patch": None, "dir": None}


NAMES = [
    "größe", "fix!1", "a&b", "it's", "x%y", "fix(scope)", "#12", "ветка", "dep/npm/@types-1.2", "v1,2", "@", "@{u}",
    "@{-1}", "main@{2 days ago}", "main@{2026-11-29 09:00}", "HEAD^{/fix the}", "HEAD~2^2", ":/fix the",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_name_that_git_allows_is_a_revision(name: str) -> None:
    assert source_from_text(name) == SourceSpec(git=name)


@pytest.mark.parametrize(
    "name",
    [
        "-x",
        "--upload-pack=x",
        "",
        " ",
        "a b",
        "HEAD:file",
        "^main",
        "{0}",
        "a\nb",
        ":",
        ":file",
        "a\udcff",
        ":/a\0",
    ],
)
def test_what_is_no_revision(name: str) -> None:
    with pytest.raises(ValidationError, match="expected a revision"):
        source_from_text(name)


def test_a_name_without_latin_letters_is_not_called_here() -> None:
    assert [variant_name(name) for name in ("ветка", "./", "..")] == ["revision", "here", "here"]
    assert [variant_name(name) for name in ("_x", "a" + "_" * 99 + "b", "__")] == [
        "x",
        "b",
        "revision",
    ]


def test_what_a_command_line_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_from_text("HEAD~1") == SourceSpec(git="HEAD~1")
    assert source_from_text(".") == SourceSpec(dir=str(tmp_path))
    assert source_from_text("../x").dir == str(tmp_path.parent / "x")
    names = [variant_name(t) for t in ("origin/main", "HEAD~1", ".", "v1.2", "../x/", "a@{u}")]
    assert names == ["origin-main", "HEAD-1", "here", "v1.2", "x", "a-u"]
    parents = [variant_name(t) for t in ("HEAD^", "main^^", "main^2", "v1^{commit}", "HEAD~2^")]
    assert parents == ["HEAD-1", "main-2", "main-2", "v1-commit", "HEAD-2-1"]
