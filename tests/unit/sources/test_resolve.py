"""Sources of variants: what they resolve to, what is refused, and what a resumed run gets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from scratch_repo import Repo, a_spec, copied, text

from perfrunner.build.identity import content_hash
from perfrunner.errors import UsageError
from perfrunner.sources.git import Repository
from perfrunner.sources.model import Distance, distance_of
from perfrunner.sources.resolve import Sources, resolve_sources, restore_sources, same_variants

PATCH = """\
diff --git a/engine_src/main.cc b/engine_src/main.cc
--- a/engine_src/main.cc
+++ b/engine_src/main.cc
@@ -1 +1,2 @@
 two
+patched
"""


def state(repo: Repo) -> list[object]:
    """All that must not change of a user's repository."""
    files = {
        p.relative_to(repo.top): p.read_bytes() for p in sorted(repo.top.rglob("*")) if p.is_file()
    }
    return [files, repo.git("status", "--porcelain"), repo.git("worktree", "list")]


def test_revisions_tags_branches_and_a_tree(repo: Repo, cache: Path) -> None:
    repo.write(main_cc="dirty\n", new_cc="new\n")
    (repo.engine / "README.md").write_text("no source\n")
    before = state(repo)
    spec = a_spec(
        main={"git": "main"},
        tag={"git": "v1"},
        branch={"git": "feature/x"},
        parent={"git": "main~1"},
        tree={"dir": str(repo.top)},
        plain=None,
    )
    sources = resolve_sources(spec, repo.engine, cache)
    assert state(repo) == before
    assert [text(sources, name) for name in spec.variants] == [
        "two\n", "one\n", "two\nthree\n", "one\n", "dirty\n", "dirty\n",
    ]  # fmt: skip
    main, tag, tree = (sources.of[name] for name in ("main", "tag", "tree"))
    assert (main.commit, main.title) == (repo.git("rev-parse", "main").strip(), "second")
    assert main.date is not None
    assert main.date.startswith("20")
    assert tag.sha256 == sources.of["parent"].sha256, "two names of one content"
    assert sources.path("tag") == sources.path("parent")
    assert (tree.commit, tree.dirty, tree.revision) == (main.commit, ("main.cc", "new.cc"), False)
    assert sources.tools.sha256 == tree.sha256
    assert sources.foreign
    assert not (sources.path("main") / "notes.txt").exists()


def test_without_other_sources_nothing_is_foreign(repo: Repo, cache: Path) -> None:
    same = resolve_sources(a_spec(a=None, b={"git": "main"}), repo.engine, cache)
    assert not same.foreign
    assert same.distances["b"].text == "0 commits ahead; same content"


@pytest.mark.parametrize("name", ["a:b", 'a"b', "back\\slash", " blank "])
def test_a_patch_is_applied_wherever_the_repository_is(
    repo: Repo, cache: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "fix.patch").write_text(PATCH)
    moved = copied(repo, tmp_path / name)
    spec = a_spec(main={"git": "main"}, fix={"git": "main", "patch": str(tmp_path / "fix.patch")})
    assert text(resolve_sources(spec, moved.engine, cache), "fix") == "two\npatched\n"


def test_a_patch_is_applied_aside(repo: Repo, cache: Path, tmp_path: Path) -> None:
    patch = tmp_path / "fix.patch"
    patch.write_text(PATCH)
    before = state(repo)
    spec = a_spec(main={"git": "main"}, fix={"git": "main", "patch": str(patch)})
    sources = resolve_sources(spec, repo.engine, cache)
    assert state(repo) == before, "not even an object was written"
    assert text(sources, "fix") == "two\npatched\n"
    fix = sources.of["fix"]
    assert fix.patch_sha256 is not None
    assert "main + fix.patch" in fix.text
    assert f"with fix.patch (sha256 {fix.patch_sha256[:12]})" in fix.text
    assert sources.distances["fix"] == Distance(
        ahead=0, behind=0, log=(), files=1, added=1, removed=0, changed=(("main.cc", 1, 0),)
    )


