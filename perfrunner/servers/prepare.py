"""Make a variant's server ready to start: check out and build it, find its program and its preloaded library.

A revision is built once: its checkout is kept in the build cache under `servers/`, by repository, commit, commands and
compilers. On a cluster over SSH, placing.py brings the server to its host afterwards.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from perfrunner.build.builder import build_variant
from perfrunner.build.cache import locked
from perfrunner.build.tools import (
    Progress,
    build_environment,
    compiler_versions,
    run_logged,
    silent,
)
from perfrunner.errors import BuildError, UsageError
from perfrunner.hosts.container import Image, find_image
from perfrunner.hosts.local import LocalTransport
from perfrunner.paths import absolute_variable, absolute_word, real_path, sha256_of, with_home
from perfrunner.servers.checks import (
    HERE,
    find_program,
    kind_of,
    preload_problem,
    program_problem,
)
from perfrunner.servers.preload import find_library
from perfrunner.sources.git import AS_STORED, UNSHALLOW, Commit, Repository
from perfrunner.sources.run_git import caller_settings
from perfrunner.spec.allocator import PRELOAD, AllocatorSpec, is_crate
from perfrunner.spec.server import ServerSpec, lost_libraries
from perfrunner.spec.variant import Variant

# The program in the artifact of an allocator that is built for LD_PRELOAD (engine_src/allocators/CMakeLists.txt).
_LIBRARY = "preloaded_allocator"


@dataclass(frozen=True)
class PreparedServer:
    """A server that can be started on this machine, or that placing.py brings to a host.

    `content` names the program and its preloaded library, or the image. `launched` is the program that a launcher such
    as `taskset` becomes. Until it is placed, a host's own program has no directory, a host's own library is not in
    `library`, and an image is not looked up.
    """

    program: Path
    arguments: tuple[str, ...]  # with {port} and {dir}
    kind: str
    env: Mapping[str, str]
    library: Path | None
    content: str
    cached: bool
    provenance: Mapping[str, Any]
    seconds: float  # that this call took
    image: Image | None = None
    sent: Path | None = None  # the directory on a host over SSH that has what was sent there
    launched: Path | None = None
    serves: Path | None = None  # what a wrapper script became, once that is known
    checkout: Path | None = None  # where its relative paths begin, until it is placed

    @property
    def path(self) -> Path:
        return self.program

    @property
    def directory(self) -> Path:
        """The files that were sent to a host, or the directory of the program."""
        return self.sent or self.program.parent

    @property
    def build_id(self) -> str:
        return f"{(self.serves or self.launched or self.program).name}-{self.content[:16]}"

    def served_by(self, program: str, sha256: str, command_line: Sequence[str]) -> PreparedServer:
        """Return the server with the program that was found to serve: a wrapper script becomes another one.

        A script that serves is in the command line of its interpreter, and stays what the build is named by. Raises
        BuildError if the program is no longer the one that was prepared.
        """
        described = dict(self.provenance["server"])
        if sha256 in (described["sha256"], described.get("launched_sha256")):
            return self
        ours = [path for path in (self.program, self.launched) if path is not None]
        if program in [str(name) for path in ours for name in (path, real_path(path))]:
            raise BuildError(
                f"{program} has changed since it was prepared",
                "start a new run; install each variant's program to a place of its own",
            )
        described |= {"serves": program, "serves_sha256": sha256}
        named = {*map(str, ours)} & {*command_line}
        return replace(
            self,
            serves=None if named else Path(program),
            content=content_of(described),
            provenance={"server": described},
        )


def prepare(
    variant: Variant,
    cache_dir: Path,
    engine_src: Path,
    commit: str | None = None,
    progress: Progress = silent,
    *,
    remote: bool = False,
) -> PreparedServer:
    """Prepare the server of a variant. Raises BuildError or UsageError.

    `engine_src` has the pins of the allocators that are built here. `commit` is what its revision named when the
    experiment began; None: what it names now. `remote`: for a host over SSH, which has programs and libraries of
    its own.
    """
    began = time.monotonic()
    server = variant.server
    if server is None:
        raise ValueError(f"variant {variant.name} has no server")
    if server.image is not None:
        image = None if remote else find_image(server.image, LocalTransport(HERE))
        return in_image(variant, image)
    checkout = None
    if server.git is not None:
        checkout = check_out(server, commit, cache_dir, progress)
    find = partial(_program, checkout=checkout, remote=remote, name=variant.name)
    program, digest = find(server.command[0])
    described = {"command": list(server.command), "program": str(program), "sha256": digest}
    arguments, launched = server.command[1:], None
    if (at := server.launched) is not None:
        launched, digest = find(server.command[at])
        arguments = (*server.command[1:at], str(launched), *server.command[at + 1 :])
        described |= {"launched": str(launched), "launched_sha256": digest}
    serving, env = launched or program, dict(variant.env)
    if checkout is not None:
        described |= _built_from(checkout)
        words, values = _in_checkout(arguments, env, checkout.tree)
        _check_names_checkout((str(program), *words, *values.values()), checkout.tree)
        if not remote:  # else placing.py has them on the host
            arguments, env = words, values
    _check_preload(variant, server, serving)
    library = _library(variant, engine_src, cache_dir, progress, remote=remote)
    described |= {
        "preload": variant.allocator.preload,
        "library": None if library is None else str(library),
        "library_sha256": None if library is None else _sha256_of(library),
    }
    return PreparedServer(
        program=program,
        arguments=arguments,
        kind=kind_of(server, serving if serving.is_absolute() else None),
        env={**env, **preloading(variant, library)},
        library=library,
        content=content_of(described),
        cached=checkout is None or checkout.cached,
        provenance={"server": described},
        seconds=time.monotonic() - began,
        launched=launched,
        checkout=None if checkout is None else checkout.tree,
    )


def _program(
    word: str, *, checkout: Checkout | None, remote: bool, name: str
) -> tuple[Path, str | None]:
    """Return a program of variant `name` and its sha256, which is None for a host's own. Raises UsageError."""
    if checkout is not None:
        word = checkout.program(word)
    if remote and "/" not in word:
        return Path(word), None
    path, wrong = find_program(word), program_problem(word, sent=remote)
    if path is None or wrong is not None:
        if checkout is not None:
            raise BuildError(
                f"server.command: after the build, {wrong}",
                "let server.build (ab: --build) make the program, or correct server.command (ab: --run)",
            )
        raise UsageError(f"variant {name}: server.command: {wrong}")
    return path, _sha256_of(path)


