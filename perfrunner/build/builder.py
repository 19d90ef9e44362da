"""From a variant to an artifact: found in the cache (see cache.py), or built, bundled, listed and renamed into it.

An artifact appears there complete or not at all, and only after what linking it again takes was kept (see links.py).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

from perfrunner.build.artifact import Artifact
from perfrunner.build.bundle import bundle_libraries
from perfrunner.build.cache import move_into_place, own_cache, space_hint, usable
from perfrunner.build.identity import allocator_hash, build_id, source_hash
from perfrunner.build.links import has_links, keep_links
from perfrunner.build.manifest import write_manifest
from perfrunner.build.output import Progress
from perfrunner.build.provenance import PROVENANCE, describe, read_provenance
from perfrunner.build.snapshot import mirror
from perfrunner.build.toolchain import build_environment, find_toolchain, require_cargo
from perfrunner.build.tree import BuildPlan, Tree, build_and_install, locked_tree
from perfrunner.errors import BuildError
from perfrunner.spec.allocator import SYSTEM
from perfrunner.spec.options import BUILD_OPTIONS
from perfrunner.spec.variant import Variant

BUILD_TYPE = "RelWithDebInfo"


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
    own_cache(cache_dir)
    path = cache_dir / "artifacts" / identity
    try:
        cached = _usable(cache_dir, path, identity, tell)
        if not cached:
            with locked_tree(cache_dir, plan, tell) as tree:
                cached = _usable(
                    cache_dir, path, identity, tell
                )  # another build may have made it meanwhile
                if not cached:
                    _build(plan, identity, source, tree, path, cache_dir, env, tell)
        provenance = read_provenance(path)
    except OSError as error:
        raise BuildError(
            f"{error.filename or cache_dir}: {error.strerror}", space_hint(error)
        ) from error
    return Artifact(identity, path, provenance, cached, time.monotonic() - began)


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


def _usable(cache_dir: Path, path: Path, identity: str, tell: Progress) -> bool:
    if not usable(path, identity, tell):
        return False
    if not has_links(cache_dir, identity):
        tell(f"what linking the cached artifact {identity} again takes is gone: building it again")
        return False
    return True


def _build(
    plan: BuildPlan,
    identity: str,
    source: str,
    tree: Tree,
    path: Path,
    cache_dir: Path,
    env: dict[str, str],
    tell: Progress,
) -> None:
    log_path = cache_dir / "logs" / f"{identity}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{identity}.", dir=path.parent))
    tree.source.mkdir(parents=True, exist_ok=True)
    mirror(plan.source_dir, tree.source)
    if source_hash(tree.source) != source:
        raise BuildError(f"{plan.source_dir} changed while it was copied", hint="start again")
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
        libraries = bundle_libraries(staging, env)
        document = describe(
            plan,
            build_id=identity,
            source=source,
            tree=tree.build,
            libraries=libraries,
            seconds=seconds,
            env=env,
        )
        (staging / PROVENANCE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        keep_links(
            cache_dir,
            identity,
            tree.build,
            (program.name for program in (staging / "bin").iterdir()),
            ninja=plan.toolchain.ninja,
            env=env,
        )
        staging.chmod(0o755)
        write_manifest(staging, identity)
        move_into_place(staging, path, identity)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
