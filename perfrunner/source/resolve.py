"""From what a spec says of sources to copies by content, once for an experiment; again for a resumed one."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfrunner.build.cache import own_cache
from perfrunner.build.identity import content_hash, is_source
from perfrunner.build.snapshot import Snapshot, find_snapshot, take_snapshot
from perfrunner.errors import BuildError, UsageError
from perfrunner.source.git import GitError, Repository, changes
from perfrunner.source.interface import check_interface, check_tools, interface_of
from perfrunner.source.model import (
    IN_USE,
    MOST_LINES,
    Distance,
    ResolvedSource,
    as_record,
    distance_of,
    source_of,
)
from perfrunner.source.switches import check_switches
from perfrunner.spec.engine_tree import engine_in, is_engine_source
from perfrunner.spec.model import Spec
from perfrunner.spec.source import SourceSpec


@dataclass(frozen=True)
class Sources:
    """Every arm's source, and that of the tools (load generators, samplers): the engine source in use.

    `snapshots` are by content. `distances` go from the baseline's source, to the arms whose content is another.
    """

    of: Mapping[str, ResolvedSource]
    tools: ResolvedSource
    snapshots: Mapping[str, Snapshot]
    distances: Mapping[str, Distance] = field(default_factory=dict)

    def path(self, variant: str) -> Path:
        """The copy that the arm is built from."""
        return self.snapshots[self.of[variant].sha256].path

    @property
    def tools_path(self) -> Path:
        """The copy that the tools are built from."""
        return self.snapshots[self.tools.sha256].path

    @property
    def foreign(self) -> bool:
        """Whether an arm is another engine than the one in use: then the tools are a build of their own."""
        return any(one.sha256 != self.tools.sha256 for one in self.of.values())

    def record(self) -> dict[str, Any]:
        """As facts of the experiment."""
        return {
            "arms": {name: as_record(source) for name, source in self.of.items()},
            "tools": as_record(self.tools),
            "distances": {name: as_record(one) for name, one in self.distances.items()},
        }


def resolve_sources(spec: Spec, engine_src: Path, cache_dir: Path) -> Sources:
    """UsageError names the variant and what is wrong with its source; nothing was started then."""
    cache_dir = cache_dir.expanduser().absolute()
    own_cache(cache_dir)
    snapshots: dict[str, Snapshot] = {}
    found: dict[SourceSpec | None, ResolvedSource] = {}

    def resolved(source: SourceSpec | None) -> ResolvedSource:
        if source not in found:
            one, snapshot = _resolve(source, engine_src, cache_dir)
            found[source] = one
            snapshots[one.sha256] = snapshot
        return found[source]

    tools = resolved(None)
    check_tools(tools)
    arms = {}
    for name, variant in spec.variants.items():
        try:
            arms[name] = resolved(variant.source)
            check_switches(variant, snapshots[arms[name].sha256].path)
        except (UsageError, BuildError) as error:
            raise UsageError(f"variant {name}: {error.message}", error.hint) from error
        except GitError as error:
            raise UsageError(f"variant {name}: git failed: {error}") from error
    distances = _distances(arms, spec.baseline, snapshots, engine_src)
    return Sources(arms, tools, snapshots, distances)


def same_arms(spec: Spec, sources: Sources) -> list[str]:
    """What to say of arms whose sources are written differently and are one engine with the same settings.

    UsageError when no arm is another engine or has other settings than the baseline: there is nothing to compare.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for name, variant in spec.variants.items():
        settings = variant.model_dump_json(exclude={"name", "source", "proof"})
        alike.setdefault((sources.of[name].sha256, settings), []).append(name)
    said = []
    for (content, _), names in alike.items():
        if len({spec.variants[name].source for name in names}) < 2:
            continue  # one source under several names: somebody wants an A/A
        text = f"{' and '.join(names)} are the same engine (content {content[:12]}) with the same settings"
        if len(names) == len(spec.variants):
            raise UsageError(
                f"{text}: there is nothing to compare",
                "perfrunner aa compares an engine with itself, to learn how much noise there is",
            )
        said.append(f"{text}: between them this is an A/A")
    return said


def restore_sources(
    record: Mapping[str, Any], engine_src: Path, cache_dir: Path, experiment: str
) -> tuple[Sources, list[str]]:
    """The sources with which an experiment was begun, and what is to be said of those that changed since.

    What the build cache lost is made again where it can be, and only from the same content. UsageError where not.
    """
    cache_dir = cache_dir.expanduser().absolute()
    own_cache(cache_dir)
    arms = {name: source_of(one) for name, one in record["arms"].items()}
    tools = source_of(record["tools"])
    check_tools(tools)
    distances = {name: distance_of(one) for name, one in record.get("distances", {}).items()}
    snapshots: dict[str, Snapshot] = {}
    said: dict[str, None] = {}
    for source in (*arms.values(), tools):
        now = _content(source, engine_src)
        if now is not None and now != source.sha256:
            said[
                f"{source.directory} has changed since {experiment} was begun: it goes on with the copy of then"
            ] = None
        if source.sha256 not in snapshots:
            snapshots[source.sha256] = _restored(source, cache_dir, experiment)
    return Sources(arms, tools, snapshots, distances), list(said)


def _resolve(
    source: SourceSpec | None, engine_src: Path, cache_dir: Path
) -> tuple[ResolvedSource, Snapshot]:
    if source is not None and source.git is not None:
        return _revision(source, engine_src, cache_dir)
    try:
        directory = engine_src if source is None else engine_in(Path(str(source.dir)))
    except ValueError as error:
        raise UsageError(str(error)) from None
    snapshot = take_snapshot(directory, cache_dir, _ignored(directory))
    one = ResolvedSource(
        name=IN_USE if source is None else source.text,
        sha256=snapshot.sha256,
        directory=str(directory.resolve()),
        interface=interface_of(snapshot.path),
        revision=False,
        **_head(directory),
    )
    check_interface(one)
    return one, snapshot