def test_distances(repo: Repo, cache: Path) -> None:
    spec = a_spec(v1={"git": "v1"}, x={"git": "feature/x"})
    distance = resolve_sources(spec, repo.engine, cache).distances["x"]
    assert (distance.ahead, distance.behind) == (2, 0)
    assert [line.split(" ", 1)[1] for line in distance.log] == ["third", "second"]
    assert distance.text == "2 commits ahead; 1 file, +2 -1 lines"
    back = resolve_sources(a_spec(x={"git": "feature/x"}, v1={"git": "v1"}), repo.engine, cache)
    assert back.distances["v1"].text == "0 commits ahead, 2 behind; 1 file, +1 -2 lines"


class TestWhatGitIgnores:
    def test_is_no_part_of_a_tree(self, repo: Repo, cache: Path) -> None:
        (repo.top / ".gitignore").write_text(
            "compile_commands.json\n/engine_src/generated/\n*.log\n"
        )
        repo.commit("ignore")
        (repo.engine / "compile_commands.json").write_text("[]\n")
        (repo.engine / "generated").mkdir()
        (repo.engine / "generated" / "a.h").write_text("1\n")
        (repo.engine / "options" / "my.log").write_text("1\n")
        spec = a_spec(head={"git": "HEAD"}, tree={"dir": str(repo.top)}, plain=None)
        sources = resolve_sources(spec, repo.engine, cache)
        assert len({single.sha256 for single in sources.of.values()}) == 1, (
            "a clean tree is its commit"
        )
        assert not sources.foreign
        assert not (sources.path("tree") / "compile_commands.json").exists()
        again, output = restore_sources(sources.record(), repo.engine, cache, "e")
        assert output == []
        shutil.rmtree(cache)
        again, _ = restore_sources(sources.record(), repo.engine, cache, "e")
        assert again.of == sources.of
        repo.git("add", "-f", "engine_src/compile_commands.json")
        tree = resolve_sources(spec, repo.engine, cache).of["tree"]
        assert tree.dirty == ("compile_commands.json",)
        assert tree.sha256 != sources.of["tree"].sha256

    def test_counts_where_the_engine_itself_is_ignored(self, repo: Repo, cache: Path) -> None:
        """As a package installed in a project's .venv is."""
        inside = repo.top / "venv" / "engine_src"
        shutil.copytree(repo.engine, inside)
        (repo.top / ".gitignore").write_text("/venv/\n")
        spec = a_spec(head={"git": "HEAD"}, tree={"dir": str(inside)})
        assert resolve_sources(spec, repo.engine, cache).path("tree").is_dir()
        assert text(resolve_sources(spec, repo.engine, cache), "tree") == "two\n"


class TestLinks:
    def test_of_a_revision_give_what_they_give_in_its_tree(self, repo: Repo, cache: Path) -> None:
        common, far = repo.top / "common", repo.top / "far [1]"
        for directory in (common, far):
            directory.mkdir()
        (far / "b.cc").write_text("far\n")
        (common / "a.h").write_text("near\n")
        (common / "b.cc").symlink_to("../far [1]/b.cc")
        (repo.engine / "NOTICE").symlink_to("../notes.txt")
        (repo.engine / "common").symlink_to("../common")
        (repo.engine / "c.cc").symlink_to("main.cc")
        (repo.engine / "again").symlink_to(".")
        repo.commit("links")
        sources = resolve_sources(
            a_spec(a={"git": "main"}, b={"dir": str(repo.top)}), repo.engine, cache
        )
        results = [
            text(sources, "a", name) for name in ("NOTICE", "common/a.h", "common/b.cc", "c.cc")
        ]
        assert results == ["beside the engine\n", "near\n", "far\n", "two\n"]
        assert sources.of["a"].sha256 == sources.of["b"].sha256
        assert not (sources.path("a") / "again").exists()

    @pytest.mark.parametrize(
        ("target", "where"),
        [
            ("../../outside.h", "points out of the repository"),
            ("/etc/hostname", "points out of the repository"),
            ("gone.h", "points to a path that the revision does not have"),
        ],
    )
    def test_that_lead_out_are_refused(
        self, repo: Repo, cache: Path, target: str, where: str
    ) -> None:
        (repo.top.parent / "outside.h").write_text("mine\n")
        (repo.engine / "a.h").symlink_to(target)
        repo.commit("a link")
        (repo.engine / "a.h").unlink()
        with pytest.raises(UsageError) as caught:
            resolve_sources(a_spec(a={"git": "v1"}, b={"git": "main"}), repo.engine, cache)
        sha = repo.git("rev-parse", "--short=12", "main").strip()
        assert (
            caught.value.message == f"variant b: {sha}: the link engine_src/a.h -> {target} {where}"
        )

    def test_that_no_build_reads_may_lead_anywhere(self, repo: Repo, cache: Path) -> None:
        (repo.engine / "map.md").symlink_to("/nowhere/map.md")
        repo.commit("a link")
        sources = resolve_sources(a_spec(a={"git": "v1"}, b={"git": "main"}), repo.engine, cache)
        assert text(sources, "b") == "two\n"


