"""Define which source a variant is built from, if not from the engine source in use.

    source: {git: main}                          a revision of the repository that holds the engine source
    source: {git: main, patch: fix.patch}        with a patch applied
    source: {dir: ../my-checkout/engine_src}     a working tree as it is, or a checkout that contains one

Revisions and paths are resolved once, when an experiment starts (perfrunner.sources).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ValidationInfo, field_validator, model_validator

from perfrunner.paths import (
    ENGINE_DIRECTORY,
    engine_in,
    is_engine_source,
    is_file,
    is_inside_engine,
    real_path,
    with_home,
)
from perfrunner.spec.base import Piece, matching
from perfrunner.text import readable

# A revision becomes an argument of git: it must not look like an option. It has no blanks, except in braces
# (`main@{2 days ago}`) and in a search for a title (`:/fix the`).
_NO_TEXT = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
Revision = Annotated[
    str,
    matching(
        rf"(?![-./~^{{])([^\s:{{{_NO_TEXT}]|\{{[^{{}}{_NO_TEXT}]*\}})+|:/[^{_NO_TEXT}]+",
        "a revision, tag or branch of git",
    ),
]


class SourceSpec(Piece):
    """A source: `git` with an optional `patch`, or `dir`. Paths are absolute after loading."""

    git: Revision | None = None
    patch: str | None = None
    dir: str | None = None

    @field_validator("patch", "dir")
    @classmethod
    def _something(cls, path: str | None) -> str | None:
        if path is not None and not path.strip():
            raise ValueError("expected a path")
        return path

    @field_validator("patch")
    @classmethod
    def _a_file(cls, patch: str | None, info: ValidationInfo) -> str | None:
        if patch is not None and (info.context or {}).get("files") and not is_file(patch):
            raise ValueError(f"expected the path of a patch, got {readable(patch)}: no such file")
        return patch

    @field_validator("dir")
    @classmethod
    def _an_engine(cls, given: str | None, info: ValidationInfo) -> str | None:
        if given is not None and (info.context or {}).get("files"):
            engine_in(Path(given))
        return given

    @model_validator(mode="after")
    def _one_of_two(self) -> SourceSpec:
        if (self.git is None) == (self.dir is None):
            raise ValueError("expected either git: REVISION or dir: DIRECTORY")
        if self.patch is not None and self.git is None:
            raise ValueError("expected patch only with git: a directory is built as it is")
        return self

    @property
    def text(self) -> str:
        """A short description for display."""
        if self.git is None:
            return str(self.dir)
        return self.git if self.patch is None else f"{self.git} + {Path(self.patch).name}"


def source_from_text(text: str) -> SourceSpec:
    """Parse a source from the command line.

    A text that begins with `.`, `/` or `~` is a directory, anything else a revision. As in git, `.` means
    the working tree even in one of its subdirectories.
    """
    if text.startswith((".", "/", "~")):
        directory = real_path(with_home(text))
        return SourceSpec(dir=str(_around(directory) if text == "." else directory))
    return SourceSpec(git=text)


def _around(directory: Path) -> Path:
    """Return the nearest enclosing directory with an engine; `directory` itself if none has one."""
    for candidate in (directory, *directory.parents):
        if is_inside_engine(candidate) or is_engine_source(candidate / ENGINE_DIRECTORY):
            return candidate
    return directory
