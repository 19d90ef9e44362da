"""Which build switches each variant can have: those of the source that it is built from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perfrunner.errors import UsageError
from perfrunner.source.git import GitError, Repository
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.switches import (
    FILE,
    Table,
    checked_options,
    own_table,
    own_tables,
    parse_table,
    table_of,
)
from perfrunner.spec.variant import Variant


class SwitchTables:
    """The tables at the time when a spec is read, of what is at hand then: trees and plain revisions.

    `renamed`: `NAME=REV` of the command line, which gives variants other sources than the spec's. `revisions_of` says
    whose revisions are meant, or why there is no telling (UsageError). `settled`: the sources are known from an earlier
    run, and revisions of that time may be gone.
    """

    def __init__(
        self,
        engine_src: Path,
        renamed: tuple[str, ...] = (),
        *,
        revisions_of: Callable[[], Path] | None = None,
        settled: bool = False,
    ) -> None:
        self._engine_src = engine_src
        self._renamed = renamed
        self._revisions_of = revisions_of or (lambda: engine_src)
        self._settled = settled
        self._revisions: dict[str, Table | None] = {}

    def __call__(self, variant: str, source: SourceSpec | None) -> Table | None:
        """None where only resolving the sources will tell. UsageError for a revision that is not there."""
        if any(text.startswith(f"{variant}=") for text in self._renamed):
            return None
        if source is None:
            return table_of(self._engine_src)
        if source.git is None:
            return own_tables(variant, source)
        table = self.of_revision(source.git)
        return None if source.patch is not None else table

    def of_revision(self, revision: str) -> Table | None:
        """UsageError when the engine's repository has no such revision."""
        if revision not in self._revisions:
            try:
                self._revisions[revision] = self._read(revision)
            except UsageError:
                if not self._settled:
                    raise
                self._revisions[revision] = None
        return self._revisions[revision]

    def _read(self, revision: str) -> Table | None:
        """What else is wrong with the revision is said when the sources are resolved."""
        repository = Repository.around(self._revisions_of())
        if repository is None:
            raise UsageError(
                f"the engine source {self._engine_src} is in no git repository",
                "name a checkout's with --engine-src, or use source.dir",
            )
        try:
            commit = repository.commit(revision).sha
            listed = repository.git("ls-tree", "--name-only", commit, f"{repository.prefix}{FILE}")
            if not listed:
                return own_table()
            text = repository.git("show", f"{commit}:{repository.prefix}{FILE}")
        except GitError:
            return None
        return parse_table(text, f"{revision}:{repository.prefix}{FILE}")


def check_switches(variant: Variant, source: Path) -> None:
    """UsageError where the source in this directory, the variant's, has other switches than the variant sets."""
    _, wrong = checked_options(variant.options, table_of(source))
    if not wrong:
        return
    source_of = variant.source
    hint = None if source_of is None else f"those are the build options of {source_of.text}"
    raise UsageError("; ".join(f"options.{name}: {text}" for name, text in wrong.items()), hint)
