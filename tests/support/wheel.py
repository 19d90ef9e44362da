"""The project's wheel, installed whole into a virtual environment of its own, without a network.

The dependencies are those of the interpreter that runs the tests: a .pth file leads to them, but not to this checkout
(an editable install is a .pth file itself, and those are read in a directory of their own environment only).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.support.fakes import ROOT

LIMIT_S = 300


@dataclass(frozen=True)
class Installed:
    """The environment, and the package in it."""

    directory: Path
    package: Path

    def command(
        self, *words: str, cwd: Path, limit_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run the `perfrunner` of the wheel in a directory outside the checkout."""
        return self._run("perfrunner", *words, cwd=cwd, limit_s=limit_s)

    def python(self, code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return self._run("python", "-c", code, cwd=cwd, limit_s=LIMIT_S)

    def _run(
        self, program: str, *words: str, cwd: Path, limit_s: float
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.directory / "bin" / program, *words], cwd=cwd, env=_environment(), timeout=limit_s,
            capture_output=True, text=True, check=False, start_new_session=True,
        )  # fmt: skip


def install_wheel(directory: Path) -> Installed:
    """Build the wheel from what git knows (and what it would add), and install it."""
    checkout = _copy_of_the_checkout(directory / "checkout")
    environment = directory / "venv"
    venv.create(environment, with_pip=False)
    (packages,) = environment.glob("lib/python*/site-packages")
    dependencies = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    (packages / "dependencies.pth").write_text("\n".join(dependencies))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install",
         "--no-deps", "--no-build-isolation", "--no-index", "--ignore-installed", "--quiet", checkout],
        env=_environment(), timeout=LIMIT_S, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Installed(environment, packages / "perfrunner")


def build_wheel(directory: Path, mtime: float) -> Path:
    """Build the wheel of a copy of the checkout whose files have this time and the modes of the umask."""
    checkout = _copy_of_the_checkout(directory / "checkout")
    umask = os.umask(0)
    os.umask(umask)
    for path in checkout.rglob("*"):
        path.chmod(path.stat().st_mode & ~umask)
        os.utime(path, (mtime, mtime))
    environment = {k: v for k, v in _environment().items() if k != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet",
         "--wheel-dir", directory, checkout],
        env=environment, timeout=LIMIT_S, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = directory.glob("*.whl")
    return wheel


def project_files(*below: str) -> list[str]:
    """Return the files of the project, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *below],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return sorted(name for name in set(listed.split("\0")) if name and (ROOT / name).is_file())


def _copy_of_the_checkout(target: Path) -> Path:
    for name in project_files():
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy)
    return target


def _environment() -> dict[str, str]:
    """Return an environment without anything that leads back to the checkout."""
    gone = ("PYTHONPATH", "PERFRUNNER_ENGINE_SRC", "PERFRUNNER_OUT", "PERFRUNNER_CACHE")
    return {key: value for key, value in os.environ.items() if key not in gone}
