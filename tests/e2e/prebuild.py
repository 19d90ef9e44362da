"""Builds what the end-to-end tests share: `python -m tests.e2e.prebuild`.

Beside other tests the build takes ten minutes, and those that need it are what the rest then waits for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.conftest import CACHE, RealLab
from tests.support.fakes import ROOT


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        lab = RealLab(Path(directory))
        lab.write_spec()
        words = ["build", str(lab.spec_path), "--cache", str(CACHE), "--quiet"]
        return subprocess.run(
            [sys.executable, "-m", "perfrunner", *words], check=False, cwd=ROOT
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