class TestOneContentUnderTwoNames:
    def test_is_reported_where_another_variant_is_different(self, repo: Repo, cache: Path) -> None:
        spec = a_spec(a={"git": "v1"}, b={"git": "main~1"}, c={"git": "main"})
        sources = resolve_sources(spec, repo.engine, cache)
        content = sources.of["a"].sha256[:12]
        assert same_variants(spec, sources) == [
            f"a and b are the same engine (content {content}) with the same settings:"
            " comparing them is an A/A comparison"
        ]

    def test_is_refused_where_there_is_nothing_else(self, repo: Repo, cache: Path) -> None:
        spec = a_spec(a={"git": "v1"}, b={"git": "main~1"})
        with pytest.raises(UsageError, match=r"a and b are the same engine .* nothing to compare"):
            same_variants(spec, resolve_sources(spec, repo.engine, cache))

    def test_other_settings_make_other_variants(self, repo: Repo, cache: Path) -> None:
        spec = a_spec(a={"git": "v1"}, b={"git": "main~1"})
        b = spec.variants["b"].model_copy(update={"params": {"ht_size": "3"}})
        spec = spec.model_copy(update={"variants": {**spec.variants, "b": b}})
        assert same_variants(spec, resolve_sources(spec, repo.engine, cache)) == []

    def test_one_source_twice_is_an_aa_that_somebody_wants(self, repo: Repo, cache: Path) -> None:
        for spec in (a_spec(a={"git": "v1"}, b={"git": "v1"}), a_spec(a=None, b=None)):
            assert same_variants(spec, resolve_sources(spec, repo.engine, cache)) == []


