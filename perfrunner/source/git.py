"""What is asked of git, and what is never done to the user's repository: no checkout, no index, no object is written.

A revision is exported through an index of its own; a patch is applied in that index, its objects aside.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfrunner.build.identity import is_source
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import did_you_mean

TIMEOUT_S = 300.0
_SUBMODULE = "160000"
_HUNK_LINES = 10  # of one that does not apply
UNSHALLOW = "this clone is shallow: fetch what it lacks with `git fetch --unshallow --tags`"
# What a user's configuration would change of an answer.
_PLAIN = ("-c", "color.ui=false", "-c", "log.showSignature=false")
_AS_STORED = ("-c", "core.autocrlf=false", "-c", "core.eol=lf")
_KEPT_SETTING = re.compile(r"GIT_CONFIG_(COUNT|KEY_\d+|VALUE_\d+|GLOBAL|SYSTEM|NOSYSTEM)")
_WHOLE = re.MULTILINE | re.DOTALL


@dataclass(frozen=True)
class Commit:
    """`date` is the committer's, ISO 8601."""

    sha: str
    date: str
    title: str


class GitError(Exception):
    """git ended with an error; the text is what it said."""


@dataclass(frozen=True)
class Repository:
    """A work tree; `prefix` is the engine's directory in it (`engine_src/`, or empty at the top)."""

    top: Path
    prefix: str

    @classmethod
    def around(cls, directory: Path) -> Repository | None:
        """The repository that `directory` lies in; None where there is none. UsageError without git."""
        try:
            said = run_git(directory, "rev-parse", "--show-toplevel", "--show-prefix")
        except GitError as error:
            if "not a git repository" in str(error):
                return None
            raise UsageError(f"git cannot read {directory}: {error}") from error
        top, _, prefix = said.rstrip("\n").partition("\n")
        return cls(Path(top), prefix)

    def git(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str = "") -> str:
        """What it prints. GitError."""
        return run_git(self.top, *arguments, env=env, stdin=stdin)

    @property
    def shallow(self) -> bool:
        """Whether the history ends before its beginning, as that of a clone with a depth."""
        return self.git("rev-parse", "--is-shallow-repository").strip() == "true"

    def commit(self, revision: str) -> Commit:
        """What a revision names. UsageError: unknown (the nearest names), or not in a shallow clone."""
        try:
            sha = self.git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
        except GitError:
            raise self._unknown(revision) from None
        text = self.git("show", "--no-patch", "--format=%H%x00%cI%x00%s", sha)
        sha, date, title = text.rstrip("\n").split("\0")
        return Commit(sha, date, title)

    def _unknown(self, revision: str) -> UsageError:
        refs = self.git(
            "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes"
        ).split()
        hint = None
        if self.shallow:
            hint = UNSHALLOW
        elif Path(revision).is_dir():
            hint = f"a directory is named with its path: ./{revision}"
        name = re.split(r"[~^@]", revision, maxsplit=1)[0]  # of main~2 the branch
        there = [ref for ref in refs if ref.endswith(f"/{name}")]  # of a remote's branch
        near = "" if name in refs else did_you_mean(there[0] if there else name, refs)
        return UsageError(f"{self.top} has no revision {revision}{near}", hint)

    def changed_files(self) -> tuple[str, ...]:
        """Files below `prefix` that differ from HEAD, untracked ones too; relative to it.

        UsageError where a submodule has changes: no commit names its content.
        """
        text = self.git(
            "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--",
            self.prefix or ".",
        )  # fmt: skip
        names = []
        for entry in filter(None, text.split("\0")):
            kind, _, rest = entry.partition(" ")
            if kind == "?":
                names.append(rest)
                continue
            fields = rest.split(" ", 9 if kind == "u" else 7)
            if fields[1].startswith("S") and fields[1][2:] != "..":
                raise UsageError(
                    f"the submodule {fields[-1]} of {self.top} has changes of its own",
                    "commit them there first: no revision names its content",
                )
            names.append(fields[-1])
        return tuple(sorted(name.removeprefix(self.prefix) for name in names))

    def ignored_files(self) -> tuple[str, ...]:
        """Files below `prefix`, relative to it, that are ignored; a directory that is so as a whole ends in `/`."""
        text = run_git(
            self.top / self.prefix, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"
        )  # fmt: skip
        return tuple(filter(None, text.split("\0")))

    def export(self, sha: str, target: Path, patch: Path | None = None) -> Path:
        """The engine's directory of a commit as files below `target`, beside what its links point to. UsageError."""
        with tempfile.TemporaryDirectory(prefix="perfrunner-git-") as aside:
            env = {"GIT_INDEX_FILE": f"{aside}/index"}
            self.git("-c", "core.sparseCheckout=false", "read-tree", sha, env=env)
            if patch is not None:
                # What a patch makes is written beside the repository, not into it.
                objects = self.git("rev-parse", "--path-format=absolute", "--git-path", "objects")
                Path(aside, "objects").mkdir()
                env["GIT_OBJECT_DIRECTORY"] = f"{aside}/objects"
                env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = objects.strip()
                self._apply(patch, sha, env)
            wanted = {self.prefix or "."}
            asked: set[str] = set()
            while wanted - asked:
                self._check_out(sorted(wanted - asked), sha, target, env)
                asked |= wanted
                wanted = _missing_targets(target)
        made = target / self.prefix
        _refuse_links_out(made, target, sha)
        return made

    def _check_out(self, names: list[str], sha: str, target: Path, env: Mapping[str, str]) -> None:
        """Files and submodules of these names, and below them."""
        entries = self.git("--literal-pathspecs", "ls-files", "-s", "-z", "--", *names, env=env)
        files, submodules = _entries(entries)
        self.git(
            *_AS_STORED, "checkout-index", "-z", "--stdin", f"--prefix={target}/",
            env=env, stdin="".join(f"{name}\0" for name in files),
        )  # fmt: skip
        for name, commit in submodules.items():
            self._submodule(name, sha, commit).export(commit, target / name)

    def _apply(self, patch: Path, sha: str, env: Mapping[str, str]) -> None:
        try:
            options = ("--cached", "--verbose", "--whitespace=nowarn")
            self.git("apply", *options, str(patch), env=env)
        except GitError as error:
            raise UsageError(f"{patch} does not apply to {sha[:12]}: {_why(str(error))}") from error

    def _submodule(self, name: str, sha: str, commit: str) -> Repository:
        """The submodule's own repository, which has to be checked out and to have `commit`."""
        place = self.top / name
        found = Repository.around(place) if place.is_dir() else None
        if found is None or found.top != place.resolve():
            raise UsageError(
                f"{sha[:12]} has the submodule {name}, which is not checked out in {self.top}",
                f"git -C {self.top} submodule update --init {name}",
            )
        try:
            found.git("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            raise UsageError(
                f"{sha[:12]} has the submodule {name} at {commit[:12]}, which {place} does not have",
                f"git -C {place} fetch --all --tags",
            ) from None
        return found

    def log(self, older: str, newer: str, most: int) -> tuple[int, tuple[str, ...]]:
        """How many commits `older..newer` has, and one line each of the newest."""
        span = f"{older}..{newer}"
        count = int(self.git("rev-list", "--count", span))
        lines = self.git("log", "--oneline", "--no-decorate", f"--max-count={most}", span)
        return count, tuple(lines.splitlines())


