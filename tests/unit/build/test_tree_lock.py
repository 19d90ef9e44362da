"""A killed perfrunner's compilers go on for a while: until the last has ended, nobody enters the tree."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import until

BUILDING = """
import sys
from pathlib import Path
from types import SimpleNamespace
from perfrunner.build.tools import run_logged
from perfrunner.build.tree import locked_tree

cache = Path(sys.argv[1])
with locked_tree(cache, SimpleNamespace(tree_key="t"), print) as tree, (cache / "log").open("w") as log:
    compiler = "echo $$; trap '' PIPE; exec sleep 60"
    run_logged(["sh", "-c", compiler], what="x", log=log, env={"PATH": "/usr/bin:/bin"},
               progress=lambda line: print(line, flush=True), inherited=(tree.lock,))
"""


def is_locked(path: Path) -> bool:
    with path.open("r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_the_lock_lives_as_long_as_the_last_compiler(tmp_path: Path) -> None:
    script = [sys.executable, "-c", BUILDING, str(tmp_path)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        compiler = int(build.stdout.readline())
        build.kill()
        build.wait()
    lock = tmp_path / "trees" / "t.lock"
    assert is_locked(lock), "the compiler still writes into the tree"
    os.kill(compiler, signal.SIGKILL)
    until(lambda: not is_locked(lock), "the lock ends with the compiler")
