"""A fleet without a compiler: `perfrunner` with the fake build and settings check, also in the runs that a worker
starts.

    python -m tests.support.fleet fleet workers ...

$FAKE_BUILD is worker.fakes' settings as JSON. $RUN_WAITS_FOR is a file that a run waits for as it begins, $PATIENCE_S
how long it waits for its hosts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from perfrunner.build import builders
from perfrunner.cli import main
from perfrunner.experiment.preflight import builds, hosts
from perfrunner.fleet import child
from tests.support.worker import fakes

PERFRUNNER = (sys.executable, "-m", "tests.support.fleet")

if __name__ == "__main__":
    while sys.argv[1] == "run" and not Path(os.environ.get("RUN_WAITS_FOR", "/")).exists():
        time.sleep(0.05)
    build, check = fakes(json.loads(os.environ.get("FAKE_BUILD", "{}")))
    builders.build_variant, builds.check = build, check  # type: ignore[assignment]
    hosts.REGAIN_PATIENCE_S = float(os.environ.get("PATIENCE_S", hosts.REGAIN_PATIENCE_S))
    child.PERFRUNNER = PERFRUNNER
    child.WAITS_S = (1.0,)
    child.PROGRESS_S = 0.5
    main(prog_name="perfrunner")
