"""Build the spec of a comparison without a spec, for `perfrunner ab` and each step of `perfrunner bisect`.

`pair` compares two sources of the engine, or revisions of the repository that another server is built from; everything
but the variants comes from another spec (default: SMALL, which takes about a minute). `server_document` compares
servers that are given as commands.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from perfrunner.errors import UsageError
from perfrunner.paths import absolute_variable, absolute_word, is_directory, with_home
from perfrunner.spec.matrix import variant_name
from perfrunner.spec.model import Spec
from perfrunner.spec.server import DIRECTORY, PORT, own_words, step_words
from perfrunner.spec.small import LOCAL_CLUSTER, SMALL
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.variant import Variant
from perfrunner.spec.yaml_core import CoreDumper


def small_spec() -> Spec:
    """Return SMALL as a validated spec."""
    return Spec.model_validate(SMALL)


def pair(
    base: Spec, name: str, sources: Mapping[str, SourceSpec], settings: str | None = None
) -> Spec:
    """Return `base` with one variant for each source.

    All variants take their settings from one variant of `base`: `settings`, or else its baseline. The first
    variant becomes the baseline. `name` is converted to a valid experiment name. Raises UsageError if the
    settings are those of another server that is not built from a repository.
    """
    like = base.variants[settings or base.baseline]
    variants = {variant: _of_source(like, variant, source) for variant, source in sources.items()}
    of = "the engine" if like.server is None else like.server.program
    return base.model_copy(
        update={
            "name": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64] or "ab",
            "description": f"{' against '.join(reversed([*sources]))}: two sources of {of}",
            "variants": variants,
            "baseline": next(iter(sources)),
            "profile": None,  # its overlay is part of the spec already
            "published": None,  # published values belong to other variants
            "expected_gains": (),
        }
    )


def _of_source(like: Variant, name: str, source: SourceSpec) -> Variant:
    if like.server is None:
        return like.model_copy(update={"name": name, "source": source})
    if like.server.git is None or source.git is None or source.patch is not None:
        raise UsageError(
            f"variant {like.name} is another server than the engine, and"
            + (
                " is not built from a repository"
                if like.server.git is None
                else f" {source.text} is no revision of its repository"
            ),
            "compare commands: perfrunner ab 'COMMAND {port}' 'COMMAND {port}'",
        )
    server = like.server.model_copy(update={"revision": source.git})
    return like.model_copy(update={"name": name, "server": server})


def spec_document(spec: Spec) -> str:
    """Format a spec as self-contained YAML that load_spec reads back as the same spec."""
    document = spec.model_dump(mode="json", exclude_none=True, exclude={"profile"})
    for variant in document["variants"].values():
        variant.pop("name")  # its key
    return yaml.dump(document, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=100)


Variants = dict[str, dict[str, Any]]
_EXPANDED = re.compile(r"\$[A-Za-z_]\w*|\$[({@*#?$!0-9-]|`")  # by a shell, also in double quotes
_OPERATOR = re.compile(r"&&|\|\||\d?>>?(&\d?)?|<+|[|&;()\n]")
_OF_SHELLS = frozenset(
    (".", "!", "cd", "command", "eval", "exec", "export", "set", "source", "ulimit", "umask", "unset")
)  # fmt: skip
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_LONGEST = 60  # characters of a variant's name


@dataclass(frozen=True)
class Command:
    """A command as it was typed: its words, and the variables that were set in front of them."""

    words: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        """The program that serves, which may follow a launcher such as `taskset -c 0`."""
        return self.words[self._own]

    @property
    def named_words(self) -> list[str]:
        """The words that distinguish it, without the program."""
        env = (f"{name}={value}" for name, value in self.env.items())
        return [*env, *self.words[: self._own], *self.words[self._own + 1 :]]

    @property
    def _own(self) -> int:
        return len(self.words) - len(own_words(self.words) or self.words)

    def variant(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of a variant."""
        env = {"env": dict(self.env)} if self.env else {}
        return {"server": {**settings, "command": list(self.words)}, **env}


def shell_part(command: str) -> str | None:
    """Return the first part of a command that only a shell acts on: `|`, `$NAME`, `exec`; None if there is none."""
    quote, word_begins, at = "", True, 0
    while at < len(command):
        character = command[at]
        if character == "\\" and quote != "'":
            at += 2
            word_begins = False
            continue
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif quote != "'" and (match := _EXPANDED.match(command, at)):
            return match[0]
        elif not quote and (match := _OPERATOR.match(command, at)):
            return match[0].strip() or "a line break"
        elif not quote and character == "#" and word_begins:
            return "#"
        word_begins = character.isspace()
        at += 1
    first = next((word for word in command.split() if not _ASSIGNMENT.fullmatch(word)), "")
    return first if first in _OF_SHELLS else None


