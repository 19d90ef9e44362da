"""git repositories as they are: submodules, partial and shallow clones, worktrees, owners, configurations, locales."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scratch_repo import Repo, a_spec, add_submodule, text

from perfrunner.bisect.search import BisectState, Measured, Search
from perfrunner.build.cache import locked
from perfrunner.errors import BuildError, UsageError
from perfrunner.servers.prepare import check_out, is_built
from perfrunner.sources.git import Repository
from perfrunner.sources.resolve import resolve_sources
from perfrunner.sources.run_git import run_git
from perfrunner.spec.server import ServerSpec


def test_a_submodule_comes_along_and_a_dirty_one_is_refused(
    repo: Repo, cache: Path, tmp_path: Path
) -> None:
    add_submodule(repo, tmp_path / "inner")
    spec = a_spec(a=None, b={"git": "main"})
    sources = resolve_sources(spec, repo.engine, cache)
    assert text(sources, "b", "third/inner.cc") == "inner\n"
    (repo.engine / "third" / "inner.cc").write_text("changed\n")
    with pytest.raises(
        UsageError, match=r"submodule engine_src/third of .* has uncommitted changes"
    ):
        resolve_sources(spec, repo.engine, cache)
    repo.git("submodule", "--quiet", "deinit", "-f", "engine_src/third")
    with pytest.raises(UsageError, match="submodule engine_src/third, which is not checked out"):
        resolve_sources(spec, repo.engine, cache)


def test_a_submodules_commit_that_was_never_fetched_is_named_with_its_remedy(
    repo: Repo, cache: Path, tmp_path: Path
) -> None:
    add_submodule(repo, tmp_path / "inner")
    nowhere = "1" * 40  # as after a pull without `git submodule update`
    repo.git("update-index", "--cacheinfo", f"160000,{nowhere},engine_src/third")
    repo.git("commit", "-q", "-m", "the submodule has moved on")
    with pytest.raises(UsageError) as caught:
        resolve_sources(a_spec(a={"git": "main~1"}, b={"git": "main"}), repo.engine, cache)
    moved = repo.git("rev-parse", "--short=12", "main").strip()
    assert caught.value.message == (
        f"variant b: {moved} has the submodule engine_src/third at {nowhere[:12]},"
        f" which {repo.engine / 'third'} does not have"
    )
    assert caught.value.hint == f"git -C {repo.engine / 'third'} fetch --all --tags"
    assert caught.value.of_machine


def test_what_a_user_has_configured_changes_nothing(
    repo: Repo, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_submodule(repo, tmp_path / "inner")
    (repo.engine / "link.cc").symlink_to("main.cc")
    repo.commit("with a link")
    repo.write(main_cc="put away\n")
    repo.git("stash", "-q")
    spec = a_spec(v1={"git": "v1"}, x={"git": "feature/x"}, main={"git": "main"})
    plain = resolve_sources(spec, repo.engine, cache).record()
    repository = Repository.around(repo.engine)
    assert repository is not None
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[log]\nshowSignature = true\ndecorate = full\n[color]\nui = always\ndiff = always\nstatus = always\n"
        "[core]\nautocrlf = true\neol = crlf\npager = false\n[pager]\nlog = true\n[alias]\nlog = status\n"
        "[diff]\nexternal = false\norderFile = /nowhere\nignoreSubmodules = all\n[status]\nshowStash = true\n"
        "[format]\npretty = %an\n[core]\nsymlinks = false\nabbrev = 30\n"
    )
    monkeypatch.setenv("HOME", str(home))
    assert resolve_sources(spec, repo.engine, tmp_path / "another cache").record() == plain
    (repo.engine / "third" / "inner.cc").write_text("changed\n")
    with pytest.raises(UsageError, match=r"submodule engine_src/third of .* has uncommitted"):
        repository.changed_files()
    repo.git("submodule", "--quiet", "deinit", "-f", "engine_src/third")
    assert repository.changed_files() == ()


def test_configuration_by_environment_reaches_git(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a CI says which directories are safe. What a hook's git hands down does not."""
    config = tmp_path / "config"
    config.write_text("[a]\nb = of a file\n")
    for name, value in {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "a.c",
        "GIT_CONFIG_VALUE_0": "of the environment",
        "GIT_DIR": "/nowhere",
        "GIT_INDEX_FILE": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    asked = [run_git(repo.top, "config", key) for key in ("a.b", "a.c")]
    assert asked == ["of a file\n", "of the environment\n"]


class TestAShallowClone:
    @pytest.fixture
    def clone(self, repo: Repo, tmp_path: Path) -> Repo:
        """It has v1 and feature/x, and not what joins them."""
        made = Repo(tmp_path / "clone")
        made.top.mkdir()
        made.git("init", "-q")
        made.git("fetch", "-q", "--depth=1", f"file://{repo.top}", "refs/tags/v1:refs/tags/v1")
        made.git("fetch", "-q", "--depth=1", f"file://{repo.top}", "feature/x:refs/heads/x")
        made.git("checkout", "-q", "x")
        return made

    def test_has_no_counts_of_commits(self, clone: Repo, cache: Path) -> None:
        spec = a_spec(v1={"git": "v1"}, x={"git": "x"})
        distance = resolve_sources(spec, clone.engine, cache).distances["x"]
        assert (distance.ahead, distance.behind, distance.log) == (None, None, ())
        assert distance.text == "commits not counted (the clone is shallow); 1 file, +2 -1 lines"

    def test_is_named_where_a_bisection_finds_no_way(self, clone: Repo) -> None:
        repository = Repository.around(clone.engine)
        assert repository is not None
        ends = [repository.commit(name).sha for name in ("v1", "x")]
        search = Search(
            repository, BisectState("s", "ops_per_s", *ends), lambda *_: Measured(), lambda: None
        )
        with pytest.raises(UsageError, match="is not an ancestor of") as caught:
            list(search.run())
        assert "this clone is shallow" in str(caught.value.hint)


def test_titles_and_file_names_that_are_not_utf_8(repo, cache):
    repo.write(main_cc="latin\n")
    Path(os.fsdecode(os.fsencode(repo.engine) + b"/caf\xe9.cc")).write_text("int x;\n")
    repo.git("add", "-A")
    message = repo.top / "message"
    message.write_bytes("caf\xe9 ".encode("latin-1") + "größer\n".encode())
    # git mends a message that is not in the encoding that it knows: this one it does not know.
    repo.git("-c", "i18n.commitEncoding=x-unknown", "commit", "-q", "-F", str(message))
    message.unlink()
    spec = a_spec(base={"git": "v1"}, new={"git": "main"}, tree=None)
    Path(os.fsdecode(os.fsencode(repo.engine) + b"/caf\xe9.cc")).write_text("int y;\n")
    sources = resolve_sources(spec, repo.engine, cache)
    assert sources.of["new"].title == "caf\N{REPLACEMENT CHARACTER} größer"
    assert len(sources.of["tree"].dirty) == 1
    distance = sources.distances["new"]
    assert "caf\N{REPLACEMENT CHARACTER} größer" in distance.log[0]
    json.dumps(sources.record(), ensure_ascii=False).encode()


def test_git_speaks_english_to_users_of_other_languages(tmp_path, monkeypatch):
    """LANGUAGE decides about messages before LC_ALL does, and git's are parsed."""
    monkeypatch.setenv("LANGUAGE", "de")
    alias = 'alias.language=!printf %s "$LANGUAGE"'
    assert run_git(tmp_path, "-c", alias, "language") == ""
    assert Repository.around(tmp_path) is None


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_git_is_read_alike_in_every_locale(repo, encoding):
    repo.write(main_cc="more\n")
    repo.commit("größer")
    output = subprocess.run(
        [sys.executable, "-c", "import sys; from pathlib import Path;"
         "from perfrunner.sources.git import Repository;"
         "print(ascii(Repository.around(Path(sys.argv[1])).commit('HEAD').title))", str(repo.engine)],
        env={**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0",
             "PYTHONIOENCODING": encoding, "PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert output.stdout.strip() == ascii("größer")


def partial_clone(repo: Repo, tmp_path: Path) -> Path:
    """A clone without blobs, but those of HEAD, whose remote has gone."""
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "partial"
    repo.git("clone", "-q", "--filter=blob:none", f"file://{repo.top}", str(clone))
    repo.git("remote", "set-url", "origin", "https://127.0.0.1:1/gone.git", at=clone)
    return clone


def test_a_partial_clone_is_refused_at_once_and_never_fetches(
    repo: Repo, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = partial_clone(repo, tmp_path)
    asked = tmp_path / "asked"
    prompt = tmp_path / "askpass"
    prompt.write_text(f"#!/bin/sh\ntouch {asked}\n")
    prompt.chmod(0o755)
    monkeypatch.setenv("GIT_ASKPASS", str(prompt))
    monkeypatch.setenv("SSH_ASKPASS", str(prompt))
    assert resolve_sources(a_spec(tree=None), clone / "engine_src", cache)
    with pytest.raises(UsageError, match="is a partial clone and lacks content") as refused:
        resolve_sources(a_spec(old={"git": "v1"}), clone / "engine_src", cache)
    assert f"git -C {clone} archive -o /dev/null" in str(refused.value.hint)
    assert refused.value.of_machine
    assert not asked.exists()
    repo.git("remote", "set-url", "origin", f"file://{repo.top}", at=clone)
    repo.git("archive", "-o", "/dev/null", "v1", at=clone)
    assert resolve_sources(a_spec(old={"git": "v1"}), clone / "engine_src", cache)


def a_server(git: Path, revision: str) -> ServerSpec:
    return ServerSpec.model_validate(
        {"git": str(git), "revision": revision, "build": [["true"]], "command": ["x", "{port}"]}
    )


def test_a_shallow_clone_of_a_server_names_the_command_that_helps(
    repo: Repo, cache: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    repo.git(
        "clone", "-q", "--depth=1", "--no-single-branch", f"file://{repo.top}", str(clone), at=tmp_path
    )  # fmt: skip
    tree = check_out(a_server(clone, "main"), None, cache, lambda _: None).tree
    assert (tree / "engine_src" / "main.cc").read_text() == "two\n"
    with pytest.raises(BuildError) as refused:
        check_out(a_server(clone, "origin/feature/x"), None, cache, lambda _: None)
    assert "git fetch --unshallow" in str(refused.value.hint)


def test_a_server_may_be_in_a_directory_of_its_repository(
    repo: Repo, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text("[protocol]\n\tallow = never\n")  # of the network; the clone is local
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    tree = check_out(a_server(repo.engine, "v1"), None, cache, lambda _: None).tree
    assert (tree / "engine_src" / "main.cc").read_text() == "one\n"


def test_a_server_is_not_built_from_a_part_of_its_revision(
    repo: Repo, cache: Path, tmp_path: Path
) -> None:
    """`git checkout` leaves out the files that a partial clone lacks, and ends with 0."""
    clone = partial_clone(repo, tmp_path)
    server = {"git": str(clone), "build": [["true"]], "command": ["x", "{port}"]}
    for revision, complete in (("main", True), ("v1", False)):
        spec = ServerSpec.model_validate({**server, "revision": revision})
        if complete:
            tree = check_out(spec, None, cache, lambda _: None).tree
            assert (tree / "engine_src" / "main.cc").read_text() == "two\n"
            continue
        with pytest.raises(UsageError, match="is a partial clone and lacks content") as refused:
            check_out(spec, None, cache, lambda _: None)
        assert "archive -o /dev/null" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["CC", "CXX"])
def test_another_compiler_version_builds_a_server_again(
    repo: Repo, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    compiler = tmp_path / "compiler"
    monkeypatch.setenv(name, f"env {compiler}")
    spec = a_server(repo.top, "main")
    for version, cached in (("1", False), ("1", True), ("2", False), ("", False), ("2", True)):
        compiler.write_text(f"#!/bin/sh\necho compiler {version}\n")
        compiler.chmod(0o755 if version else 0o644)
        assert is_built(spec, cache) == cached
        checkout = check_out(spec, None, cache, lambda _: None)
        assert checkout.cached == cached
        assert (f"compiler {version}" if version else "") in checkout.compilers


def test_the_steps_of_a_build_keep_its_checkout_locked(repo: Repo, cache: Path) -> None:
    build = (["sh", "-c", "readlink /proc/$$/fd/* >descriptors || true"],)
    spec = a_server(repo.top, "main").model_copy(update={"build": build})
    tree = check_out(spec, None, cache, lambda _: None).tree
    assert str(tree.with_suffix(".lock")) in (tree / "descriptors").read_text().splitlines()


def test_a_daemon_of_a_build_keeps_nobody_waiting(repo: Repo, cache: Path) -> None:
    spec = a_server(repo.top, "main")
    tree = check_out(spec, None, cache, lambda _: None).tree
    with locked(tree.with_suffix(".lock"), pytest.fail):
        assert check_out(spec, None, cache, pytest.fail).cached


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_that_git_overlooks_is_a_change(repo: Repo, cache: Path, flag: str) -> None:
    repo.git("update-index", flag, "engine_src/main.cc", "engine_src/README.md")
    repository = Repository.around(repo.engine)
    assert repository is not None
    assert repository.changed_files() == ()
    (repo.engine / "README.md").unlink()
    assert repository.changed_files() == (), "as in a sparse checkout"
    repo.write(main_cc="hidden\n")
    assert repository.changed_files() == ("main.cc",)


def test_a_change_that_a_monitor_does_not_report_is_a_change(repo: Repo, tmp_path: Path) -> None:
    """A monitor that has stopped, such as watchman, reports no change."""
    hook = tmp_path / "monitor"
    hook.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(hook))
    repo.git("update-index", "--fsmonitor")
    repo.git("status")
    repo.write(main_cc="not reported\n")
    assert repo.git("status", "--porcelain") == ""
    repository = Repository.around(repo.engine)
    assert repository is not None
    assert repository.changed_files() == ("main.cc",)


def test_any_name_of_a_file_is_read_and_special_files_are_not(repo: Repo, cache: Path) -> None:
    names = [
        "x" * 252 + ".cc",
        "new\nline.cc",
        "-dash.cc",
        "*.cc",
        ":colon.cc",
        os.fsdecode(b"lat\xe9.cc"),
    ]
    for name in names:
        (repo.engine / name).write_text("x\n")
    repo.commit("names")
    os.mkfifo(repo.engine / "pipe")
    sources = resolve_sources(a_spec(old={"git": "main"}, here=None), repo.engine, cache)
    for variant in ("old", "here"):
        assert [text(sources, variant, name) for name in names] == ["x\n"] * len(names)
        assert not (sources.path(variant) / "pipe").exists()


def test_a_title_cannot_steer_a_terminal(repo: Repo) -> None:
    repo.git("commit", "-q", "--allow-empty", "-m", "red \x1b[31m and\ttab")
    repository = Repository.around(repo.engine)
    assert repository is not None
    assert repository.commit("main").title == "red \N{REPLACEMENT CHARACTER}[31m and tab"
    assert "\x1b" not in repository.log("v1", "main", 9)[1][0]
    repo.git("commit", "-q", "--allow-empty", "-m", "one\u2028line \x0b\x1c\u0085 of the log")
    assert len(repository.log("v1", "main", 9)[1]) == repository.log("v1", "main", 9)[0]


@pytest.mark.parametrize("as_revision", [False, True])
def test_a_pointer_of_git_lfs_is_not_built(repo: Repo, cache: Path, as_revision: bool) -> None:
    """A clone that was made without Git LFS has pointers instead of files, and git reports nothing."""
    (repo.engine / ".gitattributes").write_text("*.dat filter=lfs\n")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
    (repo.engine / "words.dat").write_text(pointer)
    repo.commit("with a large file")
    (repo.engine / "words.dat").write_text("content\n" if as_revision else pointer)
    spec = a_spec(a={"git": "main"} if as_revision else None)
    with pytest.raises((UsageError, BuildError), match=r"words\.dat is a pointer") as refused:
        resolve_sources(spec, repo.engine, cache)
    assert refused.value.hint == "git lfs install && git lfs pull"


def test_a_worktree_is_a_repository_like_any_other(repo: Repo, cache: Path, tmp_path: Path) -> None:
    tree = tmp_path / "beside"
    repo.git("worktree", "add", "-q", str(tree), "feature/x")
    sources = resolve_sources(a_spec(old={"git": "v1"}, here=None), tree / "engine_src", cache)
    assert text(sources, "old") == "one\n"
    assert text(sources, "here") == "two\nthree\n"
    assert sources.of["here"].title == "third"


def test_a_repository_of_another_user_names_the_command_that_helps(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setattr(
        "perfrunner.sources.run_git._OFFLINE", {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    )
    with pytest.raises(UsageError, match="it belongs to another user") as refused:
        Repository.around(repo.engine)
    assert refused.value.hint == f"git config --global --add safe.directory {repo.top}"


@pytest.mark.parametrize("source", [None, {"git": "main"}], ids=["a tree", "a revision"])
def test_a_repository_that_git_refuses_ends_nothing_silently(
    repo: Repo, cache: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str] | None
) -> None:
    """A tree without its commit and its list of ignored files would be a worse record of what was measured."""
    spec = a_spec(a=source)
    repo.git("config", "filter.large.clean", "/nowhere/large")  # as of Git LFS that was removed
    repo.git("config", "filter.large.required", "true")
    (repo.top / ".git" / "info").mkdir(exist_ok=True)
    (repo.top / ".git" / "info" / "attributes").write_text("main.cc filter=large\n")
    os.utime(repo.engine / "main.cc", (1, 1))
    with pytest.raises(UsageError, match="clean filter 'large' failed"):
        resolve_sources(spec, repo.engine, cache)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setattr(
        "perfrunner.sources.run_git._OFFLINE", {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    )
    with pytest.raises(UsageError, match="it belongs to another user"):
        resolve_sources(spec, repo.engine, cache)


def test_a_worktree_without_its_repository_is_a_directory(
    repo: Repo, cache: Path, tmp_path: Path
) -> None:
    """A container may mount a worktree without its repository."""
    tree = tmp_path / "alone"
    repo.git("worktree", "add", "-q", str(tree), "feature/x")
    repo.top.rename(tmp_path / "elsewhere")
    sources = resolve_sources(a_spec(here=None), tree / "engine_src", cache)
    assert (text(sources, "here"), sources.of["here"].commit) == ("two\nthree\n", None)
    with pytest.raises(UsageError, match=r"git directory .*, which is not there") as caught:
        resolve_sources(a_spec(old={"git": "v1"}), tree / "engine_src", cache)
    assert "make the whole repository available" in str(caught.value.hint)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("how", ["file", "environment"])
def test_a_server_is_built_from_a_trusted_repository_of_another_user(
    repo: Repo, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """CI jobs in containers have such repositories. `git clone` checks another name than `git log` does."""
    for path in (repo.top, *repo.top.rglob("*")):
        os.chown(path, 65534, 65534)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = {"git": str(repo.top), "build": [["true"]], "command": ["x", "{port}"]}
    spec = ServerSpec.model_validate(server)
    with pytest.raises(UsageError, match="it belongs to another user"):
        check_out(spec, None, cache, lambda _: None)
    settings = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory"}
    if how == "file":
        (tmp_path / ".gitconfig").write_text(f"[safe]\ndirectory = {repo.top}\n")
    else:
        for name, value in {**settings, "GIT_CONFIG_VALUE_0": str(repo.top)}.items():
            monkeypatch.setenv(name, value)
    tree = check_out(spec, None, cache, lambda _: None).tree
    assert (tree / "engine_src" / "main.cc").read_text() == "two\n"


def test_a_good_end_on_a_release_branch_is_replaced_by_the_merge_base(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "release", "v1")
    repo.write(README_md="fixed\n")
    repo.commit("release fix")
    repository = Repository.around(repo.engine)
    assert repository is not None
    release, main, v1 = (repository.commit(name) for name in ("release", "main", "v1"))
    assert repository.good_end(release, main) == v1
    assert repository.good_end(v1, main) == v1
    with pytest.raises(UsageError, match="is newer than"):
        repository.good_end(main, v1)
    repo.git("checkout", "-q", "--orphan", "other")
    repo.commit("no ancestor")
    with pytest.raises(UsageError, match="have no common ancestor"):
        repository.good_end(repository.commit("other"), main)
