"""Build the artifact of a variant, or find it in the build cache (see cache.py).

A build is compiled, bundled with its libraries, listed in a manifest and renamed into the cache. An artifact appears
there complete or not at all, and only after everything that linking it again needs is stored (see ninja.py).

A build host runs this module too (worker.py), so that it and what it imports need only Python's standard library.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.build.artifact import (
    PROVENANCE,
    Artifact,
    bundle_libraries,
    origin_of,
    provenance_of,
    read_provenance,
    write_manifest,
)
from perfrunner.build.cache import move_into_place, note_use, own_cache, space_hint, usable
from perfrunner.build.identity import (
    allocator_hash,
    allocator_key,
    build_id,
    recipe_id,
    source_hash,
)
from perfrunner.build.ninja import (
    changed_since,
    find_inputs,
    has_links,
    input_sums,
    keep_inputs,
    keep_links,
    keep_sums,
    known_inputs,
    libraries,
)
from perfrunner.build.tools import (
    Progress,
    build_environment,
    find_toolchain,
    require_cargo,
    silent,
)
from perfrunner.build.tree import (
    BuildPlan,
    Tree,
    build_and_install,
    locked_tree,
    mirror,
    parallelism,
)
from perfrunner.errors import BuildError
from perfrunner.paths import with_home

if TYPE_CHECKING:
    from perfrunner.spec.variant import Variant

BUILD_TYPE = "RelWithDebInfo"


@dataclass(frozen=True)
class BuildRequest:
    """A request to build an artifact: all that determines its recipe, as plain values for a build host.

    `options` are CMake variables without the allocator; `source` and `pin` are digests of identity.py.
    `programs` selects programs (empty: all). `with_cargo`: the allocator is built with cargo. `origin` says
    where the source was copied from, for the provenance, if it is not the directory that is built.
    """

    options: Mapping[str, str]
    allocator: str
    with_cargo: bool
    source: str
    pin: str
    origin: Mapping[str, Any] = field(default_factory=dict)
    programs: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the request as values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> BuildRequest:
        """Read a request. Raises TypeError for another document."""
        return cls(**{**document, "programs": tuple(document.get("programs", ()))})


def build_variant(
    variant: Variant,
    source_dir: Path,
    cache_dir: Path,
    progress: Progress | None = None,
    programs: Sequence[str] = (),
) -> Artifact:
    """Build the artifact of a variant, or find it in the cache. Raises BuildError.

    `progress` receives the output of the build line by line. `programs`: build an artifact with these programs only
    (default: all). Such an artifact is a separate, cheaper build.
    """
    source_dir = source_dir.resolve()
    # Imported late: a build host runs this module without perfrunner.hosts.
    from perfrunner.hosts.facts import compile_jobs, facts_here

    request = request_of(variant, source_dir, programs)
    return build(request, source_dir, cache_dir, progress, lambda: compile_jobs(facts_here()))


def request_of(variant: Variant, source_dir: Path, programs: Sequence[str] = ()) -> BuildRequest:
    """Return the request to build the variant from this source. Raises BuildError when there is no engine source."""
    # Imported late: a build host runs this module and has no pydantic.
    from perfrunner.spec.allocator import is_crate
    from perfrunner.spec.switches import cmake_setting

    options = dict(cmake_setting(name, value) for name, value in variant.options.items())
    allocator = variant.allocator.name
    return BuildRequest(
        options=options,
        allocator=allocator,
        with_cargo=is_crate(allocator),
        source=source_hash(source_dir),
        pin=allocator_hash(source_dir, allocator),
        programs=tuple(sorted(set(programs))),
    )


def build(
    request: BuildRequest,
    source_dir: Path,
    cache_dir: Path,
    progress: Progress | None,
    most_jobs: Callable[[], int],
) -> Artifact:
    """Build the artifact of a request, or find it in the cache, as build_variant does for a variant.

    `most_jobs` returns how many compilers may run at the same time; it is called before they start.
    """
    began = time.monotonic()
    tell = progress or silent
    env = build_environment()
    plan = _plan(request, source_dir, env)
    recipe = _recipe(plan, request)
    cache_dir = with_home(cache_dir).absolute()
    own_cache(cache_dir)
    try:
        identity = _cached(cache_dir, recipe, tell)
        cached = identity is not None
        if identity is None:
            with locked_tree(cache_dir, plan, tell) as tree:
                identity = _cached(cache_dir, recipe, tell)  # another build may have made it
                cached = identity is not None
                if identity is None:
                    plan = replace(plan, jobs=min(parallelism(), most_jobs()))
                    identity = _build(plan, request, recipe, tree, cache_dir, env, tell)
        path = _artifact(cache_dir, identity)
        note_use(path)
        provenance = read_provenance(path)
    except OSError as error:
        raise BuildError(
            f"{error.filename or cache_dir}: {error.strerror}", space_hint(error), of_machine=True
        ) from error
    return Artifact(identity, path, provenance, cached, time.monotonic() - began)


def is_built(
    variant: Variant, source_dir: Path, cache_dir: Path, programs: Sequence[str] = ()
) -> bool:
    """Tell whether the cache holds a variant's artifact. Changes nothing. Raises BuildError without a toolchain."""
    return find(request_of(variant, source_dir.resolve(), programs), cache_dir) is not None


