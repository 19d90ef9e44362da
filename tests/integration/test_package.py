"""The wheel: it holds the command, the templates and the engine's source, and works outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("perfrunner", "engine_src", "setup.py", "pyproject.toml", "MANIFEST.in")


def run(*words, cwd, **env):
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env={**os.environ, **env},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    source = tmp_path_factory.mktemp("checkout")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(
                ROOT / part, source / part, ignore=shutil.ignore_patterns("build", "__pycache__")
            )
        else:
            shutil.copy(ROOT / part, source / part)
    target = tmp_path_factory.mktemp("installed")
    done = run("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
               "--target", str(target), ".", cwd=source)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.slow
@pytest.mark.integration
def test_an_installed_command_finds_its_own_engine_source(installed, tmp_path):
    code = (
        "import perfrunner.cli.engine_source as e, pathlib;print(e.find_engine_source(None, None))"
    )
    done = run("-c", code, cwd=tmp_path, PYTHONPATH=str(installed), PERFRUNNER_ENGINE_SRC="")
    assert done.stdout.strip() == str(installed / "perfrunner" / "_engine_src"), done.stderr
    assert (installed / "perfrunner" / "_engine_src" / "CMakeLists.txt").is_file()


@pytest.mark.slow
@pytest.mark.integration
def test_an_installed_package_has_its_data_files(installed):
    package = installed / "perfrunner"
    data = [
        p.relative_to(ROOT) for p in (ROOT / "perfrunner").rglob("*")
        if p.is_file() and p.suffix not in (".py", ".pyc") and "_engine_src" not in p.parts
    ]  # fmt: skip
    missing = [str(p) for p in data if not (package / p.relative_to("perfrunner")).is_file()]
    assert not missing


@pytest.mark.slow
@pytest.mark.integration
def test_an_installed_command_runs(installed, tmp_path):
    done = run("-m", "perfrunner", "--help", cwd=tmp_path, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    assert "report" in done.stdout
