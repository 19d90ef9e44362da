"""Packaging: metadata is in pyproject.toml; this file adds the engine's source and the specs to the package.

`perfrunner` builds the C++ engine on the user's machine and `perfrunner init` writes the reference specs, so an
installed command needs engine_src/ and specs/. They travel inside the wheel as perfrunner/_engine_src and
perfrunner/_specs (perfrunner/paths.py finds them). An editable install uses the checkout's directly.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# What is carried, and a file without which it is not what it should be.
CARRIED = {"engine_src": "CMakeLists.txt", "specs": "first.yaml"}
NOT_SOURCE = shutil.ignore_patterns("build", "build-*", "cmake-build-*", "target", ".cache", "*.o")


class BuildWithSources(build_py):
    """build_py, and copies of CARRIED next to the Python modules."""

    def run(self) -> None:
        super().run()
        if getattr(self, "editable_mode", False):
            return
        for name, part in CARRIED.items():
            if not (ROOT / name / part).is_file():
                raise SystemExit(f"error: {ROOT / name} is not whole (no {part})")
            target = Path(self.build_lib) / "perfrunner" / f"_{name}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / name, target, ignore=NOT_SOURCE)
        for path in Path(self.build_lib).rglob("*"):  # a checkout's modes depend on its umask
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


# The same files give the same wheel, byte for byte: times and modes are not those of this checkout.
os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # 1980-01-01, the first time of a ZIP file
os.umask(0o022)
with contextlib.suppress(OSError):  # setuptools copies it with its mode
    (ROOT / "LICENSE").chmod(0o644)
setup(cmdclass={"build_py": BuildWithSources})