def command_of(text: str, *, built: bool = False) -> Command:
    """Split a command as a shell would, without running one. Raises ValueError.

    Paths that begin with `~` are expanded. The paths of the program, also behind a launcher such as `taskset`, and of
    files that exist become absolute, unless it is `built` and they lie in a checkout.
    """
    words = shlex.split(text.replace("\\\n", ""))
    env = {}
    while words and (assigned := _ASSIGNMENT.fullmatch(words[0])):
        env[assigned["name"]] = assigned["value"]
        del words[0]
    if not words:
        raise ValueError("it is empty")
    for name, value in env.items():
        if PORT in value or DIRECTORY in value:
            raise ValueError(
                f"nothing is replaced in variables: begin the command with env {name}={value} {words[0]}"
            )
    if not any(PORT in word for word in words):
        raise ValueError(f"it has no {PORT}")
    words = [str(with_home(word)) if word.startswith("~/") else word for word in words]
    if not built:
        env = {name: absolute_variable(name, value, Path.cwd()) for name, value in env.items()}
        words[1:] = (absolute_word(word, Path.cwd()) for word in words[1:])
    for at in {0, len(words) - len(own_words(words))} if not built else ():
        if at < len(words) and ("/" in words[at] or words[at].startswith("~")):
            words[at] = str(with_home(words[at]).absolute())
    return Command(words, env)


def build_steps(text: str) -> list[list[str]]:
    """Return the commands of --build."""
    words = step_words(text)
    return [words] if words else []


def of_commands(commands: Sequence[Command], settings: Mapping[str, Any]) -> Variants:
    """Return a variant for each command, named by the words in which the commands differ."""
    words = [[command.program, *command.named_words] for command in commands]
    common = set(words[0]).intersection(*words[1:])
    names = []
    for command in words:
        own = [word for word in command[1:] if word not in common and PORT not in word]
        # An option is named with its value, also where only one of them differs: `-t 2`.
        texts = [
            f"{before}={_short(word)}"
            if before.startswith("-") and before in common
            else _short(word)
            for before, word in itertools.pairwise(command)
            if word in own
        ]
        names.append("-".join([Path(command[0]).name, *(text.strip("-") for text in texts)]))
    programs = [Path(command[0]).name for command in words]
    if len(set(programs)) == len(programs):
        names = programs  # nothing else is needed to tell them apart
    return {
        name: command.variant(settings)
        for name, command in zip(_distinct(names, words), commands, strict=True)
    }


def _short(word: str) -> str:
    """Return a word as it is named: a file without its directory."""
    return Path(word).name if word.startswith("/") else word


def of_preloads(command: Command, preloads: Sequence[str], settings: Mapping[str, Any]) -> Variants:
    """Return a variant of one command for each preloaded allocator."""
    names = _distinct([Path(preload).name for preload in preloads], [[p] for p in preloads])
    return {
        name: {
            **command.variant(settings),
            "allocator": {
                "preload": str(with_home(preload).absolute()) if "/" in preload else preload
            },
        }
        for name, preload in zip(names, preloads, strict=True)
    }


def of_revisions(
    sources: Sequence[str],
    build: Sequence[Sequence[str]],
    command: Command,
    settings: Mapping[str, Any],
) -> Variants:
    """Return a variant for each `REPOSITORY@REVISION`. Raises ValueError."""
    pairs = []
    for text in sources:
        repository, revision = _repository_and_revision(text)
        if not repository or not revision:
            raise ValueError(f"{text}: expected REPOSITORY@REVISION, such as ~/redis@unstable")
        pairs.append((str(with_home(repository).absolute()), revision))
    names = _distinct([f"{Path(git).name}-{revision}" for git, revision in pairs], pairs)
    steps = [list(step) for step in build]
    return {
        name: command.variant({**settings, "git": git, "revision": revision, "build": steps})
        for name, (git, revision) in zip(names, pairs, strict=True)
    }


def _repository_and_revision(text: str) -> tuple[str, str]:
    """Split at the `@` behind the longest directory, else at the last one: both parts may contain others."""
    places = [place for place, character in enumerate(text) if character == "@"]
    behind_directories = [at for at in places if at and is_directory(with_home(text[:at]))]
    at = max(behind_directories or places, default=0)
    return text[:at], text[at + 1 :]


def server_document(
    variants: Variants, workloads: Mapping[str, Mapping[str, Any]], blocks: int
) -> dict[str, Any]:
    """Return the spec as plain values; the first variant is the baseline."""
    names = list(variants)
    text = "-".join(["ab", *names]).lower()
    return {
        "name": "".join(c if c.isalnum() else "-" for c in text)[:64].strip("-"),
        "description": f"{' against '.join(reversed(names))}",
        "cluster": LOCAL_CLUSTER,
        "variants": variants,
        "baseline": names[0],
        "workloads": {name: dict(workload) for name, workload in workloads.items()},
        "blocks": blocks,
        "sampling_check": False,
    }


def _distinct(names: Sequence[str], of: Sequence[Sequence[str]]) -> list[str]:
    """Make names of variants; a program of the same name is distinguished by its directory, else by a number."""
    named = [variant_name(name[:_LONGEST]) for name in names]
    directories = [Path(arguments[0]).parent.name for arguments in of]
    if len(set(named)) < len(named) and len(set(directories)) > 1 and all("/" in o[0] for o in of):
        both = zip(directories, named, strict=True)
        named = [variant_name(f"{directory}-{name}"[:_LONGEST]) for directory, name in both]
    unique: list[str] = []
    for name in named:
        number, candidate = 1, name
        while candidate in unique:
            number += 1
            candidate = f"{name}-{number}"
        unique.append(candidate)
    return unique
