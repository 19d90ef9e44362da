"""Check out and build the revision of a server's repository.

A build is kept in the build cache under `servers/`, by repository, commit, commands and environment: it is made once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from perfrunner.build.cache import locked
from perfrunner.build.tools import Progress, build_environment, run_logged
from perfrunner.errors import BuildError
from perfrunner.paths import real_path, with_home
from perfrunner.sources.git import AS_STORED, UNSHALLOW, Commit, Repository
from perfrunner.sources.run_git import caller_settings
from perfrunner.spec.server import ServerSpec

DIRECTORY = "servers"  # of the build cache
_DONE = ".perfrunner-built"


@dataclass(frozen=True)
class Checkout:
    """A checkout in which a server's build has succeeded. `cached`: it was there before."""

    tree: Path
    commit: Commit
    cached: bool

    def program(self, word: str) -> str:
        """Return the path of a program that was built; one without a directory may be the machine's own."""
        inside = self.tree / word
        return str(inside) if "/" in word or inside.is_file() else word


def is_built(server: ServerSpec, cache_dir: Path) -> bool:
    """Tell whether a server needs no build, or the cache holds its build. Raises UsageError or BuildError."""
    return server.git is None or (_tree_of(server, None, cache_dir)[0] / _DONE).is_file()


def commit_of(server: ServerSpec, commit: str | None = None) -> Commit:
    """Return the commit that a server is built from: `commit`, or what its revision names now."""
    return Repository.of_server(server).commit(commit or server.revision or "HEAD")


def _tree_of(server: ServerSpec, commit: str | None, cache_dir: Path) -> tuple[Path, Commit]:
    """Return the directory of the cache for a server's build, and the commit that is built there."""
    built_from = commit_of(server, commit)
    env = build_environment()
    place, commands = str(real_path(Path(str(server.git)))), [list(c) for c in server.build]
    described = [place, built_from.sha, commands, env.get("CC"), env.get("CXX")]
    key = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:24]
    return with_home(cache_dir).absolute() / DIRECTORY / key, built_from


def check_out(
    server: ServerSpec, commit: str | None, cache_dir: Path, progress: Progress
) -> Checkout:
    """Return a checkout in which the build of a server has succeeded.

    `commit` is what its revision named when the experiment began; None: what it names now. Raises BuildError or
    UsageError.
    """
    tree, built_from = _tree_of(server, commit, cache_dir)
    env = build_environment()
    tree.parent.mkdir(parents=True, exist_ok=True)
    with locked(tree.with_suffix(".lock"), progress):
        if (tree / _DONE).is_file():
            return Checkout(tree, built_from, cached=True)
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
                    run_logged(step, what=title, log=log, env=variables, progress=progress)
                except BuildError as error:
                    raise _with_hint(error, tree, repository) from error
        (tree / _DONE).write_text(built_from.sha, encoding="ascii")
    return Checkout(tree, built_from, cached=False)


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
        return BuildError(error.message, UNSHALLOW, error.log)
    if not (tree / ".gitmodules").is_file():
        return error
    command = "git submodule update --init --recursive"
    hint = f"the checkout has no submodules; if the build needs them, begin it with: {command}"
    return BuildError(error.message, hint, error.log)
