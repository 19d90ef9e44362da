"""Run clang-tidy over the engine's sources, each unit again only when it or anything that it includes has changed.

    tidy.py BUILD_DIR SOURCE...

BUILD_DIR holds compile_commands.json. A unit is what one command compiles: a source, or a file of CMake's that includes
several sources, so that the headers they share are read once. A unit without a finding leaves an empty file in
BUILD_DIR/tidied, named by the hash of clang-tidy's version and configuration, the compile command and the preprocessed
text with its comments. Exit code 1 when there are findings; they are printed as clang-tidy words them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TIDY = os.environ.get("CLANG_TIDY", "clang-tidy-14")
CLANG = "clang++-14"  # preprocesses as clang-tidy does
CONFIGURATION = Path("engine_src/.clang-tidy")


def main(arguments: Sequence[str]) -> int:
    build = Path(arguments[0])
    sources = {Path(name).resolve() for name in arguments[1:]}
    units = {
        unit: command for unit, command in commands_of(build).items() if sources & members(unit)
    }
    if missing := sources.difference(*map(members, units)):
        sys.exit(
            f"tidy: not in {build}/compile_commands.json: {', '.join(map(str, sorted(missing)))}"
        )
    kept = build / "tidied"
    kept.mkdir(exist_ok=True)
    tool = subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout
    tool += CONFIGURATION.read_bytes()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        stamps = list(pool.map(lambda unit: kept / key(unit, units[unit], tool), units))
        new = [(u, stamp) for u, stamp in zip(units, stamps, strict=True) if not stamp.exists()]
        print(f"clang-tidy: {len(new)} of {len(units)} units are new", flush=True)
        clean = list(pool.map(lambda item: tidy(build, *item), new))
    return 0 if all(clean) else 1


def commands_of(build: Path) -> dict[Path, list[str]]:
    """Return each unit's compiler arguments, without the compiler, the unit and its object."""
    by_unit = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        end = words.index("-o")
        by_unit[Path(entry["file"]).resolve()] = words[1:end]
    return by_unit


def members(unit: Path) -> set[Path]:
    """Return the sources of a unit: those that a file of CMake's includes, or the unit itself."""
    included = re.findall(r'^#include "(.*\.cc)"$', unit.read_text(encoding="utf-8"), re.MULTILINE)
    return {Path(name).resolve() for name in included} or {unit}


def key(unit: Path, command: Sequence[str], tool: bytes) -> str:
    """Hash a unit and all that its findings depend on. clang-tidy reports a unit that cannot be preprocessed."""
    hashed = hashlib.sha256(tool)
    hashed.update("\0".join(command).encode())
    text = subprocess.run(
        [CLANG, "-w", "-E", "-C", *command, str(unit)], check=False, capture_output=True
    )
    hashed.update(text.stdout)
    return hashed.hexdigest()


def tidy(build: Path, unit: Path, stamp: Path) -> bool:
    done = subprocess.run(
        [TIDY, "--quiet", f"--config-file={CONFIGURATION}", "-p", str(build), str(unit)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0 and not done.stdout.strip():
        stamp.touch()
        return True
    print(done.stdout or done.stderr, end="", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
