"""Paths as users write them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


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


def absolute_word(
    word: str, directory: Path, named: Callable[[Path], str] = lambda path: str(real_path(path))
) -> str:
    """Return a word of a command, or a variable's value, with absolute paths of what exists in `directory`.

    The server is started in another directory. `--option=PATH` and `PATH:PATH` are read too; a name without a slash is
    a path if it has a suffix, as redis.conf has. `named` returns how a path is written.
    """
    option, equals, value = word.rpartition("=")
    if not equals and word.startswith("-"):
        return word
    parts = (_absolute_path(part, directory, named) for part in value.split(":"))
    return option + equals + ":".join(parts)


def _absolute_path(text: str, directory: Path, named: Callable[[Path], str]) -> str:
    if text.startswith("/") or not ("/" in text or Path(text).suffix):
        return text
    path = directory / text
    there = os.path.exists(path)  # noqa: PTH110  Path.exists raises for a long name
    return named(path) if there else text