def find(request: BuildRequest, cache_dir: Path, progress: Progress | None = None) -> str | None:
    """Return the build id if the cache holds the artifact. Changes nothing. Raises BuildError without a toolchain."""
    plan = _plan(request, Path(), build_environment())
    recipe = _recipe(plan, request)
    return _cached(with_home(cache_dir).absolute(), recipe, progress or silent)


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
    """Return a hash of everything that the allocator's build depends on; empty for the system's allocator."""
    return allocator_key(request.pin, f"{plan.toolchain.identity}, {plan.cargo}")


def _cached(cache_dir: Path, recipe: str, tell: Progress) -> str | None:
    """Return the build id if the cache has the artifact of this recipe and of the current system files."""
    files = known_inputs(cache_dir, recipe)
    if files is None:
        return None
    identity = build_id(recipe, input_sums(files))
    return identity if _usable(cache_dir, _artifact(cache_dir, identity), identity, tell) else None


def _usable(cache_dir: Path, path: Path, identity: str, tell: Progress) -> bool:
    if not usable(path, identity, tell):
        return False
    if not has_links(cache_dir, identity):
        tell(
            f"the objects for relinking the cached artifact {identity} are gone: building it again"
        )
        return False
    return True


def _programs(directory: Path, wanted: Sequence[str]) -> list[Path]:
    """Return the programs of the artifact, and remove others. Raises BuildError when one is missing.

    A source that does not know KV_PROGRAMS builds all programs.
    """
    made = sorted(directory.iterdir())
    missing = sorted(set(wanted) - {path.name for path in made})
    if missing:
        raise BuildError(
            f"this engine does not build the program {', '.join(missing)}",
            "select other workloads with --workloads, or a revision that has the program",
        )
    for path in made:
        if wanted and path.name not in wanted:
            path.unlink()
    return [path for path in made if not wanted or path.name in wanted]


def _renew(tree: Tree, plan: BuildPlan, request: BuildRequest, tell: Progress) -> None:
    """Copy the source into the tree, and remove what was built with system files that have changed since."""
    if changed := changed_since(tree.inputs):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        tell(f"{changed[0]}{more} changed since the last build: recompiling everything")
        shutil.rmtree(tree.build)
        tree.inputs.unlink()
    tree.source.mkdir(parents=True, exist_ok=True)
    mirror(plan.source_dir, tree.source)
    if source_hash(tree.source) != request.source:
        raise BuildError(
            f"{plan.source_dir} changed while it was copied", hint="run the command again"
        )


def _build(
    plan: BuildPlan,
    request: BuildRequest,
    recipe: str,
    tree: Tree,
    cache_dir: Path,
    env: dict[str, str],
    tell: Progress,
) -> str:
    """Build the artifact and return its build id, which depends on the files that the build has read."""
    allocator = _allocator_inputs(plan, request) or plan.allocator
    log_path = cache_dir / "logs" / f"{recipe}.log"
    artifacts = cache_dir / "artifacts"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    artifacts.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{recipe}.", dir=artifacts))
    try:
        _renew(tree, plan, request, tell)
        with log_path.open("w", encoding="utf-8", errors="surrogateescape") as log:
            seconds = build_and_install(
                tree,
                staging,
                plan,
                allocator_cache=cache_dir / "allocators" / allocator,
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
        origin = request.origin or origin_of(plan.source_dir, env)
        document = provenance_of(
            plan,
            build_id=identity,
            recipe=recipe,
            source={"sha256": request.source, **origin},
            tree=tree.build,
            libraries=bundle_libraries(staging, env),
            linked=libraries(sums, env),
        )
        document["seconds"] = dict(seconds)
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