def _built_from(checkout: Checkout) -> dict[str, Any]:
    commit = checkout.commit
    described = {"commit": commit.sha, "title": commit.title, "date": commit.date}
    return {**described, "compilers": list(checkout.compilers)}


def _in_checkout(
    arguments: Sequence[str], env: Mapping[str, str], tree: Path
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return arguments and variables with absolute paths of what exists in a checkout. Raises BuildError."""
    words = tuple(absolute_word(word, tree) for word in arguments)
    values = {name: absolute_variable(name, value, tree) for name, value in env.items()}
    for text in (*words, *(f"{name}={value}" for name, value in values.items())):
        if lost := lost_libraries(text):
            raise BuildError(
                f"LD_LIBRARY_PATH: expected directories of the checkout, or absolute paths; got {lost}",
                "let server.build (ab: --build) make the directory, or correct its name",
            )
    return words, values


def _check_names_checkout(texts: Sequence[str], tree: Path) -> None:
    """Raise BuildError if a command and its variables name nothing in a checkout: all revisions would be one."""
    if not any(str(place) in text for place in (tree, real_path(tree)) for text in texts):
        raise BuildError(
            f"server.command: expected a file of the checkout; {texts[0]} is the same program for all revisions",
            "name what server.build (ab: --build) makes in the checkout, such as ./server, and install nothing",
        )


def _check_preload(variant: Variant, server: ServerSpec, serving: Path) -> None:
    """Raise UsageError if a preloaded allocator would have no effect on the program that serves."""
    if variant.allocator.preload is None or not serving.is_absolute():
        return
    if wrong := preload_problem(serving, server):
        raise UsageError(f"variant {variant.name}: allocator.preload: {wrong}")


def _library(
    variant: Variant, engine_src: Path, cache_dir: Path, progress: Progress, *, remote: bool
) -> Path | None:
    """Return the preloaded library, and build it if the engine pins it. Raises BuildError or UsageError.

    None without one, or if it is a host's own.
    """
    preload = variant.allocator.preload
    if preload is None or (remote and not is_crate(preload) and not preload.startswith("/")):
        return None
    if not is_crate(preload):
        return find_library(preload)
    allocator = Variant(name=preload, allocator=AllocatorSpec(name=preload))
    artifact = build_variant(allocator, engine_src, cache_dir, progress, (_LIBRARY,))
    return (artifact.path / "bin" / _LIBRARY).resolve()


def in_image(variant: Variant, image: Image | None, **placed: str) -> PreparedServer:
    """Return a server in an image as it is now: a name may stand for another image tomorrow.

    `placed` describes the host that has it, for the provenance.
    """
    server = variant.server
    assert server is not None
    described = {
        "command": list(server.command),
        "program": server.command[0],
        "image": server.image,
        "digest": None if image is None else image.digest,
        "sha256": None if image is None else image.id,
        "library_sha256": None,
        **placed,
    }
    return PreparedServer(
        program=Path(server.command[0]),
        arguments=server.command[1:],
        kind=server.known_kind,
        env=dict(variant.env),
        library=None,
        content=content_of(described),
        cached=True,
        provenance={"server": described},
        seconds=0.0,
        image=image,
    )


def preloading(variant: Variant, library: Path | None) -> dict[str, str]:
    """Return the variables that preload a library into a variant's server."""
    if library is None:
        return {}
    return {PRELOAD: str(library), **variant.allocator.preload_environment}


def content_of(described: Mapping[str, Any]) -> str:
    """Return the name of the program and library that a provenance describes."""
    behind = [name for name in ("launched_sha256", "serves_sha256") if name in described]
    named = json.dumps([described[name] for name in ("sha256", "library_sha256", *behind)])
    return hashlib.sha256(named.encode()).hexdigest()


def _sha256_of(path: Path) -> str:
    """Return the sha256 of a file. Raises BuildError."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise BuildError(f"{path} cannot be read: {error.strerror}") from error


DIRECTORY = "servers"  # of the build cache
_DONE = ".perfrunner-built"


@dataclass(frozen=True)
class Checkout:
    """A checkout for a server's build. `cached`: the build succeeded there before.

    `compilers` are the versions of the C and C++ compilers that the build uses unless it names others.
    """

    tree: Path
    commit: Commit
    compilers: tuple[str, str]
    cached: bool

    def program(self, word: str) -> str:
        """Return the path of a program that was built; one without a directory may be the machine's own."""
        inside = self.tree / word
        return str(inside) if "/" in word or inside.is_file() else word


def is_built(server: ServerSpec, cache_dir: Path) -> bool:
    """Tell whether a server needs no build, or the cache holds its build. Raises UsageError or BuildError."""
    return server.git is None or _checkout_of(server, None, cache_dir).cached


def commit_of(server: ServerSpec, commit: str | None = None) -> Commit:
    """Return the commit that a server is built from: `commit`, or what its revision names now."""
    return Repository.of_server(server).commit(commit or server.revision or "HEAD")


def _checkout_of(server: ServerSpec, commit: str | None, cache_dir: Path) -> Checkout:
    """Return the checkout in the cache for a server's build, which may still be missing."""
    built_from = commit_of(server, commit)
    env = build_environment()
    place, commands = str(real_path(Path(str(server.git)))), [list(c) for c in server.build]
    compilers = compiler_versions(env)
    described = [place, built_from.sha, commands, env.get("CC"), env.get("CXX"), *compilers]
    key = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:24]
    tree = with_home(cache_dir).absolute() / DIRECTORY / key
    return Checkout(tree, built_from, compilers, cached=(tree / _DONE).is_file())


