"""Resolve the sources of a spec's variants to copies in the build cache, once per experiment.

A resumed run restores the same sources from the experiment's record.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perfrunner.build.cache import own_cache
from perfrunner.build.identity import content_hash, is_source
from perfrunner.build.tree import Snapshot, find_snapshot, take_snapshot
from perfrunner.errors import BuildError, UsageError
from perfrunner.paths import engine_in, is_engine_source, with_home
from perfrunner.sources.git import Commit, Repository, changes
from perfrunner.sources.model import (
    IN_USE,
    MOST_LINES,
    Distance,
    ResolvedSource,
    as_record,
    check_interface,
    check_tools,
    distance_of,
    interface_of,
    source_of,
)
from perfrunner.sources.run_git import GitError, NoGit
from perfrunner.sources.switches import check_switches
from perfrunner.spec.model import Spec
from perfrunner.spec.source import SourceSpec
from perfrunner.text import all_readable


@dataclass(frozen=True)
class Sources:
    """The resolved sources of an experiment.

    `of` has the source of each variant that is the engine. `tools` is the source of the load generators and samplers:
    the engine source in use. `snapshots` are the copies, by content. `distances` are from the baseline's source to each
    variant with another source. `servers` has the commit of each other server that is built from a repository.
    """

    of: Mapping[str, ResolvedSource]
    tools: ResolvedSource
    snapshots: Mapping[str, Snapshot]
    distances: Mapping[str, Distance] = field(default_factory=dict)
    servers: Mapping[str, Commit] = field(default_factory=dict)

    def path(self, variant: str) -> Path:
        """Return the copy that the variant is built from."""
        return self.snapshots[self.of[variant].sha256].path

    @property
    def tools_path(self) -> Path:
        """The copy that the tools are built from."""
        return self.snapshots[self.tools.sha256].path

    @property
    def foreign(self) -> bool:
        """Whether no variant is the engine in use, or one is another, so that the tools need a separate build."""
        return not self.of or any(source.sha256 != self.tools.sha256 for source in self.of.values())

    def record(self) -> dict[str, Any]:
        """Return the sources as plain values, for the experiment's facts."""
        commits = {name: asdict(commit) for name, commit in self.servers.items()}
        servers = {"servers": commits} if commits else {}
        record: dict[str, Any] = all_readable(
            {
                **servers,
                "variants": {name: as_record(source) for name, source in self.of.items()},
                "tools": as_record(self.tools),
                "distances": {name: as_record(gap) for name, gap in self.distances.items()},
            }
        )
        return record


def resolve_sources(spec: Spec, engine_src: Path, cache_dir: Path) -> Sources:
    """Copy the source of every variant and of the tools into the build cache.

    Raises UsageError, which names the variant and the problem with its source, before anything is started.
    """
    cache_dir = with_home(cache_dir).absolute()
    own_cache(cache_dir)
    snapshots: dict[str, Snapshot] = {}
    known: dict[SourceSpec | None, ResolvedSource] = {}

    def resolved(source: SourceSpec | None) -> ResolvedSource:
        if source not in known:
            known[source], snapshot = _resolve(source, engine_src, cache_dir)
            snapshots[snapshot.sha256] = snapshot
        return known[source]

    try:
        tools = resolved(None)
    except GitError as error:
        raise UsageError(f"git cannot read {engine_src}: {error}") from error
    check_tools(tools)
    variants = {}
    servers = {}
    for name, variant in spec.variants.items():
        try:
            if variant.server is not None:
                if variant.server.git is not None:
                    revision = variant.server.revision or "HEAD"
                    servers[name] = Repository.of_server(variant.server).commit(revision)
                continue
            variants[name] = resolved(variant.source)
            check_switches(variant, snapshots[variants[name].sha256].path)
        except (UsageError, BuildError) as error:
            raise UsageError(
                f"variant {name}: {error.message}", error.hint, of_machine=error.of_machine
            ) from error
        except GitError as error:
            raise UsageError(f"variant {name}: git failed: {error}", of_machine=True) from error
    distances = _distances(variants, spec.baseline, snapshots, engine_src)
    return Sources(variants, tools, snapshots, distances, servers)