def run_git(
    directory: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    allowed: tuple[int, ...] = (0,),
) -> str:
    """git without the caller's GIT_* variables (a hook's) but its configuration (a CI's safe.directory), in one
    language. GitError; UsageError without git.
    """
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("GIT_") or _KEPT_SETTING.fullmatch(k)
    }
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *_PLAIN, *arguments],
            env={**clean, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0", **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError(
            "git is not installed: sources cannot be told apart", "apt-get install git"
        ) from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {_command(arguments)} took more than {TIMEOUT_S:g} s") from None
    if done.returncode not in allowed:
        raise GitError(
            done.stderr.strip() or f"git {_command(arguments)}: status {done.returncode}"
        )
    return done.stdout


def _command(arguments: Sequence[str]) -> str:
    """Behind the settings and options of git itself."""
    words = iter(arguments)
    for word in words:
        if word == "-c":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def changes(one: Path, other: Path) -> list[tuple[str, int, int]]:
    """Files in which two directories differ: name, lines added, lines removed (binary files: 0, 0)."""
    try:
        text = _diff(one, other)
    except GitError as error:
        raise UsageError(f"{one} and {other} cannot be compared: {error}") from error
    found = []
    fields = iter(text.split("\0"))
    for head in fields:
        if not head:
            continue
        added, removed, name = head.split("\t")
        if not name:  # both names follow
            before, after = Path(next(fields)), Path(next(fields))
            place = after if after.is_relative_to(other) else before
            root = other if place.is_relative_to(other) else one
            name = place.relative_to(root).as_posix()
        found.append((name, _count(added), _count(removed)))
    return sorted(found)


