"""Build switches of other sources: which table holds when a spec is read, and when its sources are resolved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scratch_repo import Repo, a_spec

from perfrunner.errors import UsageError
from perfrunner.sources.resolve import resolve_sources
from perfrunner.sources.switches import SwitchTables
from perfrunner.spec.model import Spec
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.switches import FILE, own_table

PAGER = {
    "name": "pager",
    "about": "a",
    "default": "on",
    "values": [{"value": "on"}, {"value": "off"}],
}


@pytest.fixture
def repo(repo: Repo) -> Repo:
    """The branch `pager` has a table; main, v1 and the tree are older than that."""
    repo.git("checkout", "-q", "-b", "pager")
    (repo.engine / FILE).write_text(json.dumps({"schema": 1, "switches": [PAGER]}))
    repo.commit("a table")
    repo.git("checkout", "-q", "main")
    return repo


def with_options(spec: Spec, **options: str) -> Spec:
    variants = {
        name: variant.model_copy(update={"options": options})
        for name, variant in spec.variants.items()
    }
    return spec.model_copy(update={"variants": variants})


def test_the_table_of_what_is_at_hand(repo: Repo, tmp_path: Path) -> None:
    tables = SwitchTables(repo.engine, ("b=feature/x", "c=d=pager"))
    assert tables("a", None) is own_table(), "the tree is older than the table"
    assert tables("a", SourceSpec(git="v1")) is own_table()
    results = tables("a", SourceSpec(git="pager"))
    assert results is not None
    assert list(results) == ["pager"]
    assert tables("a", SourceSpec(dir=str(repo.top))) is own_table()
    repo.git("checkout", "-q", "pager")
    for source in (None, SourceSpec(dir=str(repo.top))):
        table = tables("a", source)
        assert table is not None
        assert list(table) == ["pager"]


def test_what_is_not_at_hand_is_left_to_the_sources(repo: Repo, tmp_path: Path) -> None:
    tables = SwitchTables(repo.engine, ("b=feature/x", "c=d=pager"))
    assert tables("b", None) is None, "the command line names its source"
    assert tables("c=d", None) is None
    assert tables("a", SourceSpec(git="main", patch="fix.patch")) is None
    settled = SwitchTables(repo.engine, settled=True)
    assert settled("a", SourceSpec(git="no-such-branch")) is None, "a run that was begun has a copy"


@pytest.mark.parametrize("patch", [None, "fix.patch"])
def test_a_revision_that_is_not_there_is_reported_when_a_spec_is_read(
    repo: Repo, tmp_path: Path, patch: str | None
) -> None:
    tables = SwitchTables(repo.engine, ("b=feature/x",))
    with pytest.raises(UsageError, match=r"has no revision mian \(did you mean main\?\)"):
        tables("a", SourceSpec(git="mian", patch=patch))
    assert tables("b", SourceSpec(git="mian", patch=patch)) is None
    outside = tmp_path / "outside"
    (outside / "options").mkdir(parents=True)
    with pytest.raises(UsageError, match="is not in a git repository"):
        SwitchTables(outside)("a", SourceSpec(git="main", patch=patch))


def test_a_broken_table_of_a_revision_is_named(repo: Repo) -> None:
    repo.git("checkout", "-q", "pager")
    (repo.engine / FILE).write_text("{")
    broken = repo.commit("broken")
    repo.git("checkout", "-q", "main")
    with pytest.raises(UsageError, match=rf"^{broken}:engine_src/{FILE}: Invalid JSON"):
        SwitchTables(repo.engine)("a", SourceSpec(git=broken))


def test_resolving_holds_each_variant_against_its_own_source(repo: Repo, cache: Path) -> None:
    new = with_options(a_spec(new={"git": "pager"}), pager="off")
    assert resolve_sources(new, repo.engine, cache).of["new"].revision
    old = with_options(a_spec(old={"git": "v1"}), cursor_drop="walk")
    assert resolve_sources(old, repo.engine, cache).of["old"].revision

    both = with_options(a_spec(new={"git": "pager"}, old={"git": "main"}), pager="off")
    with pytest.raises(
        UsageError, match=r"^variant old: options\.pager: expected a build option: ht_"
    ) as caught:
        resolve_sources(both, repo.engine, cache)
    assert caught.value.hint == "the build options of main are listed above"
    wrong = with_options(a_spec(new={"git": "pager"}), pager="of")
    with pytest.raises(
        UsageError, match=r"^variant new: options\.pager: expected one of on, off; got of \(did"
    ):
        resolve_sources(wrong, repo.engine, cache)
