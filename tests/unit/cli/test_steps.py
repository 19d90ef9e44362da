"""How scripts/test runs its steps (scripts/lib/steps.sh)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[3] / "scripts" / "lib" / "steps.sh"
CTEST_LINE = "100% tests passed, 0 tests failed out of 3"
PYTEST_LINE = "2 passed, 1 skipped in 3.00s"


@pytest.fixture
def run_steps(tmp_path: Path):
    """Run these steps: the title of each, and what it does."""

    def run(**steps: str) -> subprocess.CompletedProcess[str]:
        lines = ["set -euo pipefail", f"root_dir={tmp_path}", f". {LIBRARY}"]
        for name, commands in steps.items():
            lines += [f"step_{name}() {{ {commands}; }}", f"add_step {name} 600 'The {name}'"]
        script = "\n".join([*lines, "run_steps", "echo end"])
        return subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120
        )

    return run


def test_each_step_prints_one_line_and_its_summary(run_steps, tmp_path):
    results = run_steps(build=f"echo noise; echo '{CTEST_LINE}'", tests=f"echo '{PYTEST_LINE}'")
    assert results.returncode == 0
    assert results.stdout.splitlines() == [CTEST_LINE, PYTEST_LINE, "end"]
    first, second = results.stderr.splitlines()
    assert first.startswith("[1/2] The build (about 10 min; 20 min left in all) ... ")
    assert second.startswith("[2/2] The tests (about 10 min; 10 min left in all) ... ")
    assert "noise" in (tmp_path / "build" / "logs" / "build.log").read_text()


def test_the_second_run_knows_how_long_a_step_takes_here(run_steps):
    run_steps(build="true")
    assert "about 10 min" not in run_steps(build="true").stderr


@pytest.mark.parametrize("failing", ["false; echo not reached", "echo '1 failed in 3.00s'; exit 4"])
def test_a_failed_step_ends_the_run_and_names_its_log(run_steps, failing):
    results = run_steps(good="true", bad=f"echo the reason; {failing}", later="echo later")
    assert results.returncode == 1
    assert "the reason" in results.stderr
    assert "not reached" not in results.stderr
    assert results.stderr.splitlines()[-1] == (
        'error: step "The bad" failed; the whole log: build/logs/bad.log'
    )
    assert "later" not in results.stdout + results.stderr
    assert ("1 failed in 3.00s" in results.stdout) is ("failed" in failing)
