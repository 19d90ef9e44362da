"""Build what the end-to-end tests share: `python -m tests.e2e.prebuild`.

Next to other tests the build would take ten minutes, and the rest would wait for the tests that need it.
"""

from __future__ import annotations

import os
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
        # A build measures nothing: a measurement of the user does not keep it waiting.
        env = os.environ | {"PERFRUNNER_SHARE_HOST": "1"}
        return subprocess.run(
            [sys.executable, "-m", "perfrunner", *words], check=False, cwd=ROOT, env=env
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
