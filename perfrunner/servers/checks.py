"""What can be known of a server's command on this machine before anything starts.

Implements perfrunner.spec.server.ServerChecks: a spec is read with these checks, so that each error has its line.
The configuration files that a command of Redis names are read as well: a replica would copy the data of a server in
use as soon as it starts, also if a later option switches that off.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfrunner.errors import UsageError
from perfrunner.hosts import scripts
from perfrunner.hosts.container import find_image
from perfrunner.hosts.local import LocalTransport
from perfrunner.hosts.process import BASE_ENVIRONMENT
from perfrunner.hosts.transport import Transport
from perfrunner.paths import is_directory, is_file
from perfrunner.servers.preload import find_library, linked_allocator, marked, read_elf
from perfrunner.servers.redis import OVERRULED
from perfrunner.servers.registry import ADAPTERS
from perfrunner.sources.git import Repository
from perfrunner.sources.run_git import GitError
from perfrunner.spec.allocator import env_problems, is_crate
from perfrunner.spec.server import ServerSpec, lost_libraries
from perfrunner.spec.suggest import did_you_mean

_DEPTH = 8  # of configuration files that include others
HERE = "this machine"  # its name in messages
HOW_TO_LINK_LIBC = {"redis": " (redis, valkey: make MALLOC=libc)"}
_KIND_MARKS = {adapter.kind: adapter.mark for adapter in ADAPTERS.values() if adapter.mark}
_NO_PASSWORD = (
    "expected server.password_env (ab: --password-env), the variable of your environment with the password of the"
    " load; without a password, leave this option out"
)


@dataclass(frozen=True)
class ChecksHere:
    """The checks, on this machine. `settled`: revisions are not looked up."""

    settled: bool = False

    def command(self, server: ServerSpec, *, remote: bool) -> Mapping[tuple[str | int, ...], str]:
        wrong: dict[tuple[str | int, ...], str] = {}
        begins = len(server.command) - len(server.own_words)  # 0 without a launcher
        if server.image is not None:
            if not remote and (text := _image_problem(server.image)):
                wrong["image",] = text
        elif server.git is not None:
            if not self.settled and (text := _repository_problem(server)):
                wrong[("git",) if server.revision is None else ("revision",)] = text
        else:
            for at in server.programs:
                word = server.command[at]
                if (not remote or "/" in word) and (text := program_problem(word, sent=remote)):
                    wrong["command", at] = text
        kind = kind_of(server, _serving_program(server, remote=remote))
        adapter, own = ADAPTERS[kind], server.own_words[1:]
        refused = adapter.refused(own)
        if server.image is None:  # whose files are its own
            refused |= adapter.shared(own)
            if not remote and (text := unfit_in_files(adapter.kind, own, LocalTransport(HERE))):
                refused[0] = text
        if server.password_env is None and (option := adapter.locked(own)) is not None:
            refused[option] = _NO_PASSWORD
        wrong |= {("command", begins + index + 1): text for index, text in refused.items()}
        for at, word in enumerate(server.command[1:begins], 1):  # env NAME=VALUE
            name, separator, value = word.partition("=")
            if separator and (problems := env_problems({name: value}, None, linked=False)):
                wrong["command", at] = next(iter(problems.values()))
        if server.protocol is not None and (text := adapter.wrong_protocol(server.protocol, own)):
            wrong["protocol",] = text
        if server.image is None and server.git is None:  # else they are not here yet
            wrong |= {("command", at): text for at, text in _lost_paths(server).items()}
        if server.password_env is not None and server.password_env not in os.environ:
            wrong["password_env",] = (
                f"expected a variable that is set; got {server.password_env}, which is not"
            )
        return wrong

    def preload(self, server: ServerSpec, preload: str, *, remote: bool) -> str | None:
        try:
            if not is_crate(preload) and (not remote or preload.startswith("/")):
                find_library(preload)
        except UsageError as error:
            return f"{error.message} ({error.hint})" if error.hint else error.message
        path = _serving_program(server, remote=remote)
        return None if path is None else preload_problem(path, server)


def _serving_program(server: ServerSpec, *, remote: bool) -> Path | None:
    """Return the program of this machine that serves; None if it is not here (see prepare.py, placing.py)."""
    word = server.command[server.programs[-1]]
    elsewhere = server.image is not None or server.git is not None or (remote and "/" not in word)
    return None if elsewhere else find_program(word)


def kind_of(server: ServerSpec, program: Path | None) -> str:
    """Return the kind of a server: as given, by its name, or by the content of its program on this machine.

    A script stays unknown until it is asked: its words need not be those of the server.
    """
    if server.kind is not None or server.known_kind != "other" or program is None:
        return server.known_kind
    try:
        known = None if read_elf(program) is None else marked(program, _KIND_MARKS)
    except OSError:  # program_problem says it
        known = None
    return known or "other"


def find_program(word: str) -> Path | None:
    """Return the absolute path of a program: itself, or from PATH; None if there is none."""
    if "/" in word:
        return Path(word).absolute() if is_file(word) else None
    path = os.environ.get("PATH") or BASE_ENVIRONMENT["PATH"]
    program = shutil.which(word, path=f"{path}:/usr/local/sbin:/usr/sbin:/sbin")
    return None if program is None else Path(program).absolute()


def program_problem(word: str, *, sent: bool = False) -> str | None:
    """Return why a program cannot be started here; None if it can, as far as its file tells.

    `sent`: it is started on another host, which may have what starts it.
    """
    path = find_program(word)
    if path is None:
        if "/" not in word:
            near = did_you_mean(word, _programs())
            return f"expected a program; there is no {word} in PATH{near}"
        what = f"{word} is a directory" if is_directory(word) else f"there is no {word}"
        return f"expected a program; {what}"
    if not os.access(path, os.X_OK):
        return f"expected a program; {path} is not executable (chmod +x)"
    try:
        elf, here = read_elf(path), read_elf(Path("/proc/self/exe"))
    except OSError as error:
        return f"expected a program; {path} cannot be read: {error.strerror}"
    if elf is not None and here is not None and elf.machine != here.machine:
        return f"expected a program for this machine ({here.machine}); {path} is for {elf.machine}"
    if elf is not None:
        starter = elf.loader
    else:
        with path.open("rb") as file:
            head = file.read(256)
        starter = _interpreter_of(head)
        if starter is None and (not head or b"\0" in head):  # a shell reads other files as scripts
            what = "neither an ELF file nor a script" if head else "empty"
            return f"expected a program; {path} is {what}"
    if starter and not sent and find_program(starter) is None:
        return f"expected a program; {path} is started by {starter!r}, which is not on this machine"
    return None


def _interpreter_of(head: bytes) -> str | None:
    """Return the program that the first line of a script names; None if it names none."""
    first = head.split(b"\n", 1)[0]
    words = first[2:].replace(b"\t", b" ").split(b" ")
    named = [os.fsdecode(word) for word in words if word]
    return named[0] if first.startswith(b"#!") and named else None


def preload_problem(path: Path, server: ServerSpec) -> str | None:
    """Return why a preloaded allocator would have no effect on a program; None if it has one."""
    elf = read_elf(path)
    if elf is None:
        return None  # a script: the running server is looked at
    how = HOW_TO_LINK_LIBC.get(server.known_kind, "")
    if not elf.loaded:
        return f"expected a dynamically linked program; {path} is linked statically: link it dynamically{how}"
    linked = linked_allocator(path)
    if linked is None:
        return None
    return own_allocator_text(linked, str(path), server.known_kind)


def own_allocator_text(linked: str, path: str, kind: str) -> str:
    """Return the message for a program that no preload reaches."""
    return (
        f"expected a program without an allocator of its own; {linked} is linked into {path}:"
        f" build it with the C library's{HOW_TO_LINK_LIBC.get(kind, '')}"
    )


def _lost_paths(server: ServerSpec) -> dict[int, str]:
    """Return, by index, what to do about relative paths: those of files that are here have become absolute."""
    return {
        at: f"expected a file that exists, or an absolute path: the server runs in another directory; got {word}"
        for at, word in enumerate(server.command[1:], 1)
        if word.startswith(("./", "../"))
        or (word.endswith((".conf", ".cnf")) and word[0] != "/")
        or lost_libraries(word)
    }


def _image_problem(name: str) -> str | None:
    try:
        find_image(name, LocalTransport(HERE))
    except UsageError as error:
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    return None


def _repository_problem(server: ServerSpec) -> str | None:
    directory = Path(str(server.git))
    if not is_directory(directory):
        return f"expected a repository on this machine, got {directory}: no such directory (clone it first)"
    try:
        repository = Repository.around(directory)
        if repository is None:
            return f"expected a git repository, got {directory}"
        repository.commit(server.revision or "HEAD")
    except UsageError as error:
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    except GitError as error:
        return f"expected a git repository: {error}"
    return None


def _programs() -> set[str]:
    names: set[str] = set()
    for directory in (os.environ.get("PATH") or BASE_ENVIRONMENT["PATH"]).split(os.pathsep):
        with contextlib.suppress(OSError):  # of another user, or not there
            names.update(os.listdir(directory))  # noqa: PTH208
    return names


def unfit_in_files(kind: str, arguments: Sequence[str], host: Transport) -> str | None:
    """Return why a server with its configuration files cannot be measured; None if it can, as far as they are known.

    The files are those of `host`.
    """
    adapter = ADAPTERS[kind]
    given = {word[2:].lower() for word in arguments if word.startswith("--")}
    for file in adapter.files(arguments):
        settings = {
            name: value
            for name, value in _settings(file, host, _DEPTH).items()
            if name not in given and name not in OVERRULED
        }
        if text := adapter.unfit(settings):
            return f"{file} has {text}, in a copy of the file"
    return None


def _settings(file: str, host: Transport, depth: int) -> Mapping[str, str]:
    settings: dict[str, str] = {}
    if not file.startswith("/") or not depth:
        return settings  # the server says what is wrong with it
    text = host.run(["sh", "-c", scripts.SHOW_FILES, "sh", file], check=False).stdout
    for line in text.splitlines():
        try:
            name, *values = shlex.split(line)
        except ValueError:  # empty, or the server says what is wrong
            continue
        value = " ".join(values)
        if name.lower() == "include":
            settings |= _settings(value, host, depth - 1)
        elif not name.startswith("#"):
            settings[name.lower()] = value
    return settings
