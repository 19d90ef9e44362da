"""Find the source of the engine.

The places, in order: --engine-src; $PERFRUNNER_ENGINE_SRC; a directory engine_src/ in the spec's
directory or above it, or one of these directories itself; the same from the current directory; the
source in the package. A wrong directory in the first two is an error: the search does not go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from perfrunner.errors import UsageError
from perfrunner.spec.engine_tree import (
    ENGINE_DIRECTORY,
    OPTIONS_FILE,
    bundled,
    is_engine_source,
    is_inside_engine,
)

ENVIRONMENT = "PERFRUNNER_ENGINE_SRC"


def find_engine_source(
    option: Path | None, spec_path: Path | None, *, revisions: bool = False
) -> Path:
    """Return the absolute directory of the engine's CMake project. Raises UsageError.

    `revisions` says that revisions of its repository are going to be built. Then the packaged source
    is refused inside another repository, because the revisions are meant to be those of that one.
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
        "no engine source found near the spec, near the current directory, or in the package",
        f"name it with --engine-src DIR or {ENVIRONMENT}=DIR",
    )


def _named(directory: Path, origin: str) -> Path:
    if not is_engine_source(directory):
        raise UsageError(
            f"{origin} {directory} is not an engine source: it lacks CMakeLists.txt or options/",
            "name the directory engine_src/ of a checkout",
        )
    return directory.resolve()


def _refuse_in_another_repository(source: Path) -> None:
    # Imported late, because most commands do not need git.
    from perfrunner.sources.git import Repository

    here, packaged = Repository.around(Path.cwd()), Repository.around(source)
    if here is None or (packaged is not None and packaged.top == here.top):
        return
    option_files = here.git("ls-files", "--", f"*/{OPTIONS_FILE}").splitlines()
    directories = [name.removesuffix(f"/{OPTIONS_FILE}") for name in option_files]
    if len(directories) == 1:
        hint = f"--engine-src {here.top / directories[0]}"
    else:
        hint = f"name the engine's directory with --engine-src DIR or {ENVIRONMENT}=DIR"
    raise UsageError(
        f"{here.top} has no {ENGINE_DIRECTORY}/ here or above,"
        " and the packaged engine has other revisions",
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
