"""Build the engines that the tests use: `python -m tests.e2e.prebuild DIRECTORY`.

DIRECTORY becomes a copy of the artifact of the defaults. The end-to-end tests find the artifact of `OTHER_OPTIONS` in
their cache: among other tests its build would take ten minutes. Both are built in one tree, so that the second one
compiles only what its switches change.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.conftest import CACHE, VARIANTS, RealLab
from tests.support.fakes import ROOT


def main(directory: Path) -> int:
    with tempfile.TemporaryDirectory() as work:
        lab = RealLab(Path(work))
        defaults = {"allocator": {"name": "system"}}
        lab.write_spec(variants={"defaults": defaults, **VARIANTS})
        # A build measures nothing: a measurement of the user does not keep it waiting.
        env = os.environ | {"PERFRUNNER_SHARE_HOST": "1"}
        done = subprocess.run(
            [
                sys.executable, "-m", "perfrunner", "build", str(lab.spec_path), "--cache", str(CACHE), "--json",
            ],
            check=False, cwd=ROOT, env=env, stdout=subprocess.PIPE,
        )  # fmt: skip
    if done.returncode != 0:
        return done.returncode
    (path,) = (b["path"] for b in json.loads(done.stdout)["builds"] if b["variant"] == "defaults")
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(path, directory, symlinks=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