def check_out(
    server: ServerSpec, commit: str | None, cache_dir: Path, progress: Progress
) -> Checkout:
    """Return a checkout in which the build of a server has succeeded.

    `commit` is what its revision named when the experiment began; None: what it names now. Raises BuildError or
    UsageError.
    """
    checkout = _checkout_of(server, commit, cache_dir)
    if checkout.cached:  # needs no lock, which a daemon that the build has started may still hold
        return checkout
    tree, built_from, env = checkout.tree, checkout.commit, build_environment()
    tree.parent.mkdir(parents=True, exist_ok=True)
    # The steps inherit the lock: if perfrunner is killed, nobody else enters until the last of them has ended.
    with locked(tree.with_suffix(".lock"), progress) as fd:
        if (tree / _DONE).is_file():
            return replace(checkout, cached=True)
        repository = Repository.of_server(server)
        repository.check_content(built_from.sha)
        shutil.rmtree(tree, ignore_errors=True)  # of a build that was cut off
        # The user's hooks and line ends are those of other checkouts.
        git = ["git", *AS_STORED, "-c", "core.hooksPath=/dev/null"]
        git += ["-c", "protocol.file.allow=always"]
        trusting = {**env, **_trust(tree.with_suffix(".gitconfig"))}
        clone = [*git, "clone", "--quiet", "--shared", "--no-checkout"]
        clone += ["--", str(repository.top), str(tree)]
        check_out = [*git, "-C", str(tree), "checkout", "--quiet", "--detach", built_from.sha]
        steps = [("git clone", clone, trusting), ("git checkout", check_out, trusting)]
        steps += [(" ".join(c), ["env", "-C", str(tree), *c], env) for c in server.build]
        with tree.with_suffix(".log").open("w", encoding="utf-8", errors="surrogateescape") as log:
            for title, step, variables in steps:
                try:
                    run_logged(
                        step,
                        what=title,
                        log=log,
                        env=variables,
                        progress=progress,
                        inherited=(fd,),
                    )
                except BuildError as error:
                    error.of_machine |= variables is trusting  # a step of git
                    raise _with_hint(error, tree, repository) from error
        (tree / _DONE).write_text(built_from.sha, encoding="ascii")
    return checkout


