"""Find what is installed with the package, and recognize directories that contain the engine's source."""

from __future__ import annotations

from pathlib import Path

import perfrunner

ENGINE_DIRECTORY = "engine_src"  # its name in a checkout
OPTIONS_FILE = "options/Options.cmake"


def is_engine_source(directory: Path) -> bool:
    """Tell whether this is our engine and not another project's folder of the same name."""
    return (directory / "CMakeLists.txt").is_file() and (directory / "options").is_dir()


def is_inside_engine(directory: Path) -> bool:
    """Tell whether the directory is the engine's under any name; other projects may have an options/."""
    return is_engine_source(directory) and (directory / OPTIONS_FILE).is_file()


def engine_in(directory: Path) -> Path:
    """Return the engine source in a directory: itself or its engine_src/. Raises ValueError."""
    for candidate in (directory, directory / ENGINE_DIRECTORY):
        if is_engine_source(candidate):
            return candidate
    problem = (
        "it has no CMakeLists.txt with options/" if directory.is_dir() else "no such directory"
    )
    raise ValueError(f"expected a directory with an engine's source, got {directory}: {problem}")


def bundled(name: str) -> Path:
    """Return the directory `name`: `_name` in an installed package (see setup.py), else in the checkout."""
    package = Path(perfrunner.__file__).resolve().parent
    inside = package / f"_{name}"
    return inside if inside.is_dir() else package.parent / name