def _head(directory: Path) -> dict[str, Any]:
    """The commit that a tree stands on, and the files in which it differs; empty outside a repository."""
    try:
        repository = _keeper(directory)
        if repository is None:
            return {}
        commit = repository.commit("HEAD")
    except (UsageError, GitError):
        return {}  # a tree needs no git: it is named by its content
    dirty = tuple(name for name in repository.changed_files() if is_source(name))
    return {"commit": commit.sha, "title": commit.title, "date": commit.date, "dirty": dirty}


def _keeper(directory: Path) -> Repository | None:
    """The repository that has the engine's tree in it; one in which it only lies does not count."""
    repository = Repository.around(directory)
    if repository is None or not repository.git("ls-files", "--", f"{directory}/CMakeLists.txt"):
        return None
    return repository


def _ignored(directory: Path) -> tuple[str, ...]:
    """What of a tree its repository ignores: a clean tree is its commit, whatever editors and tools leave in it."""
    try:
        repository = _keeper(directory)
        return () if repository is None else repository.ignored_files()
    except (UsageError, GitError):
        return ()


def _revision(
    source: SourceSpec, engine_src: Path, cache_dir: Path
) -> tuple[ResolvedSource, Snapshot]:
    repository = Repository.around(engine_src)
    if repository is None:
        raise UsageError(
            f"source.git {source.git}: the engine source {engine_src} is in no git repository",
            "name a checkout's with --engine-src, or use source.dir",
        )
    assert source.git is not None
    commit = repository.commit(source.git)
    patch = None if source.patch is None else Path(source.patch)
    snapshot = _exported(repository, commit.sha, patch, cache_dir)
    one = ResolvedSource(
        name=source.text,
        sha256=snapshot.sha256,
        directory=str(repository.top / repository.prefix),
        interface=interface_of(snapshot.path),
        revision=True,
        commit=commit.sha,
        title=commit.title,
        date=commit.date,
        patch=source.patch,
        patch_sha256=None if patch is None else hashlib.sha256(patch.read_bytes()).hexdigest(),
    )
    check_interface(one)
    return one, snapshot


def _exported(repository: Repository, sha: str, patch: Path | None, cache_dir: Path) -> Snapshot:
    (cache_dir / "sources").mkdir(exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".export.", dir=cache_dir / "sources"))
    try:
        engine = repository.export(sha, staging, patch)
        if not is_engine_source(engine):
            where = repository.prefix or "its top directory"
            raise UsageError(
                f"{sha[:12]} of {repository.top} has no engine source in {where} (CMakeLists.txt and options/)"
            )
        return take_snapshot(engine, cache_dir)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _content(source: ResolvedSource, engine_src: Path) -> str | None:
    """What a tree holds today; None for a revision, which does not change, and where there is nothing any more."""
    if source.revision:
        return None
    directory = engine_src if source.name == IN_USE else Path(source.directory)
    try:
        return content_hash(directory, _ignored(directory))
    except BuildError:
        return None


def _restored(source: ResolvedSource, cache_dir: Path, experiment: str) -> Snapshot:
    found = find_snapshot(cache_dir, source.sha256)
    if found is None:
        found = _taken_again(source, cache_dir)
    if found is None or found.sha256 != source.sha256:
        raise UsageError(
            f"{experiment} was begun with {source.text}: the build cache has lost its copy,"
            f" and {source.directory} does not give that content any more",
            "put the source back as it was, or run without --resume to begin anew",
        )
    return found


def _taken_again(source: ResolvedSource, cache_dir: Path) -> Snapshot | None:
    directory = Path(source.directory)
    make: Callable[[], Snapshot | None]
    if source.revision and source.commit is not None:
        commit = source.commit
        patch = None if source.patch is None else Path(source.patch)

        def make() -> Snapshot | None:
            repository = Repository.around(directory)
            return None if repository is None else _exported(repository, commit, patch, cache_dir)
    else:

        def make() -> Snapshot | None:
            return take_snapshot(directory, cache_dir, _ignored(directory))

    try:
        return make()
    except (UsageError, BuildError, GitError):
        return None  # said by the caller, with what was to be found


def _distances(
    arms: Mapping[str, ResolvedSource],
    baseline: str,
    snapshots: Mapping[str, Snapshot],
    engine_src: Path,
) -> dict[str, Distance]:
    base = arms[baseline]
    return {
        name: _distance(base, one, snapshots, engine_src)
        for name, one in arms.items()
        if one != base
    }


def _distance(
    base: ResolvedSource,
    one: ResolvedSource,
    snapshots: Mapping[str, Snapshot],
    engine_src: Path,
) -> Distance:
    ahead = behind = None
    shallow = False
    log: tuple[str, ...] = ()
    if base.commit is not None and one.commit is not None:
        try:
            repository = Repository.around(engine_src)
            shallow = repository is not None and repository.shallow
            if repository is not None and not shallow:
                ahead, log = repository.log(base.commit, one.commit, MOST_LINES)
                behind, _ = repository.log(one.commit, base.commit, 1)
        except (GitError, UsageError):
            ahead = behind = None  # two repositories: no commits between them
    changed = (
        changes(snapshots[base.sha256].path, snapshots[one.sha256].path)
        if base.sha256 != one.sha256
        else []
    )
    return Distance(
        ahead=ahead,
        behind=behind,
        log=log,
        files=len(changed),
        added=sum(added for _, added, _ in changed),
        removed=sum(removed for _, _, removed in changed),
        changed=tuple(changed[:MOST_LINES]),
        shallow=shallow,
    )
