"""Read revisions from the user's git repository without changing it: no checkout, index or object is written.

A revision is exported through a temporary index. A patch is applied in that index, and its objects go into a temporary
directory.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.build.identity import is_source
from perfrunner.errors import UsageError
from perfrunner.paths import is_directory
from perfrunner.sources.run_git import GitError, NoGit, run_git
from perfrunner.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from perfrunner.spec.server import ServerSpec

_SUBMODULE = "160000"
_HUNK_LINES = 10  # shown of a hunk that does not apply
UNSHALLOW = "this clone is shallow: fetch its history with `git fetch --unshallow --tags`"
_MISSING = re.compile(r"promisor remote|lazy fetch|transport '\w+' not allowed|could not fetch")
# What later versions of git say of content that is not there, also of a damaged repository.
_ABSENT = re.compile(r"unable to read sha1 file|missing blob object")
AS_STORED = (
    "-c", "core.autocrlf=false", "-c", "core.eol=lf", "-c", "core.symlinks=true",
)  # fmt: skip
_ELSEWHERE = re.compile(r"not a git repository: (?!\(null\))(.+)")
# git warns of these, takes one of several commits, and succeeds.
_GUESSED = re.compile(
    r"log for .* only goes back to .*|(refname (?!'HEAD')|short object ID )\S+ is ambiguous"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WHOLE = re.MULTILINE | re.DOTALL


@dataclass(frozen=True)
class Commit:
    """A commit. `date` is the committer's date, in ISO 8601."""

    sha: str
    date: str
    title: str


