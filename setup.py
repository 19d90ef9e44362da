"""Packaging: metadata is in pyproject.toml; this file adds the engine's source to the package.

`perfrunner` builds the C++ engine on the user's machine, so an installed command needs engine_src/. It travels inside
the wheel as perfrunner/_engine_src. An editable install uses the checkout's engine_src/ directly.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
ENGINE_SOURCE = ROOT / "engine_src"
NOT_SOURCE = shutil.ignore_patterns("build", "build-*", "cmake-build-*", "target", ".cache", "*.o")


class BuildWithEngine(build_py):
    """build_py, and a copy of the engine's source beside the Python modules."""

    def run(self) -> None:
        super().run()
        if getattr(self, "editable_mode", False):
            return
        if not (ENGINE_SOURCE / "CMakeLists.txt").is_file():
            raise SystemExit(f"error: {ENGINE_SOURCE} holds no engine source (no CMakeLists.txt)")
        target = Path(self.build_lib) / "perfrunner" / "_engine_src"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(ENGINE_SOURCE, target, ignore=NOT_SOURCE)


setup(cmdclass={"build_py": BuildWithEngine})