def _why(said: str) -> str:
    """Of what `git apply --verbose` said: what failed where, and what the first hunk that failed looks for there."""
    said = re.sub(r"^Checking patch .*\n", "", said, flags=re.MULTILINE)
    searched = re.search(r"^error: while searching for:\n(.*?)\n*^error: ", said, _WHOLE)
    said = re.sub(r"^error: while searching for:\n.*?^(?=error: )", "", said, flags=_WHOLE)
    why = "; ".join(line.removeprefix("error: ") for line in said.splitlines())
    if searched is None:
        return why
    lines = searched[1].splitlines()
    shown = [*lines[:_HUNK_LINES], *(["..."] if len(lines) > _HUNK_LINES else [])]
    return "\n    ".join([f"{why}; it looks there for", *shown])


def _diff(one: Path, other: Path) -> str:
    # Status 1 says that they differ.
    flags = ("--no-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--numstat", "-z")
    return run_git(Path("/"), "diff", *flags, str(one), str(other), allowed=(0, 1))


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _links(root: Path) -> Iterator[tuple[Path, Path | None]]:
    """Every link below, and where it leads, as the text says; None: nowhere that a path of `root` is."""
    for directory, directories, files in os.walk(root):
        for path in (Path(directory, name) for name in (*directories, *files)):
            if path.is_symlink():
                leads = Path(os.path.normpath(path.parent / path.readlink()))
                yield path, leads if leads.is_relative_to(root) else None


def _missing_targets(root: Path) -> set[str]:
    """Paths below `root`, relative to it, that links point to and that are not there."""
    return {
        leads.relative_to(root).as_posix()
        for _, leads in _links(root)
        if leads is not None and not os.path.lexists(leads)
    }


def _refuse_links_out(engine: Path, root: Path, sha: str) -> None:
    """UsageError for a link that a build would read and that the revision has no content for."""
    for path, leads in list(_links(root)):
        if leads is not None and path.exists() and path.resolve().is_relative_to(root.resolve()):
            continue
        if path.is_relative_to(engine) and is_source(path.relative_to(engine).as_posix()):
            where = (
                "leads out of the repository"
                if leads is None
                else "leads to nothing that the revision has"
            )
            name = path.relative_to(root).as_posix()
            raise UsageError(f"{sha[:12]}: the link {name} -> {path.readlink()} {where}")
        path.unlink()


def _entries(text: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """Of `ls-files -s -z`: the files, and the commit of each submodule."""
    files, submodules = [], {}
    for entry in filter(None, text.split("\0")):
        head, _, name = entry.partition("\t")
        mode, sha, _ = head.split(" ")
        if mode == _SUBMODULE:
            submodules[name] = sha
        else:
            files.append(name)
    return files, submodules
