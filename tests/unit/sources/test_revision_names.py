"""Which commit a revision names, and which names are refused because git would take one of several commits."""

from __future__ import annotations

from pathlib import Path

import pytest
from scratch_repo import Repo, a_spec, text

from perfrunner.errors import UsageError
from perfrunner.sources.git import Repository
from perfrunner.sources.resolve import resolve_sources


def test_a_name_of_a_branch_and_a_tag_is_refused(repo: Repo, cache: Path) -> None:
    """Git takes the tag, and says so on stderr only."""
    repo.git("tag", "feature/x", "v1")
    for revision in ("feature/x", "feature/x~0"):
        with pytest.raises(UsageError, match="feature/x is a branch and a tag") as refused:
            resolve_sources(a_spec(old={"git": revision}), repo.engine, cache)
        assert "heads/feature/x" in (refused.value.hint or "")
    for revision, content in (("heads/feature/x", "two\nthree\n"), ("tags/feature/x", "one\n")):
        sources = resolve_sources(a_spec(old={"git": revision}), repo.engine, cache)
        assert text(sources, "old") == content


def test_a_name_of_a_local_and_a_remote_branch_is_refused(repo: Repo) -> None:
    """`git checkout -b origin/main` makes one by mistake; git takes the local branch."""
    repo.git("update-ref", "refs/remotes/origin/main", "v1")
    repo.git("branch", "origin/main/below", "v1")
    repository = Repository.around(repo.engine)
    assert repository is not None
    assert repository.commit("origin/main").title == "first"
    repo.git("branch", "-D", "origin/main/below")
    repo.git("branch", "origin/main", "main")
    with pytest.raises(UsageError, match="origin/main is a branch and a remote branch") as refused:
        repository.commit("origin/main~0")
    assert refused.value.hint == "name one of them: heads/origin/main or remotes/origin/main"
    assert repository.commit("remotes/origin/main").title == "first"


def test_a_revision_is_what_git_calls_it(repo: Repo) -> None:
    repo.git("branch", "größe/#1", "v1")
    repo.git("commit", "-q", "--allow-empty", "-m", "fix the bug")
    fixed = repo.git("rev-parse", "HEAD").strip()
    first = repo.git("rev-parse", "v1^{commit}").strip()
    repo.git("commit", "-q", "--allow-empty", "-m", "another")
    repository = Repository.around(repo.engine)
    assert repository is not None
    for name, sha in (
        ("größe/#1", first), (":/fix the", fixed), ("HEAD^{/fix the}", fixed), ("@{1}", fixed),
    ):  # fmt: skip
        assert repository.commit(name).sha == sha
    for name in ("v1^{tree}", "v1..main", ":/no such title", "^main", "--all"):
        with pytest.raises(UsageError, match="has no revision"):
            repository.commit(name)


def test_a_time_before_the_reflog_begins_is_refused(repo: Repo) -> None:
    """Git warns, and takes the oldest commit that it knows: in a fresh clone, today's."""
    repository = Repository.around(repo.engine)
    assert repository is not None
    for name in ("main@{yesterday}", "@{2 days ago}~1"):
        with pytest.raises(UsageError, match="only goes back to"):
            repository.commit(name)
    assert repository.commit("main@{0}").title == "second"


def test_an_abbreviated_sha_that_names_something_else_too_is_refused(repo: Repo) -> None:
    repository = Repository.around(repo.engine)
    assert repository is not None
    head = repo.git("rev-parse", "HEAD").strip()
    assert repository.commit(head[:7]).sha == head
    repo.git("branch", head[:7], "v1")  # git takes the branch
    with pytest.raises(UsageError, match="is ambiguous"):
        repository.commit(head[:7])
    assert repository.commit(head).sha == head
    known = {sha[:4] for sha in repo.git("rev-list", "--all").split()}
    tree, short = repo.git("rev-parse", "HEAD^{tree}").strip(), ""
    while not short:
        sha = repo.git("commit-tree", "-m", str(len(known)), tree).strip()
        short = sha[:4] if sha[:4] in known else ""
        known.add(sha[:4])
    with pytest.raises(UsageError, match=f"short object ID {short} is ambiguous"):
        repository.commit(short)
