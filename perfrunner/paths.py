"""Paths as users write them, digests and locks of files, and the places of results, engine and installed files."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import perfrunner
from perfrunner.text import readable

STORE_FILE = "results.sqlite"  # in a results directory
PAGE = "report.html"  # in the directory of an experiment


def home() -> str:
    """Return the home directory: $HOME, else that of the user database, else `/`, as in containers of any uid."""
    known = str(with_home("~"))
    return "/" if known == "~" else known


def with_home(path: str | Path) -> Path:
    """Expand `~` and `~user` as a shell does: the name of an unknown user stays as it is, and no such file exists."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  Path.expanduser raises RuntimeError for an unknown user


def real_path(path: Path) -> Path:
    """Return an absolute path without symbolic links, as far as it exists; a loop of links stays as it is.

    Path.resolve raises RuntimeError for a loop, before Python 3.13.
    """
    return Path(os.path.realpath(path))


def is_file(path: str | Path) -> bool:
    """Tell whether a path is that of a file.

    Path.is_file raises for a name that is too long, and for a path below a directory of another user.
    """
    return os.path.isfile(path)  # noqa: PTH113


def is_directory(path: str | Path) -> bool:
    """Tell whether a path is that of a directory; False if the system refuses the path."""
    return os.path.isdir(path)  # noqa: PTH112


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


LOCK_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB


def lock(fd: int, path: Path, how: int = LOCK_NOW) -> bool:
    """Lock an open file until its process ends; return False if another process has it.

    Raises OSError, which names `path`, if the file system has no locks.
    """
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        return False
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return True


def absolute_word(
    word: str, directory: Path, named: Callable[[Path], str] = lambda path: str(real_path(path))
) -> str:
    """Return a word of a command, or a variable's value, with absolute paths of what exists in `directory`.

    The server is started in another directory. `--option=PATH` and `PATH:PATH` are read too; a name without a slash is
    a path if it has a suffix, as redis.conf has, or behind a name such as LD_LIBRARY_PATH=. `~/` is the home directory.
    `named` returns how a path is written.
    """
    option, equals, value = word.rpartition("=")
    if not equals and word.startswith("-"):
        return word
    search = option.lower().endswith("path")
    parts = (
        _absolute_path(part, directory, named)
        if search or "/" in part or Path(part).suffix
        else part
        for part in value.split(":")
    )
    return option + equals + ":".join(parts)


def absolute_variable(
    name: str,
    value: str,
    directory: Path,
    named: Callable[[Path], str] = lambda path: str(real_path(path)),
) -> str:
    """Return the value of a variable as `absolute_word` does, which knows from the name what is a path."""
    return absolute_word(f"{name}={value}", directory, named).removeprefix(f"{name}=")


def _absolute_path(text: str, directory: Path, named: Callable[[Path], str]) -> str:
    if text.startswith("~/"):
        return str(with_home(text))
    if not text or text.startswith("/"):
        return text
    path = directory / text
    there = os.path.exists(path)  # noqa: PTH110  Path.exists raises for a long name
    return named(path) if there else text


ENGINE_DIRECTORY = "engine_src"  # its name in a checkout
OPTIONS_FILE = "options/Options.cmake"


def is_engine_source(directory: Path) -> bool:
    """Tell whether this is our engine and not another project's folder of the same name."""
    return is_file(directory / "CMakeLists.txt") and is_directory(directory / "options")


def is_inside_engine(directory: Path) -> bool:
    """Tell whether the directory is the engine's under any name; other projects may have an options/."""
    return is_engine_source(directory) and is_file(directory / OPTIONS_FILE)


def engine_in(directory: Path) -> Path:
    """Return the engine source in a directory: itself or its engine_src/. Raises ValueError."""
    for candidate in (directory, directory / ENGINE_DIRECTORY):
        if is_engine_source(candidate):
            return candidate
    problem = (
        "it has no CMakeLists.txt with options/" if is_directory(directory) else "no such directory"
    )
    shown = readable(str(directory))  # pydantic takes no text that is not UTF-8
    raise ValueError(f"expected a directory with an engine's source, got {shown}: {problem}")


def bundled(name: str) -> Path:
    """Return the directory `name`: `_name` in an installed package (see setup.py), else in the checkout."""
    package = Path(perfrunner.__file__).resolve().parent
    inside = package / f"_{name}"
    return inside if inside.is_dir() else package.parent / name
