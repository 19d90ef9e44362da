"""Which source a variant is built from, where it is not the engine source in use.

    source: {git: main}                          a revision of the repository that holds the engine source
    source: {git: main, patch: fix.patch}        with a patch on top
    source: {dir: ../my-checkout/engine_src}     a working tree as it is, or the checkout that has one

What the text means is found out once, when an experiment begins (perfrunner.source).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ValidationInfo, field_validator, model_validator

from perfrunner.spec.base import Piece, matching
from perfrunner.spec.engine_tree import (
    ENGINE_DIRECTORY,
    engine_in,
    is_engine_source,
    is_inside_engine,
)

# A revision becomes an argument of git: it may not look like an option, nor hold what git's own syntax does not have.
Revision = Annotated[
    str, matching(r"[A-Za-z0-9_@][A-Za-z0-9_./@{}^~+=,#-]*", "a revision, tag or branch of git")
]


class SourceSpec(Piece):
    """Either `git`, perhaps with `patch`, or `dir`. Paths are absolute once a spec is loaded."""

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
        if patch is not None and (info.context or {}).get("files") and not Path(patch).is_file():
            raise ValueError(f"expected the path of a patch, got {patch}: no such file")
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
            raise ValueError("expected patch only beside git: a directory is taken as it is")
        return self

    @property
    def text(self) -> str:
        """In a few words, as a person would say it."""
        if self.git is None:
            return str(self.dir)
        return self.git if self.patch is None else f"{self.git} + {Path(self.patch).name}"


def source_from_text(text: str) -> SourceSpec:
    """What a command line names: a path that begins with `.`, `/` or `~` is a directory, else a revision.

    `.` means the working tree also deep within it, as it does to git.
    """
    if text.startswith((".", "/", "~")):
        directory = Path(text).expanduser().resolve()
        return SourceSpec(dir=str(_around(directory) if text == "." else directory))
    return SourceSpec(git=text)


def _around(directory: Path) -> Path:
    """The nearest directory above that has an engine; `directory` itself where there is none."""
    for one in (directory, *directory.parents):
        if is_inside_engine(one) or is_engine_source(one / ENGINE_DIRECTORY):
            return one
    return directory
