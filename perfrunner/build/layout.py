"""Link the programs of a build again with their functions in a random order.

The position of functions decides which of them share cache lines, pages and branch-predictor entries. The
effect is about one per cent, has nothing to do with the change under test, and stays constant for a given
program. Linking with another seed draws a new layout, and an interval over blocks that each have their own
layout includes this effect.

    artifact = relink(build_variant(...), seed=block + 1)

Only sections of code move (.text*: a section for each function of the engine, whole objects of statically
linked libraries). Cold code stays separate, as in every link of the engine.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfrunner.build.artifact import (
    MANIFEST,
    PROVENANCE,
    Artifact,
    read_provenance,
    sums_of,
    write_manifest,
)
from perfrunner.build.cache import move_into_place, space_hint, usable
from perfrunner.build.identity import ID_LENGTH
from perfrunner.build.ninja import kept_link
from perfrunner.build.tools import Progress, build_environment, linker_version, run_logged, silent
from perfrunner.errors import BuildError

ENGINE_PROGRAM = "kv_engine"
SEEDS = range(1, 2**32 - 1)  # for lld, 0 means a random seed and -1 the reverse order
_SCHEMA = 2  # raise it when the same seed gives another program
_RPATH = "-Wl,-rpath,"
# Globs of lld: all sections except .text.unlikely. lld keeps the unwind information of only one of two functions at the
# same address, and jemalloc has cold functions without code. A cold part placed behind one of them lost its unwind
# information, and the program aborted at an exception.
_SHUFFLED = (".text", ".text.[^u]*")


def relink(
    artifact: Artifact,
    seed: int,
    programs: Sequence[str] = (ENGINE_PROGRAM,),
    progress: Progress | None = None,
) -> Artifact:
    """Return the artifact with `programs` linked in the order of `seed` (1 to 2**32 - 2). Raises BuildError.

    The same seed gives the same bytes. The result is cached next to `artifact`, under a separate build id;
    otherwise it takes about a third of a second per program.
    """
    if seed not in SEEDS:
        raise ValueError(f"seed {seed}: expected {SEEDS.start} to {SEEDS.stop - 1}")
    if not programs:
        raise ValueError("no program to link")
    began = time.monotonic()
    tell = progress or silent
    identity = relinked_id(artifact.build_id, seed, programs)
    path = artifact.path.parent / identity
    try:
        cached = usable(path, identity, tell)
        if not cached:
            _make(artifact, seed, sorted(set(programs)), identity, path, tell)
        provenance = read_provenance(path)
    except OSError as error:
        raise BuildError(
            f"{error.filename or path}: {error.strerror}", space_hint(error), of_machine=True
        ) from error
    return Artifact(identity, path, provenance, cached, time.monotonic() - began)


def relinked_id(build_id: str, seed: int, programs: Sequence[str] = (ENGINE_PROGRAM,)) -> str:
    """Return the build id of a relinked artifact."""
    text = json.dumps(["relink", _SCHEMA, build_id, seed, sorted(set(programs))])
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def _make(
    base: Artifact, seed: int, programs: list[str], identity: str, path: Path, tell: Progress
) -> None:
    cache_dir = base.path.parent.parent
    env = build_environment()
    linker = linker_version(env)
    if base.provenance.get("linker") != linker:
        raise BuildError(
            f"build {base.build_id} was linked by {base.provenance.get('linker')}, here is {linker}",
            hint="build it again with this linker, which gives it another build id",
        )
    log_path = cache_dir / "logs" / f"{identity}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{identity}.", dir=path.parent))
    seconds: dict[str, float] = {}
    try:
        share_files(base.path, staging, [f"bin/{name}" for name in programs])
        with log_path.open("w", encoding="utf-8", errors="surrogateescape") as log:
            for name in programs:
                began = time.monotonic()
                command = kept_link(cache_dir, base.build_id, name)
                argv = shuffled(command, seed, staging / "bin" / name)
                run_logged(argv, what=f"linking {name}", log=log, env=env, progress=tell)
                seconds[f"link {name}"] = round(time.monotonic() - began, 3)
        document = _describe(base, seed, programs, identity, seconds)
        (staging / PROVENANCE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        staging.chmod(0o755)
        own = {PROVENANCE, *(f"bin/{name}" for name in programs)}
        shared = {name: of for name, of in sums_of(base.path).items() if name not in own}
        write_manifest(staging, identity, shared)
        move_into_place(staging, path, identity)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def shuffled(command: Sequence[str], seed: int, output: Path) -> list[str]:
    """Return the link command with another output, the installed program's search path and the order of `seed`."""
    argv = [word for word in command if not word.startswith(_RPATH)]
    argv[argv.index("-o") + 1] = str(output)
    return [
        *argv,
        f"{_RPATH}$ORIGIN/../lib",
        "-fuse-ld=lld",
        *(f"-Wl,--shuffle-sections={sections}={seed}" for sections in _SHUFFLED),
    ]


def share_files(base: Path, staging: Path, without: Sequence[str]) -> None:
    """Copy the base's files, except those in `without`, its manifest and its provenance.

    Hard links are used if the file system allows them, because nobody writes into an artifact.
    """
    own = {MANIFEST, PROVENANCE, *without}
    for source in base.rglob("*"):
        name = source.relative_to(base).as_posix()
        target = staging / name
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif name not in own:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, target)
            except OSError:
                shutil.copy2(source, target)


def _describe(
    base: Artifact, seed: int, programs: list[str], identity: str, seconds: dict[str, float]
) -> dict[str, Any]:
    """Return the base's provenance with the facts of relinking."""
    return {
        **base.provenance,
        "build_id": identity,
        "relinked": {"base": base.build_id, "seed": seed, "programs": programs},
        "built_at": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "seconds": seconds,
    }
