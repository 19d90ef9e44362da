"""The wheel, installed whole: every file of the project is in it, and it measures without the checkout."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.e2e.conftest import BUILD_TIMEOUT_S, RealLab
from tests.support.built import CACHE
from tests.support.wheel import Installed, build_wheel, install_wheel, project_files

pytestmark = [pytest.mark.slow, pytest.mark.integration]
CARRIED = {"perfrunner": ".", "engine_src": "_engine_src", "specs": "_specs"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install_wheel(tmp_path_factory.mktemp("wheel"))


def test_it_holds_every_file_of_the_project_and_no_other(installed: Installed) -> None:
    expected = {
        (Path(place) / Path(name).relative_to(top)).as_posix()
        for top, place in CARRIED.items()
        for name in project_files(top)
    }
    results = {
        path.relative_to(installed.package).as_posix()
        for path in installed.package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(expected) > 500
    assert results == expected


def test_every_module_of_it_can_be_imported(installed: Installed, tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, perfrunner\n"
        "found = [m.name for m in pkgutil.walk_packages(perfrunner.__path__, 'perfrunner.')"
        " if not m.name.endswith('__main__')]\n"
        "for name in found: importlib.import_module(name)\n"
        "print(perfrunner.__file__, *found, sep='\\n')"
    )
    done = installed.python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    place, *modules = done.stdout.splitlines()
    assert Path(place) == installed.package / "__init__.py"
    assert {"perfrunner.build.builder", "perfrunner.report.build"} <= set(modules)


def test_its_first_spec_is_planned_anywhere(installed: Installed, tmp_path: Path) -> None:
    done = installed.command("init", "specs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = installed.command("plan", "specs/first.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["trials"]) == 40
    done = installed.command(
        "validate", *(str(p) for p in (tmp_path / "specs/experiments").glob("*.yaml")), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok (") == len(project_files("specs/experiments"))


@pytest.mark.long
def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    """The checkouts differ in place, time and umask."""
    wheels = []
    for number, umask in enumerate((0o022, 0o077)):
        before = os.umask(umask)
        try:
            wheels.append(
                build_wheel(tmp_path / str(number), mtime=1_700_000_000 + number * 86_401)
            )
        finally:
            os.umask(before)
    described = [
        [(m.filename, m.date_time, m.external_attr, m.CRC) for m in zipfile.ZipFile(w).infolist()]
        for w in wheels
    ]
    assert described[0] == described[1]
    first, second = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels)
    assert first == second


@pytest.mark.timeout(BUILD_TIMEOUT_S + 120)
def test_it_builds_measures_and_reports(
    installed: Installed, real: RealLab, tmp_path: Path
) -> None:
    """The engine is built from the source in the wheel: the checkout's, so the build is the other tests'."""
    workload = {"type": "append", "items": 2000, "rounds": 1, "settle": 0}
    real.write_spec(workloads={"append": workload}, buckets=["ephemeral"])
    done = installed.command(
        "run", "spec.yaml", "--out", "out", "--cache", str(CACHE), "--json",
        cwd=tmp_path, limit_s=BUILD_TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["trials"] == {"ok": 2, "discarded": 0, "failed": 0}
    built_from = real.stored().builds[0].provenance["source"]
    assert built_from["directory"] == str(installed.package / "_engine_src"), built_from
    page = (real.out / report["experiment"] / "report.html").read_text(encoding="utf-8")
    for part in ("report/page/page.js", "report/page/charts.js", "report/templates/report.css"):
        assert (installed.package / part).read_text(encoding="utf-8").strip()[:200] in page, part
    done = installed.command("report", "--out", "out", "--charts", "charts", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "charts").glob("*.svg"))