def same_variants(spec: Spec, sources: Sources) -> list[str]:
    """Return a warning for each group of variants that name different sources but are the same engine and settings.

    Raises UsageError if all variants are the same, because there is nothing to compare.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for name, variant in spec.variants.items():
        if variant.server is not None:
            continue
        settings = variant.model_dump_json(exclude={"name", "source", "settings_check"})
        alike.setdefault((sources.of[name].sha256, settings), []).append(name)
    warnings = []
    for (content, _), names in alike.items():
        if len({spec.variants[name].source for name in names}) < 2:
            continue  # one source under several names is an intended A/A comparison
        text = f"{' and '.join(names)} are the same engine (content {content[:12]}) with the same settings"
        if len(names) == len(spec.variants):
            raise UsageError(
                f"{text}: there is nothing to compare",
                "to measure the noise of an engine compared with itself, use perfrunner aa",
            )
        warnings.append(f"{text}: comparing them is an A/A comparison")
    return warnings


def restore_sources(
    record: Mapping[str, Any], engine_src: Path, cache_dir: Path, experiment: str
) -> tuple[Sources, list[str]]:
    """Return the sources of an earlier experiment, and a warning for each that has changed since.

    A copy that is no longer in the build cache is made again, if its source still has the same content. Raises
    UsageError otherwise.
    """
    cache_dir = with_home(cache_dir).absolute()
    own_cache(cache_dir)
    variants = {name: source_of(entry) for name, entry in record["variants"].items()}
    tools = source_of(record["tools"])
    check_tools(tools)
    distances = {name: distance_of(entry) for name, entry in record.get("distances", {}).items()}
    snapshots: dict[str, Snapshot] = {}
    warnings: dict[str, None] = {}
    for source in (*variants.values(), tools):
        now = _content(source, engine_src)
        if now is not None and now != source.sha256:
            warnings[
                f"{source.directory} has changed since {experiment} started: the run continues with the original copy"
            ] = None
        if source.sha256 not in snapshots:
            snapshots[source.sha256] = _restored(source, cache_dir, experiment)
    servers = {name: Commit(**fields) for name, fields in record.get("servers", {}).items()}
    return Sources(variants, tools, snapshots, distances, servers), list(warnings)


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
    resolved = ResolvedSource(
        name=IN_USE if source is None else source.text,
        sha256=snapshot.sha256,
        directory=str(directory.resolve()),
        interface=interface_of(snapshot.path),
        revision=False,
        **_head(directory),
    )
    check_interface(resolved)
    return resolved, snapshot


def _head(directory: Path) -> dict[str, Any]:
    """Return the HEAD commit of a tree's repository and the files that differ from it; empty outside a repository."""
    repository = _keeper(directory)
    if repository is None:
        return {}
    try:
        commit = repository.commit("HEAD")
    except UsageError:
        return {}  # there is none yet
    dirty = tuple(name for name in repository.changed_files() if is_source(name))
    return {"commit": commit.sha, "title": commit.title, "date": commit.date, "dirty": dirty}


def _keeper(directory: Path) -> Repository | None:
    """Return the repository that tracks the engine's files; None for one that merely contains the directory.

    A tree needs no git: it is identified by its content. A repository that git refuses to read is an error.
    """
    try:
        repository = Repository.around(directory)
    except NoGit:
        return None
    if repository is None or not repository.git("ls-files", "--", f"{directory}/CMakeLists.txt"):
        return None
    return repository


def _ignored(directory: Path) -> tuple[str, ...]:
    """Return the ignored files of a tree, so that a clean tree equals its commit despite files of editors and tools."""
    repository = _keeper(directory)
    return () if repository is None else repository.ignored_files()


def _revision(
    source: SourceSpec, engine_src: Path, cache_dir: Path
) -> tuple[ResolvedSource, Snapshot]:
    repository = Repository.around(engine_src)
    if repository is None:
        raise UsageError(
            f"source.git {source.git}: the engine source {engine_src} is not in a git repository",
            "give the engine source of a checkout with --engine-src, or use source.dir",
        )
    assert source.git is not None
    commit = repository.commit(source.git)
    patch = None if source.patch is None else Path(source.patch)
    snapshot = _exported(repository, commit.sha, patch, cache_dir)
    resolved = ResolvedSource(
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
    check_interface(resolved)
    return resolved, snapshot


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
    """Return the current content hash of a tree; None for a revision, which cannot change, or if the tree is gone."""
    if source.revision:
        return None
    directory = engine_src if source.name == IN_USE else Path(source.directory)
    try:
        return content_hash(directory, _ignored(directory))
    except (BuildError, UsageError, GitError):
        return None


def _restored(source: ResolvedSource, cache_dir: Path, experiment: str) -> Snapshot:
    snapshot = find_snapshot(cache_dir, source.sha256)
    if snapshot is None:
        snapshot = _taken_again(source, cache_dir)
    if snapshot is None or snapshot.sha256 != source.sha256:
        raise UsageError(
            f"{experiment} was started with {source.text}: its copy is no longer in the build cache,"
            f" and {source.directory} no longer has that content",
            "restore the source, or run without --resume to start a new experiment",
        )
    return snapshot


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
        return None  # the caller reports it, with the source that is missing


def _distances(
    variants: Mapping[str, ResolvedSource],
    baseline: str,
    snapshots: Mapping[str, Snapshot],
    engine_src: Path,
) -> dict[str, Distance]:
    base = variants.get(baseline)
    if base is None:
        return {}
    return {
        name: _distance(base, source, snapshots, engine_src)
        for name, source in variants.items()
        if source != base
    }


def _distance(
    base: ResolvedSource,
    other: ResolvedSource,
    snapshots: Mapping[str, Snapshot],
    engine_src: Path,
) -> Distance:
    ahead = behind = None
    shallow = False
    log: tuple[str, ...] = ()
    if base.commit is not None and other.commit is not None:
        try:
            repository = Repository.around(engine_src)
            shallow = repository is not None and repository.shallow
            if repository is not None and not shallow:
                ahead, log = repository.log(base.commit, other.commit, MOST_LINES)
                behind, _ = repository.log(other.commit, base.commit, 1)
        except (GitError, UsageError):
            ahead = behind = None  # commits of different repositories cannot be counted
    changed = (
        changes(snapshots[base.sha256].path, snapshots[other.sha256].path)
        if base.sha256 != other.sha256
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