@dataclass(frozen=True)
class Repository:
    """A work tree; `prefix` is the engine's directory in it (`engine_src/`, or empty at the top)."""

    top: Path
    prefix: str

    @classmethod
    def of_server(cls, server: ServerSpec) -> Repository:
        """Return the repository that a server is built from. Raises UsageError if its directory is in none."""
        repository = cls.around(Path(str(server.git)))
        if repository is None:
            raise UsageError(f"{server.git} is not a git repository")
        return repository

    @classmethod
    def around(cls, directory: Path) -> Repository | None:
        """Return the repository that contains `directory`; None if no repository does.

        Raises UsageError, which is a NoGit without git, and for a copy or mount of a worktree or submodule alone.
        """
        try:
            output = run_git(directory, "rev-parse", "--show-toplevel", "--show-prefix")
        except GitError as error:
            if elsewhere := _ELSEWHERE.search(str(error)):
                raise NoGit(
                    f"{directory} belongs to the git directory {elsewhere[1]}, which is not there",
                    "make the whole repository available here, or use a clone of it",
                ) from error
            if "not a git repository" in str(error):
                return None
            raise _unreadable(directory, str(error)) from error
        top, _, prefix = output.rstrip("\n").partition("\n")
        return cls(Path(top), prefix)

    def git(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        refused: re.Pattern[str] | None = None,
    ) -> str:
        """Run git and return its output. Raises GitError, or UsageError for content that a partial clone lacks."""
        try:
            words = ("--literal-pathspecs", *arguments)
            return run_git(self.top, *words, env=env, stdin=stdin, refused=refused)
        except GitError as error:
            if not _MISSING.search(str(error)) and not (
                _ABSENT.search(str(error)) and self._is_partial
            ):
                raise
            raise UsageError(
                f"{self.top} is a partial clone and lacks content that is needed here",
                f"fetch it: git -C {self.top} fetch --refetch --no-filter, or for one revision"
                f" git -C {self.top} archive -o /dev/null REVISION",
                of_machine=True,
            ) from error

    @property
    def _is_partial(self) -> bool:
        """Return whether a remote has promised content that is not here."""
        promised = ("config", "--get-regexp", r"^remote\..*\.promisor$")
        return bool(run_git(self.top, *promised, allowed=(0, 1)))

    @property
    def shallow(self) -> bool:
        """Whether the history is cut off, as in a clone with `--depth`."""
        return self.git("rev-parse", "--is-shallow-repository").strip() == "true"

    def commit(self, revision: str) -> Commit:
        """Return the commit that a revision names.

        Raises UsageError for a name of both a branch and a tag, for a time before the reflog begins, and for an
        unknown revision; the message suggests names, or how to complete a shallow clone.
        """
        self._refuse_two_meanings(_name_in(revision))
        try:
            if revision.startswith("^"):  # excludes a commit, and names none
                raise self._unknown(revision)
            sha = self.git("rev-parse", "--verify", revision, refused=_GUESSED).strip()
            sha = self.git("rev-parse", "--verify", "--quiet", f"{sha}^{{commit}}").strip()
        except GitError as error:
            if guessed := _GUESSED.search(str(error)):
                raise UsageError(
                    f"{self.top}: {revision}: {guessed[0]}",
                    "write the whole SHA of the commit (git log prints them), or refs/heads/NAME",
                ) from None
            raise self._unknown(revision) from None
        text = self.git("show", "--no-patch", "--format=%H%x00%cI%x00%s", sha)
        sha, date, title = text.rstrip("\n").split("\0")
        return Commit(sha, date, _utf8(title))

    def _refuse_two_meanings(self, name: str) -> None:
        kinds = {"heads": "a branch", "remotes": "a remote branch", "tags": "a tag"}
        refs = {f"refs/{kind}/{name}": kind for kind in kinds}
        listed = self.git("for-each-ref", "--format=%(refname)", *refs).split() if name else ()
        meanings = [refs[ref] for ref in listed if ref in refs]
        if len(meanings) > 1:
            raise UsageError(
                f"{self.top}: {name} is {' and '.join(kinds[kind] for kind in meanings)}",
                f"name one of them: {' or '.join(f'{kind}/{name}' for kind in meanings)}",
            )

    def _unknown(self, revision: str) -> UsageError:
        refs = self.git(
            "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes"
        ).split()
        hint: str | None = (
            f"list the names with git -C {self.top} branch --all, or fetch the revision"
        )
        if self.shallow:
            hint = UNSHALLOW
        elif is_directory(revision):
            hint = f"to use a directory, write its path: ./{revision}"
        name = _name_in(revision)
        remote = [ref for ref in refs if ref.endswith(f"/{name}")]
        near = "" if name in ("HEAD", *refs) else did_you_mean(remote[0] if remote else name, refs)
        return UsageError(f"{self.top} has no revision {revision}{near}", hint)

    def check_content(self, sha: str) -> None:
        """Raise UsageError if a file of a commit is missing: `git checkout` would leave it out and succeed."""
        try:
            self.git("rev-list", "--objects", "--no-walk", "--quiet", sha)
        except GitError as error:
            raise _unreadable(self.top, str(error)) from error

    def changed_files(self) -> tuple[str, ...]:
        """Return the files below `prefix` that differ from HEAD or are untracked, relative to `prefix`.

        Raises UsageError if a submodule has changes, because no commit names its content.
        """
        text = self.git(
            "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=none",
            "--", self.prefix or ".",
        )  # fmt: skip
        names = []
        for entry in filter(None, text.split("\0")):
            kind, _, rest = entry.partition(" ")
            if kind == "#":  # a header that the user's configuration asks for
                continue
            if kind == "?":
                names.append(rest)
                continue
            fields = rest.split(" ", 9 if kind == "u" else 7)
            if fields[1].startswith("S") and fields[1][2:] != "..":
                raise UsageError(
                    f"the submodule {fields[-1]} of {self.top} has uncommitted changes",
                    "commit them in the submodule first, so that a revision names its content",
                )
            names.append(fields[-1])
        names += self._overlooked()
        return tuple(sorted(name.removeprefix(self.prefix) for name in names))

    def _overlooked(self) -> list[str]:
        """Return the changed files that git overlooks (update-index --assume-unchanged, --skip-worktree).

        A file of that kind that is not there is left out: a sparse checkout marks such files.
        """
        listed = self.git("ls-files", "-v", "-s", "-z", "--", self.prefix or ".")
        marked = {}
        for entry in filter(None, listed.split("\0")):
            head, name = entry.split("\t", 1)
            mark, _, blob, _ = head.split(" ")
            path = self.top / name
            if (mark == "S" or mark.islower()) and path.is_file() and not path.is_symlink():
                marked[name] = blob
        now = self.git("hash-object", "--", *marked).split() if marked else []
        return [name for (name, blob), sha in zip(marked.items(), now, strict=True) if sha != blob]

    def ignored_files(self) -> tuple[str, ...]:
        """Return the ignored files below `prefix`, relative to it.

        A directory that is ignored as a whole ends in `/`.
        """
        text = run_git(
            self.top / self.prefix, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"
        )  # fmt: skip
        return tuple(filter(None, text.split("\0")))

    def export(self, sha: str, target: Path, patch: Path | None = None) -> Path:
        """Write the engine's directory of a commit below `target`, with the files that its links point to.

        Returns the engine's directory. Raises UsageError.
        """
        with tempfile.TemporaryDirectory(prefix="perfrunner-git-") as scratch:
            # In an empty work tree, git takes the attributes of files from the index: those of the revision.
            Path(scratch, "empty").mkdir()
            env = {"GIT_INDEX_FILE": f"{scratch}/index", "GIT_WORK_TREE": f"{scratch}/empty"}
            self.git("-c", "core.sparseCheckout=false", "read-tree", sha, env=env)
            if patch is not None:
                # The objects of the patched files are written to the scratch directory, not to the repository.
                objects = self.git("rev-parse", "--path-format=absolute", "--git-path", "objects")
                Path(scratch, "objects").mkdir()
                env["GIT_OBJECT_DIRECTORY"] = f"{scratch}/objects"
                env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _one_of_a_list(objects.removesuffix("\n"))
                self._apply(patch, sha, env)
            wanted = {self.prefix or "."}
            written: set[str] = set()
            while wanted - written:
                self._check_out(sorted(wanted - written), sha, target, env)
                written |= wanted
                wanted = _missing_targets(target)
        engine = target / self.prefix
        _refuse_links_out(engine, target, sha)
        return engine

    def _check_out(self, names: list[str], sha: str, target: Path, env: Mapping[str, str]) -> None:
        """Write the files and submodules of these names, and those below them."""
        entries = self.git("ls-files", "-s", "-z", "--", *names, env=env)
        files, submodules = _entries(entries)
        self.git(
            *AS_STORED, "checkout-index", "-z", "--stdin", f"--prefix={target}/",
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
        """Return the submodule's repository, which must be checked out and contain `commit`."""
        directory = self.top / name
        repository = Repository.around(directory) if directory.is_dir() else None
        if repository is None or repository.top != directory.resolve():
            raise UsageError(
                f"{sha[:12]} has the submodule {name}, which is not checked out in {self.top}",
                f"git -C {self.top} submodule update --init {name}",
                of_machine=True,
            )
        try:
            repository.git("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            raise UsageError(
                f"{sha[:12]} has the submodule {name} at {commit[:12]}, which {directory} does not have",
                f"git -C {directory} fetch --all --tags",
                of_machine=True,
            ) from None
        return repository

    def good_end(self, good: Commit, bad: Commit) -> Commit:
        """Return the commit from which a bisection starts: `good`, or its merge base with `bad`.

        A good commit on a release branch may not be an ancestor of the bad one. As in `git bisect`, their merge base
        then counts as good. Raises UsageError when there is no merge base, or when `bad` is the older commit.
        """
        try:
            base = self.git("merge-base", good.sha, bad.sha).strip()
        except GitError:
            raise UsageError(
                f"{good.sha[:12]} (good) and {bad.sha[:12]} (bad) have no common ancestor",
                UNSHALLOW if self.shallow else "name two commits of one history",
            ) from None
        if base == bad.sha != good.sha:
            raise UsageError(
                f"{good.sha[:12]} (good) is newer than {bad.sha[:12]} (bad)",
                "a bisection goes from an older commit to a newer one",
            )
        return good if base == good.sha else self.commit(base)

    def log(self, older: str, newer: str, most: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of commits in `older..newer`, and one line for each of the newest `most`."""
        span = f"{older}..{newer}"
        count = int(self.git("rev-list", "--count", span))
        lines = self.git("log", "--format=%h %s", f"--max-count={most}", span)
        return count, tuple(map(_utf8, lines.split("\n")[:-1]))


def _one_of_a_list(path: str) -> str:
    """Quote a path for a variable in which git separates paths by colons."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _name_in(revision: str) -> str:
    """Return the name of a branch or tag in a revision: `main` in `main~2`; empty in `@{u}`."""
    return re.split(r"[~^@]", revision, maxsplit=1)[0]


def _unreadable(directory: Path, message: str) -> UsageError:
    """Return the error for a repository that git refuses, with the command that helps."""
    if "dubious ownership" in message:
        owner = re.search(r"safe\.directory (.+)", message)
        trusted = owner[1].strip() if owner else str(directory)
        return UsageError(
            f"git does not trust the repository of {directory}: it belongs to another user",
            f"git config --global --add safe.directory {trusted}",
        )
    if "must be run in a work tree" in message or "cannot use bare repository" in message:
        return UsageError(
            f"{directory} is in a repository without a work tree",
            f"create one: git -C {directory} worktree add DIRECTORY",
        )
    return UsageError(f"git cannot read {directory}: {message}", of_machine=True)


def _utf8(text: str) -> str:
    """Convert git's output to displayable text: UTF-8 in every locale, without control characters of a terminal."""
    decoded = os.fsencode(text).decode("utf-8", "replace")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", decoded.replace("\t", " "))


def changes(before: Path, after: Path) -> list[tuple[str, int, int]]:
    """Return the files that differ between two directories: name, lines added, lines removed (binary files: 0, 0)."""
    try:
        text = _diff(before, after)
    except GitError as error:
        raise UsageError(f"cannot compare {before} and {after}: {error}") from error
    differing = []
    fields = iter(text.split("\0"))
    for head in fields:
        if not head:
            continue
        added, removed, name = head.split("\t")
        if not name:  # both names follow
            old, new = Path(next(fields)), Path(next(fields))
            path = new if new.is_relative_to(after) else old
            root = after if path.is_relative_to(after) else before
            name = path.relative_to(root).as_posix()
        differing.append((name, _count(added), _count(removed)))
    return sorted(differing)


def _why(output: str) -> str:
    """Summarize the output of `git apply --verbose`: the failures, and the text that the first failed hunk expects."""
    output = re.sub(r"^Checking patch .*\n", "", output, flags=re.MULTILINE)
    searched = re.search(r"^error: while searching for:\n(.*?)\n*^error: ", output, _WHOLE)
    output = re.sub(r"^error: while searching for:\n.*?^(?=error: )", "", output, flags=_WHOLE)
    why = "; ".join(line.removeprefix("error: ") for line in output.splitlines())
    if searched is None:
        return why
    lines = searched[1].splitlines()
    shown = [*lines[:_HUNK_LINES], *(["..."] if len(lines) > _HUNK_LINES else [])]
    return "\n    ".join([f"{why}; the patch expects there", *shown])


def _diff(before: Path, after: Path) -> str:
    # Status 1 means that they differ.
    flags = ("--no-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--numstat", "-z")
    return run_git(Path("/"), "diff", *flags, str(before), str(after), allowed=(0, 1))


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _links(root: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield every symbolic link below `root` and its target by name; None for a target outside `root`."""
    for directory, directories, files in os.walk(root):
        for path in (Path(directory, name) for name in (*directories, *files)):
            if path.is_symlink():
                leads = Path(os.path.normpath(path.parent / path.readlink()))
                yield path, leads if leads.is_relative_to(root) else None


def _missing_targets(root: Path) -> set[str]:
    """Return the paths below `root`, relative to it, that links point to and that do not exist."""
    return {
        leads.relative_to(root).as_posix()
        for _, leads in _links(root)
        if leads is not None and not os.path.lexists(leads)
    }


def _refuse_links_out(engine: Path, root: Path, sha: str) -> None:
    """Remove links without a target; raise UsageError for one that a build would read."""
    for path, leads in list(_links(root)):
        if leads is not None and path.exists() and path.resolve().is_relative_to(root.resolve()):
            continue
        if path.is_relative_to(engine) and is_source(path.relative_to(engine).as_posix()):
            where = (
                "points out of the repository"
                if leads is None
                else "points to a path that the revision does not have"
            )
            name = path.relative_to(root).as_posix()
            raise UsageError(f"{sha[:12]}: the link {name} -> {path.readlink()} {where}")
        path.unlink()


def _entries(text: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """Parse `ls-files -s -z`: return the files, and the commit of each submodule."""
    files, submodules = [], {}
    for entry in filter(None, text.split("\0")):
        head, _, name = entry.partition("\t")
        mode, sha, _ = head.split(" ")
        if mode == _SUBMODULE:
            submodules[name] = sha
        else:
            files.append(name)
    return files, submodules
