"""Where the engine's source is.

In this order: --engine-src; $PERFRUNNER_ENGINE_SRC; a directory engine_src/ in the spec's directory or above it, or one
of these directories itself; the same from the current directory; the source that came with the package. What is named
and wrong is an error, never passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from perfrunner.bundled import bundled
from perfrunner.errors import UsageError
from perfrunner.spec.engine_tree import (
    ENGINE_DIRECTORY,
    OPTIONS_FILE,
    is_engine_source,
    is_inside_engine,
)

ENVIRONMENT = "PERFRUNNER_ENGINE_SRC"


def find_engine_source(
    option: Path | None, spec_path: Path | None, *, revisions: bool = False
) -> Path:
    """An absolute directory that holds the engine's CMake project. Raises UsageError.

    `revisions`: those of its repository are asked for. Who asks from within another repository means that one's.
    """
    if option is not None:
        return _named(option, "--engine-src")
    named = os.environ.get(ENVIRONMENT)
    if named:
        return _named(Path(named), f"${ENVIRONMENT}")
    for candidate in _candidates(spec_path):
        if is_engine_source(candidate):
            if revisions and candidate == bundled(ENGINE_DIRECTORY):
                _refuse_in_another_repository(candidate)
            return candidate
    raise UsageError(
        "the engine's source is nowhere near the spec or the current directory, and not in the package",
        f"name it with --engine-src DIR or {ENVIRONMENT}=DIR",
    )


def _named(directory: Path, origin: str) -> Path:
    if not is_engine_source(directory):
        raise UsageError(
            f"{origin} {directory} holds no engine source (CMakeLists.txt and options/)",
            "it is the directory engine_src/ of a checkout",
        )
    return directory.resolve()


def _refuse_in_another_repository(source: Path) -> None:
    # Imported late: most commands need no git.
    from perfrunner.source.git import Repository

    here, its = Repository.around(Path.cwd()), Repository.around(source)
    if here is None or (its is not None and its.top == here.top):
        return
    found = here.git("ls-files", "--", f"*/{OPTIONS_FILE}").splitlines()
    places = [name.removesuffix(f"/{OPTIONS_FILE}") for name in found]
    if len(places) == 1:
        hint = f"--engine-src {here.top / places[0]}"
    else:
        hint = f"name the engine's directory with --engine-src DIR or {ENVIRONMENT}=DIR"
    raise UsageError(
        f"{here.top} has no {ENGINE_DIRECTORY}/ here or above; perfrunner's own engine has other revisions",
        hint,
    )


def _candidates(spec_path: Path | None) -> Iterator[Path]:
    starts = [Path.cwd()] if spec_path is None else [spec_path.resolve().parent, Path.cwd()]
    for start in starts:
        for directory in (start, *start.parents):
            yield directory / ENGINE_DIRECTORY
            if is_inside_engine(directory):
                yield directory
    yield bundled(ENGINE_DIRECTORY)
