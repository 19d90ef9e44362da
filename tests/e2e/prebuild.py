"""Build the engines that the tests use: `python -m tests.e2e.prebuild DIRECTORY`.

DIRECTORY becomes a copy of the artifact of the defaults, with all programs. The end-to-end tests find the artifact of
`ONE_OPTION` in their cache: among other tests its build would take ten minutes. Both are built in one tree, so that
the second one compiles only what its switches change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.conftest import RealLab
from tests.support.built import CACHE, build_defaults
from tests.support.fakes import ROOT


def main(directory: Path) -> int:
    built = build_defaults()
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(built.path, directory, symlinks=True)
    with tempfile.TemporaryDirectory() as work:
        lab = RealLab(Path(work))
        lab.write_spec()
        words = ["build", str(lab.spec_path), "--cache", str(CACHE), "--quiet"]
        # A build measures nothing: a measurement of the user does not keep it waiting.
        env = os.environ | {"PERFRUNNER_SHARE_HOST": "1"}
        return subprocess.run(
            [sys.executable, "-m", "perfrunner", *words], check=False, cwd=ROOT, env=env
        ).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
