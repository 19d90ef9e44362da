"""From a variant to an artifact: found in the cache (see cache.py), or built, bundled, listed and renamed into it.

An artifact appears there complete or not at all, and only after what linking it again takes was kept (see links.py).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.build.artifact import Artifact
from perfrunner.build.bundle import bundle_libraries
from perfrunner.build.cache import move_into_place, own_cache, space_hint, usable
from perfrunner.build.identity import (
    allocator_hash,
    allocator_key,
    build_id,
    recipe_id,
    source_hash,
)
from perfrunner.build.inputs import (
    changed_since,
    find_inputs,
    input_sums,
    keep_inputs,
    keep_sums,
    known_inputs,
    libraries,
)
from perfrunner.build.links import has_links, keep_links
from perfrunner.build.manifest import write_manifest
from perfrunner.build.output import Progress, silent
from perfrunner.build.provenance import PROVENANCE, describe, origin_of, read_provenance
from perfrunner.build.request import BuildRequest
from perfrunner.build.retention import note_use
from perfrunner.build.snapshot import mirror
from perfrunner.build.toolchain import build_environment, find_toolchain, require_cargo
from perfrunner.build.tree import BuildPlan, Tree, build_and_install, locked_tree
from perfrunner.errors import BuildError

if TYPE_CHECKING:
    from perfrunner.spec.variant import Variant

BUILD_TYPE = "RelWithDebInfo"


def build_variant(
    variant: Variant,
    source_dir: Path,
    cache_dir: Path,
    progress: Progress | None = None,
    programs: Sequence[str] = (),
) -> Artifact:
    """Build (or find in the cache) the artifact of a variant. `progress` gets a line at a time. BuildError.

    `programs`: an artifact that has no others; empty: all. It is a build of its own, which costs less.
    """
    source_dir = source_dir.resolve()
    return build(request_of(variant, source_dir, programs), source_dir, cache_dir, progress)


def request_of(variant: Variant, source_dir: Path, programs: Sequence[str] = ()) -> BuildRequest:
    """What building the variant from this source asks for. BuildError when there is no engine source."""
    # Imported late: a build host runs this module, and has no pydantic.
    from perfrunner.spec.allocator import SYSTEM
    from perfrunner.spec.switches import cmake_setting

    options = dict(cmake_setting(name, value) for name, value in variant.options.items())
    allocator = variant.allocator.name
    return BuildRequest(
        options=options,
        allocator=allocator,
        with_cargo=allocator != SYSTEM,
        source=source_hash(source_dir),
        pin=allocator_hash(source_dir, allocator),
        programs=tuple(sorted(set(programs))),
    )


def build(
    request: BuildRequest, source_dir: Path, cache_dir: Path, progress: Progress | None = None
) -> Artifact:
    """As build_variant, of what is asked for in plain values."""
    began = time.monotonic()
    tell = progress or silent
    env = build_environment()
    plan = _plan(request, source_dir, env)
    recipe = _recipe(plan, request)
    cache_dir = cache_dir.expanduser().absolute()
    own_cache(cache_dir)
    try:
        identity = _found(cache_dir, recipe, tell)
        cached = identity is not None
        if identity is None:
            with locked_tree(cache_dir, plan, tell) as tree:
                identity = _found(cache_dir, recipe, tell)  # another build may have made it
                cached = identity is not None
                if identity is None:
                    identity = _build(plan, request, recipe, tree, cache_dir, env, tell)
        path = _artifact(cache_dir, identity)
        note_use(path)
        provenance = read_provenance(path)
    except OSError as error:
        raise BuildError(
            f"{error.filename or cache_dir}: {error.strerror}", space_hint(error)
        ) from error
    return Artifact(identity, path, provenance, cached, time.monotonic() - began)


def is_built(
    variant: Variant, source_dir: Path, cache_dir: Path, programs: Sequence[str] = ()
) -> bool:
    """Whether the cache holds a variant's artifact. Changes nothing; BuildError without a toolchain."""
    return find(request_of(variant, source_dir.resolve(), programs), cache_dir) is not None


def find(request: BuildRequest, cache_dir: Path, progress: Progress | None = None) -> str | None:
    """The build id, when the cache holds the artifact. Changes nothing; BuildError without a toolchain."""
    plan = _plan(request, Path(), build_environment())
    recipe = _recipe(plan, request)
    return _found(cache_dir.expanduser().absolute(), recipe, progress or silent)


def _artifact(cache_dir: Path, identity: str) -> Path:
    return cache_dir / "artifacts" / identity


