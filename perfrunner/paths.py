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
