"""Send requests to the builder on a build host (worker.py), installing it first as `builder/<content>.pyz`.

Only the choice of compilers (CC, CXX) is passed on from the caller's environment; everything else is the
host's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from perfrunner.build.output import Progress, silent
from perfrunner.children import python_archive
from perfrunner.errors import BuildError

if TYPE_CHECKING:
    from perfrunner.hosts import Host

CHOSEN_HERE = ("CC", "CXX")  # see toolchain.find_toolchain
QUESTION_TIMEOUT_S = 300.0  # the host's caches may be cold
_NOT_FOUND = 127
_MOST_SHOWN = 300  # characters of a message


def tools_on(host: Host, allocator: str) -> dict[str, str]:
    """Return compiler, cmake, linker and cargo of the host.

    `cargo` says why it cannot build this allocator, with a `hint`, or is empty.
    """
    return ask(host, "tools", {"allocator": allocator}, silent)


def ask(
    host: Host,
    command: str,
    asked: Mapping[str, Any],
    tell: Progress,
    timeout: float = QUESTION_TIMEOUT_S,
) -> dict[str, Any]:
    """Return the answer of the builder on the host; `tell` receives its output. Its BuildError is raised here.

    Anything that ends the wait, a lost link included, ends the builder and every process that it started.
    """
    answer: dict[str, Any] = {}

    def take(line: str) -> None:
        document = _parsed(line)
        if "line" in document:
            tell(str(document["line"]))
        else:
            answer.update(document)

    words = ["python3", "-I", _builder(host), command, json.dumps(asked)]
    chosen = {key: os.environ[key] for key in CHOSEN_HERE if os.environ.get(key)}
    done = host.transport.follow(words, take, timeout=timeout, env=chosen)
    if "done" in answer:
        return dict(answer["done"])
    if "error" in answer:
        hint = answer.get("hint")
        raise BuildError(
            f"{host.name}: {answer['error']}",
            f"{hint} (on {host.name})" if hint else None,
            log=answer.get("log"),
        )
    if done.exit == _NOT_FOUND:
        raise BuildError(
            f"{host.name}: python3 is not installed, but a build host needs it",
            f"apt-get install python3 (on {host.name})",
        )
    last = (done.stderr.strip().splitlines() or ["no message"])[-1][:_MOST_SHOWN]
    raise BuildError(f"{host.name}: the builder ended with status {done.exit}: {last}")


def _builder(host: Host) -> str:
    """Return the path of the builder on the host. It is named by its content, so that versions do not collide."""
    archive = builder_archive()
    path = f"{host.work_dir}/builder/{hashlib.sha256(archive).hexdigest()[:16]}.pyz"
    if not host.transport.exists(path):
        host.transport.put_bytes(archive, path)
    return path


def _parsed(line: str) -> dict[str, Any]:
    """Parse a line of the builder; anything else is output to be shown."""
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"line": line}


# All modules of perfrunner.build that a build needs. They need only Python's standard library.
MODULES = (
    "artifact", "builder", "cache", "identity", "inputs", "layout", "links", "output",
    "provenance", "retention", "snapshot", "toolchain", "tree", "worker",
)  # fmt: skip
PYTHON_AT_LEAST = (3, 10)
_MAIN = """\
import json, sys
if sys.version_info < {least}:
    print(json.dumps({{"error": "python3 is %d.%d, and the builder needs {text}" % sys.version_info[:2]}}))
    sys.exit(3)
from perfrunner.build.worker import main
sys.exit(main(sys.argv[1:]))
"""


@cache
def builder_archive() -> bytes:
    """Return a zip file with a __main__.py; the same perfrunner produces the same bytes."""
    least = ".".join(map(str, PYTHON_AT_LEAST))
    main = _MAIN.format(least=PYTHON_AT_LEAST, text=least)
    return python_archive(main, ["errors.py", *(f"build/{name}.py" for name in MODULES)])
