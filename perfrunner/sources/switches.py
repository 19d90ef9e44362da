"""Find the build switches that each variant may set: those of the source that it is built from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perfrunner.errors import UsageError
from perfrunner.sources.git import Repository
from perfrunner.sources.run_git import GitError
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
    """The tables of build switches that are available when a spec is read: those of trees and plain revisions.

    `renamed`: `NAME=REV` arguments of the command line, which replace the sources of variants. `revisions_of` returns a
    directory in the repository of the revisions, or raises UsageError. `settled`: the sources are known from an earlier
    run, whose revisions may no longer exist.
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
        """Return the table of a variant's source; None if it is known only after the sources are resolved.

        Raises UsageError for a revision that does not exist.
        """
        if any(text.startswith(f"{variant}=") for text in self._renamed):
            return None
        if source is None:
            return table_of(self._engine_src)
        if source.git is None:
            return own_tables(variant, source)
        table = self.of_revision(source.git)
        return None if source.patch is not None else table

    def of_revision(self, revision: str) -> Table | None:
        """Return the table of a revision. Raises UsageError when the engine's repository has no such revision."""
        if revision not in self._revisions:
            try:
                self._revisions[revision] = self._read(revision)
            except UsageError:
                if not self._settled:
                    raise
                self._revisions[revision] = None
        return self._revisions[revision]

    def _read(self, revision: str) -> Table | None:
        """Read the table of a revision; return None for problems that resolving the sources reports later."""
        repository = Repository.around(self._revisions_of())
        if repository is None:
            raise UsageError(
                f"the engine source {self._engine_src} is not in a git repository",
                "give the engine source of a checkout with --engine-src, or use source.dir",
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
    """Raise UsageError if the variant sets switches or values that its source, in this directory, does not have."""
    _, wrong = checked_options(variant.options, table_of(source))
    if not wrong:
        return
    source_of = variant.source
    hint = None if source_of is None else f"the build options of {source_of.text} are listed above"
    raise UsageError("; ".join(f"options.{name}: {text}" for name, text in wrong.items()), hint)
