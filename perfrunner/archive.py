"""Parts of perfrunner as one file that another host's Python can run."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from importlib.resources import files


def python_archive(main: str, modules: Iterable[str]) -> bytes:
    """A zip file with `main` as its __main__.py: the same bytes from the same perfrunner.

    `modules` by path below the package perfrunner ("build/worker.py"). Packages are there by name only: a package's
    own __init__ may bring what only the controller has.
    """
    package = files("perfrunner")
    content = {"__main__.py": main, "perfrunner/__init__.py": ""}
    for module in modules:
        *folders, _ = module.split("/")
        for depth in range(1, len(folders) + 1):
            content.setdefault(f"perfrunner/{'/'.join(folders[:depth])}/__init__.py", "")
        content[f"perfrunner/{module}"] = (package / module).read_text(encoding="utf-8")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in content.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)  # of 1980-01-01
    return out.getvalue()