class TestRefused:
    """One message, before anything starts."""

    def refused(self, repo: Repo, cache: Path, source: dict[str, str]) -> UsageError:
        with pytest.raises(UsageError) as caught:
            resolve_sources(a_spec(a=None, mine=source), repo.engine, cache)
        assert caught.value.message.startswith("variant mine: ")
        assert caught.value.exit_code == 2
        return caught.value

    @pytest.mark.parametrize(
        ("revision", "near"),
        [
            ("mian~1", " (did you mean main?)"),
            ("main~99", ""),
            ("theirs", " (did you mean origin/theirs?)"),
            ("0123456789ab", ""),
        ],
    )
    def test_the_nearest_name(self, repo: Repo, cache: Path, revision: str, near: str) -> None:
        repo.git("update-ref", "refs/remotes/origin/theirs", "main")
        error = self.refused(repo, cache, {"git": revision})
        assert error.message.endswith(f"has no revision {revision}{near}")

    def test_an_unknown_revision(self, repo: Repo, cache: Path) -> None:
        error = self.refused(repo, cache, {"git": "feature/y"})
        assert f"{repo.top} has no revision feature/y (did you mean feature/x?)" in error.message

    def test_a_shallow_clone(self, repo: Repo, cache: Path, tmp_path: Path) -> None:
        clone = Repo(tmp_path / "clone")
        repo.git("clone", "-q", "--depth=1", repo.top.as_uri(), str(clone.top))
        error = self.refused(clone, cache, {"git": "v1"})
        assert "has no revision v1" in error.message
        assert "git fetch --unshallow" in str(error.hint)

    def test_no_repository(self, repo: Repo, cache: Path, tmp_path: Path) -> None:
        alone = Repo(tmp_path / "alone")
        shutil.copytree(repo.engine, alone.engine)
        error = self.refused(alone, cache, {"git": "main"})
        assert "is not in a git repository" in error.message

    def test_a_patch_that_does_not_apply(self, repo: Repo, cache: Path, tmp_path: Path) -> None:
        patch = tmp_path / "fix.patch"
        patch.write_text(PATCH)
        error = self.refused(repo, cache, {"git": "v1", "patch": str(patch)})
        assert error.message.endswith(
            ": patch failed: engine_src/main.cc:1; engine_src/main.cc: patch does not apply; the patch expects there"
            "\n    two"
        )
        assert "fix.patch does not apply to " in error.message
        long = "".join(f" {n}\n" for n in range(40))
        patch.write_text(PATCH.replace("-1 +1,2", "-1,41 +1,42").replace(" two\n", f" two\n{long}"))
        error = self.refused(repo, cache, {"git": "main", "patch": str(patch)})
        assert error.message.splitlines()[1:] == [f"    {t}" for t in ("two", *range(9), "...")]
        patch.write_text("nothing\n")
        error = self.refused(repo, cache, {"git": "main", "patch": str(patch)})
        assert ": No valid patches in input" in error.message

    def test_a_revision_without_an_engine(self, repo: Repo, cache: Path) -> None:
        repo.git("checkout", "-q", "--orphan", "empty")
        repo.git("rm", "-rfq", "--cached", "engine_src")
        repo.git("commit", "-q", "-m", "no engine")
        error = self.refused(repo, cache, {"git": "empty"})
        assert "has no engine source in engine_src/" in error.message

    def test_a_directory_without_an_engine(self, repo: Repo, cache: Path, tmp_path: Path) -> None:
        error = self.refused(repo, cache, {"dir": str(tmp_path)})
        assert "expected a directory with an engine's source" in error.message

    @pytest.mark.parametrize(
        ("number", "message"),
        [
            ("4\nmore\n", r"has interface 4 \(INTERFACE\); this perfrunner drives 1 to 3"),
            ("0\n", "has interface 0 .*; this perfrunner drives 1 to 3"),
            ("x\n", "expected a number, got 'x'"),
        ],
    )
    def test_an_engine_that_this_perfrunner_cannot_drive(
        self, repo: Repo, cache: Path, number: str, message: str
    ) -> None:
        (repo.engine / "INTERFACE").write_text(number)
        repo.commit("another interface")
        (repo.engine / "INTERFACE").write_text("3\n")
        with pytest.raises(UsageError, match=message):
            resolve_sources(a_spec(a=None, mine={"git": "main"}), repo.engine, cache)

    def test_load_tools_that_are_too_old(self, repo: Repo, cache: Path) -> None:
        """A variant may be older than the tools, which are built from the engine source in use."""
        (repo.engine / "INTERFACE").unlink()
        old = repo.commit("before interface 2")
        with pytest.raises(UsageError, match=r"interface 1 .*needs load tools of 3 or later"):
            resolve_sources(a_spec(a=None, mine={"git": "v1"}), repo.engine, cache)
        (repo.engine / "INTERFACE").write_text("3\n")
        sources = resolve_sources(a_spec(a=None, mine={"git": old}), repo.engine, cache)
        assert (sources.of["mine"].interface, sources.tools.interface) == (1, 3)

    def test_git_settings_of_a_hook_do_not_matter(
        self, repo: Repo, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GIT_DIR", "/nowhere")
        monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
        sources = resolve_sources(a_spec(a={"git": "v1"}), repo.engine, cache)
        assert text(sources, "a") == "one\n"


class TestRestored:
    """--resume and reproduce."""

    SPEC = a_spec(main={"git": "main"}, tree=None)

    def begun(self, repo: Repo, cache: Path) -> tuple[Sources, dict[str, object]]:
        sources = resolve_sources(self.SPEC, repo.engine, cache)
        return sources, json.loads(json.dumps(sources.record()))

    def test_the_same(self, repo: Repo, cache: Path) -> None:
        sources, record = self.begun(repo, cache)
        assert restore_sources(record, repo.engine, cache, "e-1") == (sources, [])
        for single in record["distances"].values():
            assert distance_of(single) == sources.distances["tree"]

    def test_load_tools_of_then_that_are_too_old(self, repo: Repo, cache: Path) -> None:
        _, record = self.begun(repo, cache)
        tools = {**record["tools"], "interface": 1}  # type: ignore[dict-item]
        with pytest.raises(UsageError, match="needs load tools of 3 or later"):
            restore_sources({**record, "tools": tools}, repo.engine, cache, "e-1")

    def test_what_changed_during_that_is_reported_and_not_taken(
        self, repo: Repo, cache: Path
    ) -> None:
        sources, record = self.begun(repo, cache)
        repo.write(main_cc="changed\n")
        repo.commit("main has moved")
        again, output = restore_sources(record, repo.engine, cache, "e-1")
        assert again == sources
        assert text(again, "main") == text(again, "tree") == "two\n"
        assert output == [
            f"{repo.engine} has changed since e-1 started: the run continues with the original copy"
        ]

    def test_a_lost_copy_is_made_again_from_the_same_content(self, repo: Repo, cache: Path) -> None:
        sources, record = self.begun(repo, cache)
        shutil.rmtree(cache)
        again, _ = restore_sources(record, repo.engine, cache, "e-1")
        assert again == sources
        assert content_hash(again.path("main")) == sources.of["main"].sha256

    def test_a_lost_copy_of_a_changed_tree_is_refused(self, repo: Repo, cache: Path) -> None:
        _, record = self.begun(repo, cache)
        record["variants"]["main"] = record["variants"]["tree"]  # type: ignore[index]
        shutil.rmtree(cache)
        repo.write(main_cc="changed\n")
        with pytest.raises(
            UsageError,
            match=r"copy is no longer in the build cache, and .* no longer has that content",
        ):
            restore_sources(record, repo.engine, cache, "e-1")


def test_a_revision_has_its_own_attributes(repo: Repo, cache: Path, tmp_path: Path) -> None:
    """The attributes in the work tree, of another revision or not committed, are not those of the revision."""
    attributes = repo.engine / ".gitattributes"
    attributes.write_text("main.cc text eol=crlf\n")
    repo.commit("with attributes")
    attributes.write_text("*.cmake text eol=crlf\n")
    sources = resolve_sources(a_spec(a={"git": "main"}, b={"git": "main~1"}), repo.engine, cache)
    written = [
        sources.path(v) / file for v in "ab" for file in ("main.cc", "options/Options.cmake")
    ]
    assert [b"\r\n" in path.read_bytes() for path in written] == [True, False, False, False]


def test_the_engines_directory_may_look_like_a_pattern(repo: Repo, cache: Path) -> None:
    engine = repo.engine.rename(repo.top / ":(x)[e]*")
    repo.commit("moved")
    sources = resolve_sources(a_spec(a=None, b={"git": "main"}), engine, cache)
    assert text(sources, "b") == "two\n"


@pytest.mark.parametrize("revision", ["a" * 300, "HEAD~99"])
def test_what_is_no_revision_is_not_like_one(repo: Repo, revision: str) -> None:
    repo.git("update-ref", "refs/remotes/origin/HEAD", "main")
    repository = Repository.around(repo.engine)
    assert repository is not None
    with pytest.raises(UsageError, match=rf"has no revision {revision}$"):
        repository.commit(revision)
