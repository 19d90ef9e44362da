"""From a variant to an artifact: found in the cache, or built, bundled, listed and renamed into it.

The cache directory holds `artifacts/<build_id>/`, `trees/<key>/` (see tree.py), `allocators/` (cargo's target
directories) and `logs/<build_id>.log`. An artifact appears there complete or not at all.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

from perfrunner.build.artifact import Artifact
from perfrunner.build.bundle import bundle_libraries
from perfrunner.build.identity import allocator_hash, build_id, source_hash
from perfrunner.build.manifest import damage, write_manifest
from perfrunner.build.output import Progress
from perfrunner.build.provenance import PROVENANCE, describe, read_provenance
from perfrunner.build.toolchain import build_environment, find_toolchain, require_cargo
from perfrunner.build.tree import BuildPlan, build_and_install, locked_tree
from perfrunner.errors import BuildError
from perfrunner.spec.allocator import SYSTEM
from perfrunner.spec.options import BUILD_OPTIONS
from perfrunner.spec.variant import Variant

BUILD_TYPE = "RelWithDebInfo"
CACHE_TAG = "CACHEDIR.TAG"
_TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# perfrunner's build cache (https://bford.info/cachedir): `perfrunner clean` removes all of it.\n"
)


def build_variant(
    variant: Variant, source_dir: Path, cache_dir: Path, progress: Progress | None = None
) -> Artifact:
    """Build (or find in the cache) the artifact of a variant. `progress` gets a line at a time. BuildError."""
    began = time.monotonic()
    tell = progress or _silent
    env = build_environment()
    plan = _plan(variant, source_dir.resolve(), env)
    source = source_hash(plan.source_dir)
    identity = _identity(plan, source)
    cache_dir = cache_dir.expanduser().absolute()
    _own_cache(cache_dir)
    path = cache_dir / "artifacts" / identity
    try:
        cached = _usable(path, identity, tell)
        if not cached:
            with locked_tree(cache_dir, plan, tell) as tree:
                cached = _usable(path, identity, tell)  # another build may have made it meanwhile
                if not cached:
                    _build(plan, identity, source, tree, path, cache_dir, env, tell)
        provenance = read_provenance(path)
    except OSError as error:
        hint = (
            "free some disk space; `perfrunner clean` removes old builds"
            if error.errno == 28
            else None
        )
        raise BuildError(f"{error.filename or cache_dir}: {error.strerror}", hint) from error
    return Artifact(identity, path, provenance, cached, time.monotonic() - began)


def _own_cache(cache_dir: Path) -> None:
    """Create and mark the cache. A directory with other things in it is not taken: clean would remove them."""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        if (cache_dir / CACHE_TAG).exists():
            return
        if any(cache_dir.iterdir()) and not (cache_dir / CACHE_TAG).exists():
            raise BuildError(
                f"{cache_dir} holds other things (it has no {CACHE_TAG})",
                hint="give the build cache a directory of its own with --cache",
            )
        with tempfile.TemporaryDirectory(dir=cache_dir.parent) as aside:
            tag = Path(aside) / CACHE_TAG
            tag.write_text(_TAG_TEXT, encoding="ascii")
            tag.replace(cache_dir / CACHE_TAG)  # complete at once, whoever else starts now
    except OSError as error:
        raise BuildError(f"the build cache {cache_dir} cannot be used: {error.strerror}") from error


def _silent(line: str) -> None:
    del line


def _plan(variant: Variant, source_dir: Path, env: dict[str, str]) -> BuildPlan:
    options = {}
    for name, value in variant.options.items():
        option = BUILD_OPTIONS[name]
        options[option.cmake_variable] = value.upper() if "on" in option.values else value
    if variant.allocator.name != SYSTEM:
        require_cargo(variant.allocator.name, env)
    return BuildPlan(source_dir, options, variant.allocator.name, BUILD_TYPE, find_toolchain(env))


def _identity(plan: BuildPlan, source: str) -> str:
    return build_id(
        source=source,
        options=plan.options,
        allocator=plan.allocator,
        pin=allocator_hash(plan.source_dir, plan.allocator),
        compiler=plan.toolchain.identity,
        build_type=plan.build_type,
    )


def _usable(path: Path, identity: str, tell: Progress) -> bool:
    if not path.exists():
        return False
    wrong = damage(path, identity)
    if wrong is not None:
        tell(f"the cached artifact {identity} is damaged ({wrong}): building it again")
    return wrong is None


def _build(
    plan: BuildPlan,
    identity: str,
    source: str,
    tree: Path,
    path: Path,
    cache_dir: Path,
    env: dict[str, str],
    tell: Progress,
) -> None:
    log_path = cache_dir / "logs" / f"{identity}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{identity}.", dir=path.parent))
    try:
        with log_path.open("w", encoding="utf-8") as log:
            seconds = build_and_install(
                tree,
                staging,
                plan,
                allocator_cache=cache_dir / "allocators",
                log=log,
                env=env,
                progress=tell,
            )
        if source_hash(plan.source_dir) != source:
            raise BuildError(
                f"{plan.source_dir} changed while it was built", hint="start the build again"
            )
        libraries = bundle_libraries(staging, env)
        document = describe(
            plan,
            build_id=identity,
            source=source,
            tree=tree,
            libraries=libraries,
            seconds=seconds,
            env=env,
        )
        (staging / PROVENANCE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        staging.chmod(0o755)
        write_manifest(staging, identity)
        _move_into_place(staging, path, identity)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _move_into_place(staging: Path, path: Path, identity: str) -> None:
    """A tree's lock does not exclude a build of the same id from another source directory: the first one stays."""
    if path.exists() and damage(path, identity) is not None:
        shutil.rmtree(path)
    try:
        staging.rename(path)
    except OSError:
        if damage(path, identity) is not None:
            raise
