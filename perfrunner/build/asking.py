"""Questions to the builder on a build host (worker.py), which is put there first: `builder/<content>.pyz`.

Of the caller's environment only the choice of compilers (CC, CXX) goes along; all else is the host's own.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfrunner.build.output import Progress, silent
from perfrunner.build.shipped import builder_archive
from perfrunner.errors import BuildError

if TYPE_CHECKING:
    from perfrunner.cluster import Host

CHOSEN_HERE = ("CC", "CXX")  # see toolchain.find_toolchain
QUESTION_TIMEOUT_S = 300.0  # the host's caches may be cold
_NOT_FOUND = 127
_SAID = 300  # characters of what was said


def tools_on(host: Host, allocator: str) -> dict[str, str]:
    """compiler, cmake, linker; and cargo: what is wrong with it for this allocator, or nothing, with its hint."""
    return ask(host, "tools", {"allocator": allocator}, silent)


def ask(
    host: Host,
    command: str,
    asked: Mapping[str, Any],
    tell: Progress,
    timeout: float = QUESTION_TIMEOUT_S,
) -> dict[str, Any]:
    """What the builder there answers; `tell` hears what it says meanwhile. A BuildError there is one here.

    Whatever ends the waiting, also a lost link, ends the builder there and all that it started.
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
            f"{host.name}: python3 is not installed, and a build host needs it",
            f"apt-get install python3 (on {host.name})",
        )
    last = (done.stderr.strip().splitlines() or ["nothing"])[-1][:_SAID]
    raise BuildError(f"{host.name}: the builder ended with status {done.exit} and said: {last}")


def _builder(host: Host) -> str:
    """The builder's path there: it has the name of its content, so that each perfrunner finds its own."""
    archive = builder_archive()
    path = f"{host.work_dir}/builder/{hashlib.sha256(archive).hexdigest()[:16]}.pyz"
    if not host.transport.exists(path):
        host.transport.put_bytes(archive, path)
    return path


def _parsed(line: str) -> dict[str, Any]:
    """What is none of the builder's lines is something that it said."""
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"line": line}
