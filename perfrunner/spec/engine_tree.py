"""What a directory with the engine's source looks like."""

from __future__ import annotations

from pathlib import Path

ENGINE_DIRECTORY = "engine_src"  # its name in a checkout
OPTIONS_FILE = "options/Options.cmake"


def is_engine_source(directory: Path) -> bool:
    """Whether this is our engine and not another project's folder of the same name."""
    return (directory / "CMakeLists.txt").is_file() and (directory / "options").is_dir()


def is_inside_engine(directory: Path) -> bool:
    """Whether the directory itself is the engine's, whatever its name: other projects have an options/, too."""
    return is_engine_source(directory) and (directory / OPTIONS_FILE).is_file()


def engine_in(directory: Path) -> Path:
    """The engine's source in a directory: itself, or its engine_src/. ValueError."""
    for candidate in (directory, directory / ENGINE_DIRECTORY):
        if is_engine_source(candidate):
            return candidate
    what = "no engine source (CMakeLists.txt and options/)" if directory.is_dir() else "nothing"
    raise ValueError(
        f"expected a directory with an engine's source, got {directory}: it has {what}"
    )
