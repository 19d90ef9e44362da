"""Paths as users write them."""

from __future__ import annotations

import os
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


def absolute_word(word: str, directory: Path) -> str:
    """Return a word of a command, or a variable's value, with absolute paths of what exists in `directory`.

    The server is started in another directory. `--option=PATH` and `PATH:PATH` are read too; a name without a slash is
    a path if it has a suffix, as redis.conf has.
    """
    option, equals, value = word.rpartition("=")
    if not equals and word.startswith("-"):
        return word
    return option + equals + ":".join(_absolute_path(part, directory) for part in value.split(":"))


def _absolute_path(text: str, directory: Path) -> str:
    if text.startswith("/") or not ("/" in text or Path(text).suffix):
        return text
    path = directory / text
    there = os.path.exists(path)  # noqa: PTH110  Path.exists raises for a long name
    return str(real_path(path)) if there else text
