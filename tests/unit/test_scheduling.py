"""The end-to-end tests begin first and on one worker, whatever else there is to do beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.fakes import ROOT

TEST = """\
import os, time, pathlib
def test_one():
    with open({told!r}, "a") as told:
        told.write(f"{name} {{os.environ['PYTEST_XDIST_WORKER']}}\\n")
    time.sleep(0.2)
def test_two(): pass
def test_three(): pass
"""


def test_what_shares_a_build_shares_a_worker(tmp_path: Path) -> None:
    told = tmp_path / "told"
    names = [
        "e2e/test_a.py", "e2e/test_b.py", "e2e/test_c.py",
        "integration/run/test_f.py", "integration/lab/test_d.py", "unit/test_e.py",
    ]  # fmt: skip
    for name in names:
        file = tmp_path / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        # xdist would begin with the files of most tests.
        more = "".join(f"def test_more_{n}(): pass\n" for n in range(10 * name.startswith("unit")))
        file.write_text(TEST.format(told=str(told), name=name) + more)
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_collection_modifyitems, pytest_xdist_make_scheduler\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "tests"],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ran = dict(line.split() for line in told.read_text().splitlines())
    assert sorted(ran) == sorted(names)
    assert set(list(ran)[:2]) == {"e2e/test_a.py", "integration/run/test_f.py"}, "these begin"
    assert len({worker for name, worker in ran.items() if name.startswith("e2e")}) == 1
    assert len(set(ran.values())) == 2
