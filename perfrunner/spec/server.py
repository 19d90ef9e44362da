"""A variant that is any server: the command that starts it, and what it is built from.

    server: {command: [memcached, -p, "{port}", -t, "2"]}
    server: {kind: redis, command: [redis-server, --port, "{port}", --save, ""]}
    server: {git: ~/redis, revision: unstable, build: [[make, -j2]], command: [src/redis-server, --port, "{port}"]}
    server: {image: docker.io/library/memcached:1.6, command: [memcached, -p, "{port}"]}

On a cluster over SSH, a program that is named without a directory is the host's own; one with a path, or built from
`git`, is of this machine and sent there.

No shell reads a command: it is a list of words. They may contain {port}, a free port that perfrunner chooses for each
start, and {dir}, the empty directory in which the server is started. A command of a build may be a text for a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from perfrunner.domain import ServerProtocol
from perfrunner.spec.base import ListAsTuple, Piece, ScalarText, matching
from perfrunner.spec.source import Revision

PORT, DIRECTORY = "{port}", "{dir}"
Kind: TypeAlias = Literal["memcached", "redis", "other"]

Word = Annotated[ScalarText, matching(r"[^\x00]*", "a word without a NUL character")]
Words = Annotated[tuple[Word, ...], ListAsTuple, Field(min_length=1)]
Step = Annotated[
    Words, BeforeValidator(lambda step: step_words(step) if isinstance(step, str) else step)
]
ImageName = Annotated[str, matching(r"[A-Za-z0-9]\S*", "the name of an image")]
VariableName = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]*", "an environment variable's name")]

# By the name of the program; any other program is asked what it speaks.
_KINDS: Mapping[str, Kind] = {
    "memcached": "memcached",
    "redis-server": "redis",
    "valkey-server": "redis",
    "keydb-server": "redis",
}


# Programs that become the one that their words name: its own words follow.
_LAUNCHERS = frozenset(
    (
        "env", "taskset", "numactl", "nice", "ionice", "chrt", "setarch", "stdbuf", "prlimit", "nohup", "setsid",
        "valgrind",
    )
)  # fmt: skip
# What looks like {port}, in a word that is no shell text.
_PLACEHOLDER = re.compile(r"(?<!\$)\{(?!(?:port|dir)\})[A-Za-z_]+\}|\{\{(?:port|dir)\}\}")
_SHELL = set("&|;<>$`()*?#~\n")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))


def own_words(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the server itself, behind a launcher such as `taskset -c 0`; empty if nobody can tell."""
    first = Path(command[0]).name
    if first in _SHELLS:
        return ()
    if first not in _LAUNCHERS:
        return tuple(command)
    for at, word in enumerate(command[1:], 1):
        is_program = "/" in word or Path(word).name in _KINDS
        if is_program and "=" not in word and not word.startswith("-"):
            return tuple(command[at:])
    return ()


def lost_libraries(assignment: str) -> str | None:
    """Return a directory of `LD_LIBRARY_PATH=…` that is still relative, so that the loader would miss it; else None.

    Those that exist have become absolute. `$ORIGIN` is the program's directory.
    """
    name, _, value = assignment.partition("=")
    parts = re.split("[:;]", value) if name == "LD_LIBRARY_PATH" else []
    return next((part for part in parts if part and part[0] not in "/$"), None)


def step_words(text: str) -> list[str]:
    """Return a command of a build as words: the shell with the text if it needs one. Raises ValueError."""
    return ["sh", "-c", text] if _SHELL & set(text) else shlex.split(text)


class ServerSpec(Piece):
    """The command that starts a server, and its build if `git` is given. Paths are absolute in a loaded spec."""

    command: Words = Field(description="words; {port} and {dir} are replaced")
    kind: Kind | None = Field(
        default=None, description="memcached, redis or other; none: by the program"
    )
    protocol: ServerProtocol | None = Field(
        default=None,
        description="what the load speaks; none: by the kind, else by asking the server",
    )
    image: ImageName | None = Field(
        default=None, description="run the command in a container of this image, with podman"
    )
    git: str | None = Field(default=None, description="a repository to build from")
    revision: Revision | None = Field(default=None, description="of git; none: HEAD")
    build: Annotated[tuple[Step, ...], ListAsTuple] = Field(
        default=(), description="commands run in a checkout of git, each a text or a list of words"
    )
    password_env: VariableName | None = Field(
        default=None,
        description="the variable of perfrunner's environment with the password of the load",
    )

    @field_validator("command")
    @classmethod
    def _has_a_port(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not any(PORT in word for word in command):
            raise ValueError(
                f"expected {PORT} in a word of the command, where the port belongs, such as [-p, {PORT!r}]"
            )
        for word in command:
            if " " not in word and (unknown := _PLACEHOLDER.search(word)):
                raise ValueError(f"expected {PORT} or {DIRECTORY}, got {unknown[0]} in {word}")
        if not command[0] or PORT in command[0]:
            raise ValueError("expected a program as the first word")
        if "=" in command[0]:
            raise ValueError(
                f"expected a program without '=' in its path as the first word, got {command[0]}"
                " (variables are set in the variant's env)"
            )
        return command

    @model_validator(mode="after")
    def _built_from_something(self) -> ServerSpec:
        if self.git is None and (self.revision is not None or self.build):
            raise ValueError("expected git next to revision and build: the repository to check out")
        if self.image is not None and self.git is not None:
            raise ValueError("expected either image or git")
        if self.image is not None and any(DIRECTORY in word for word in self.command):
            raise ValueError(
                f"expected a command without {DIRECTORY}: a container has its own file system"
            )
        return self

    @property
    def program(self) -> str:
        """The name of the program, without its directory."""
        return Path(self.command[0]).name

    @property
    def own_words(self) -> tuple[str, ...]:
        """The words of the server itself, which may follow those of a launcher; empty if nobody can tell."""
        return own_words(self.command)

    @property
    def launched(self) -> int | None:
        """The index of the program behind a launcher; None without one, or if nobody can tell."""
        own = self.own_words
        return len(self.command) - len(own) if 0 < len(own) < len(self.command) else None

    @property
    def programs(self) -> tuple[int, ...]:
        """The indexes of the programs: the first word, and the one behind a launcher."""
        return (0,) if self.launched is None else (0, self.launched)

    @property
    def is_sent(self) -> bool:
        """True if hosts over SSH get a program from this machine instead of using their own."""
        named = any("/" in self.command[at] for at in self.programs)
        return self.image is None and (self.git is not None or named)

    @property
    def known_kind(self) -> Kind:
        """The kind that is given, or that follows from the program's name."""
        name = Path(self.own_words[0]).name if self.own_words else self.program
        return self.kind or _KINDS.get(name.lower(), "other")

    @property
    def text(self) -> str:
        """The command as a person would type it, with its image or the revision it is built from."""
        at = f" @ {Path(self.git).name}@{self.revision or 'HEAD'}" if self.git else ""
        at = f" in {self.image}" if self.image else at
        return f"{' '.join(word or chr(34) * 2 for word in self.command)}{at}"


class ServerChecks(Protocol):
    """What can be known of servers on this machine before anything starts; by field what is wrong.

    `remote`: they run on a host over SSH, whose own programs and libraries are not known yet.
    """

    def command(
        self, server: ServerSpec, *, remote: bool
    ) -> Mapping[tuple[str | int, ...], str]: ...

    def preload(self, server: ServerSpec, preload: str, *, remote: bool) -> str | None: ...