def _plan(request: BuildRequest, source_dir: Path, env: dict[str, str]) -> BuildPlan:
    name = request.allocator
    cargo = require_cargo(name, env) if request.with_cargo else ""
    return BuildPlan(
        source_dir, request.options, name, BUILD_TYPE, find_toolchain(env), cargo, request.programs
    )


def _recipe(plan: BuildPlan, request: BuildRequest) -> str:
    return recipe_id(
        source=request.source,
        options=plan.options,
        allocator=plan.allocator,
        pin=_allocator_inputs(plan, request),
        compiler=plan.toolchain.identity,
        build_type=plan.build_type,
        programs=plan.programs,
    )


def _allocator_inputs(plan: BuildPlan, request: BuildRequest) -> str:
    """All that an allocator's own build depends on; empty for the system's."""
    return allocator_key(request.pin, f"{plan.toolchain.identity}, {plan.cargo}")


def _found(cache_dir: Path, recipe: str, tell: Progress) -> str | None:
    """The build id, when the cache has the artifact of this recipe and of the system's files as they are now."""
    files = known_inputs(cache_dir, recipe)
    if files is None:
        return None
    identity = build_id(recipe, input_sums(files))
    return identity if _usable(cache_dir, _artifact(cache_dir, identity), identity, tell) else None


def _usable(cache_dir: Path, path: Path, identity: str, tell: Progress) -> bool:
    if not usable(path, identity, tell):
        return False
    if not has_links(cache_dir, identity):
        tell(f"what linking the cached artifact {identity} again takes is gone: building it again")
        return False
    return True


def _programs(directory: Path, wanted: Sequence[str]) -> list[Path]:
    """Those of the artifact; a source that does not know KV_PROGRAMS has made all. BuildError where one is missing."""
    made = sorted(directory.iterdir())
    missing = sorted(set(wanted) - {path.name for path in made})
    if missing:
        raise BuildError(
            f"this engine has no program {', '.join(missing)}",
            "leave out the workloads that run it (--workloads), or name a revision that has it",
        )
    for path in made:
        if wanted and path.name not in wanted:
            path.unlink()
    return [path for path in made if not wanted or path.name in wanted]


def _build(
    plan: BuildPlan,
    request: BuildRequest,
    recipe: str,
    tree: Tree,
    cache_dir: Path,
    env: dict[str, str],
    tell: Progress,
) -> str:
    """The build id, which is known only afterwards: it names what the build read."""
    log_path = cache_dir / "logs" / f"{recipe}.log"
    artifacts = cache_dir / "artifacts"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    artifacts.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{recipe}.", dir=artifacts))
    tree.source.mkdir(parents=True, exist_ok=True)
    if changed := changed_since(tree.inputs):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        tell(f"{changed[0]}{more} changed since the last build: all is compiled again")
        shutil.rmtree(tree.build)
        tree.inputs.unlink()
    try:
        mirror(plan.source_dir, tree.source)
        if source_hash(tree.source) != request.source:
            raise BuildError(f"{plan.source_dir} changed while it was copied", hint="start again")
        with log_path.open("w", encoding="utf-8") as log:
            seconds = build_and_install(
                tree,
                staging,
                plan,
                allocator_cache=cache_dir
                / "allocators"
                / (_allocator_inputs(plan, request) or plan.allocator),
                log=log,
                env=env,
                progress=tell,
            )
        programs = _programs(staging / "bin", plan.programs)
        files = find_inputs(
            tree.build, programs, (cache_dir, tree.build), plan.toolchain.ninja, env
        )
        keep_sums(tree.inputs, files)
        sums = input_sums(files)
        identity = build_id(recipe, sums)
        bundled = bundle_libraries(staging, env)
        document = describe(
            plan,
            build_id=identity,
            recipe=recipe,
            source={
                "sha256": request.source,
                **(request.origin or origin_of(plan.source_dir, env)),
            },
            tree=tree.build,
            libraries=bundled,
            linked=libraries(sums, env),
            seconds=seconds,
        )
        (staging / PROVENANCE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        keep_links(
            cache_dir,
            identity,
            tree.build,
            (program.name for program in programs),
            ninja=plan.toolchain.ninja,
            env=env,
        )
        staging.chmod(0o755)
        write_manifest(staging, identity)
        move_into_place(staging, _artifact(cache_dir, identity), identity)
        keep_inputs(cache_dir, recipe, files)
        return identity
    finally:
        shutil.rmtree(staging, ignore_errors=True)
