"""clang-tidy over the engine's sources, each again only when it or anything that it includes has changed.

    tidy.py BUILD_DIR SOURCE...

BUILD_DIR holds compile_commands.json. A source without a finding leaves an empty file in BUILD_DIR/tidied, named by the
hash of clang-tidy's version and configuration, the compile command and the preprocessed text with its comments. Exit
code 1 when there are findings; they are printed as clang-tidy words them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TIDY = os.environ.get("CLANG_TIDY", "clang-tidy-14")
CLANG = "clang++-14"  # preprocesses as clang-tidy does


def main(arguments: Sequence[str]) -> int:
    build = Path(arguments[0])
    sources = [Path(name).resolve() for name in arguments[1:]]
    commands = commands_of(build)
    if strange := [str(source) for source in sources if source not in commands]:
        sys.exit(f"tidy: not in {build}/compile_commands.json: {', '.join(strange)}")
    kept = build / "tidied"
    kept.mkdir(exist_ok=True)
    tool = subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        stamps = list(pool.map(lambda s: kept / key(s, commands[s], tool), sources))
        new = [(s, stamp) for s, stamp in zip(sources, stamps, strict=True) if not stamp.exists()]
        print(f"clang-tidy: {len(new)} of {len(sources)} sources are new", flush=True)
        clean = list(pool.map(lambda item: tidy(build, *item), new))
    return 0 if all(clean) else 1


def commands_of(build: Path) -> dict[Path, list[str]]:
    """Each source's compiler arguments, without the compiler, the source and its object."""
    by_source = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        end = words.index("-o")
        by_source[Path(entry["file"]).resolve()] = words[1:end]
    return by_source


def key(source: Path, command: Sequence[str], tool: bytes) -> str:
    """Of a source and all that its findings depend on. What cannot be preprocessed is for clang-tidy to say."""
    hashed = hashlib.sha256(tool)
    for directory in source.parents:
        if (config := directory / ".clang-tidy").exists():
            hashed.update(config.read_bytes())
            break
    hashed.update("\0".join(command).encode())
    text = subprocess.run(
        [CLANG, "-w", "-E", "-C", *command, str(source)], check=False, capture_output=True
    )
    hashed.update(text.stdout)
    return hashed.hexdigest()


def tidy(build: Path, source: Path, stamp: Path) -> bool:
    done = subprocess.run(
        [TIDY, "--quiet", "-p", str(build), str(source)],
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
