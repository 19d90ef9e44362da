"""Serve one request on a build host: arguments of a command line in, lines of JSON out.

    python3 -I builder.pyz find|build|relink|forget|tools REQUEST

A line is {"line": ...} for output of a build. The last line is {"done": {...}} or {"error": ..., "hint": ...,
"log": ..., "of_machine": ...}. It is the local builder with the host's tools, environment and cache, and needs only
Python's standard library (remote.py sends it).
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from perfrunner.build.artifact import Artifact, read_provenance
from perfrunner.build.builder import BuildRequest, build, find
from perfrunner.build.cache import own_cache
from perfrunner.build.identity import ID_LENGTH
from perfrunner.build.layout import relink
from perfrunner.build.tools import build_environment, find_toolchain, require_cargo
from perfrunner.errors import BuildError
from perfrunner.paths import home

Reply = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Serve the request in a new session, which ends in order when this process ends for any reason."""
    alive, ours = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(alive)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(ours)
    os.setsid()
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with, args=(alive,), daemon=True, name="alive").start()
    status = 1
    with contextlib.suppress(
        KeyboardInterrupt, BrokenPipeError
    ):  # nobody is left to read the answer
        status = serve(*arguments)
    os._exit(status)


def serve(command: str, text: str) -> int:
    """Carry out one request and print its result."""
    # sshd's clean environment lacks them, and cargo uses the home directory.
    os.environ.setdefault("HOME", home())
    with contextlib.suppress(KeyError):  # a container's uid may have no name
        os.environ.setdefault("USER", pwd.getpwuid(os.getuid()).pw_name)
    try:
        _say({"done": COMMANDS[command](json.loads(text))})
    except BuildError as error:
        described = {"hint": error.hint, "log": error.log, "of_machine": error.of_machine}
        _say({"error": error.message, **described})
        return 3
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        message = f"{error.filename or 'a file'}: {error.strerror or error}"
        _say({"error": message, "of_machine": True})
        return 3
    return 0


def _find(asked: Mapping[str, Any]) -> Reply:
    cache_dir = Path(asked["cache"])
    own_cache(cache_dir)  # the source is sent into it next
    return {"build_id": find(BuildRequest.parse(asked["request"]), cache_dir, _tell)}


def _build(asked: Mapping[str, Any]) -> Reply:
    request = BuildRequest.parse(asked["request"])
    source, cache_dir = Path(asked["source"]), Path(asked["cache"])
    artifact = build(request, source, cache_dir, _tell, lambda: int(asked["jobs"]))
    return {"build_id": artifact.build_id}


def _relink(asked: Mapping[str, Any]) -> Reply:
    build_id = str(asked["build_id"])
    path = Path(asked["cache"]) / "artifacts" / build_id
    if not path.is_dir():
        raise BuildError(f"build {build_id} does not exist any more", "build it again")
    base = Artifact(build_id, path, read_provenance(path), True, 0.0)
    return {"build_id": relink(base, asked["seed"], asked["programs"], _tell).build_id}


def _forget(asked: Mapping[str, Any]) -> Reply:
    """Remove a relinked artifact that was fetched. Links, if any, belong to its base."""
    build_id = str(asked["build_id"])
    if not re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", build_id):
        raise BuildError(f"{build_id!r} is not a build id")
    shutil.rmtree(Path(asked["cache"]) / "artifacts" / build_id)
    return {}


def _tools(asked: Mapping[str, Any]) -> Reply:
    """Return the host's tools. `allocator` is one that cargo would build."""
    env = build_environment()
    tools = find_toolchain(env)
    answer: Reply = {
        "compiler": tools.compiler, "cmake": tools.cmake_version, "linker": tools.linker, "cargo": "", "hint": "",
    }  # fmt: skip
    try:
        require_cargo(asked["allocator"], env)
    except BuildError as error:
        answer.update(cargo=error.message, hint=error.hint)
    return answer


COMMANDS: Mapping[str, Callable[[Mapping[str, Any]], Reply]] = {
    "find": _find,
    "build": _build,
    "relink": _relink,
    "forget": _forget,
    "tools": _tools,
}


def _tell(line: str) -> None:
    _say({"line": line})


def _say(document: Reply) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _end_with(alive: int) -> None:
    """Wait until the other process dies, which closes the other end of the pipe."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise KeyboardInterrupt
