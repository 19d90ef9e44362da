"""A fleet without a compiler: `perfrunner` with the fake build and proof, also in the runs that a driver starts.

    python -m tests.support.fleet fleet workers ...

$FAKE_BUILD is driver.fakes' settings as JSON. $RUN_WAITS_FOR is a file that a run waits for as it begins, $PATIENCE_S
how long it waits for its hosts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from perfrunner.build import place
from perfrunner.cli import main
from perfrunner.fleet import child
from perfrunner.run import underway
from perfrunner.run.preflight import builds
from tests.support.driver import fakes

PERFRUNNER = (sys.executable, "-m", "tests.support.fleet")

if __name__ == "__main__":
    while sys.argv[1] == "run" and not Path(os.environ.get("RUN_WAITS_FOR", "/")).exists():
        time.sleep(0.05)
    build, prove = fakes(json.loads(os.environ.get("FAKE_BUILD", "{}")))
    place.build_variant, builds.prove = build, prove  # type: ignore[assignment]
    underway.REGAIN_PATIENCE_S = float(os.environ.get("PATIENCE_S", underway.REGAIN_PATIENCE_S))
    child.PERFRUNNER = PERFRUNNER
    child.WAITS_S = (1.0,)
    child.PROGRESS_S = 0.5
    main(prog_name="perfrunner")