def _trust(file: Path) -> dict[str, str]:
    """Return variables by which git clones a repository of another user that the caller's settings trust.

    The part of git that clones asks again, for another name (REPOSITORY/.git), and takes an answer from files only.
    """
    given = caller_settings()
    own = given.get("GIT_CONFIG_GLOBAL")
    names = ["~/.config/git/config", "~/.gitconfig"] if own is None else [own]
    escaped = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    included = "".join(f'\tpath = "{name}"\n' for name in escaped)
    file.write_text(f"[include]\n{included}[safe]\n\tdirectory = *\n", "utf-8", "surrogateescape")
    return {**given, "GIT_CONFIG_GLOBAL": str(file)}


def _with_hint(error: BuildError, tree: Path, repository: Repository) -> BuildError:
    """Return the error of a step with what may help."""
    if error.hint is not None:
        return error
    if repository.shallow and not any(tree.glob("[!.]*")):
        # A shallow clone shares no objects: what no branch of it reaches is not in the checkout.
        return BuildError(error.message, UNSHALLOW, error.log, of_machine=True)
    if not (tree / ".gitmodules").is_file():
        return error
    command = "git submodule update --init --recursive"
    hint = f"the checkout has no submodules; if the build needs them, begin it with: {command}"
    return BuildError(error.message, hint, error.log, of_machine=error.of_machine)
