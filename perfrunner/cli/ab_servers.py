"""`perfrunner ab` for servers that are not the engine: commands with {port}, allocators, revisions of a repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from perfrunner.errors import SpecError, UsageError
from perfrunner.spec.suggest import selection

if TYPE_CHECKING:
    from perfrunner.spec.model import Spec
    from perfrunner.spec.pair import Command
    from perfrunner.spec.variant import Variant

PORT = "{port}"


@dataclass(frozen=True)
class PairOptions:
    """The options that only `ab` has; all but the last three are about servers."""

    preload: str | None = None
    build: str | None = None
    run_command: str | None = None
    protocol: str | None = None
    password_env: str | None = None
    value_size: str | None = None
    items: str | None = None
    blocks: int | None = None
    if_same: str = "refuse"

    def concerns(self, sources: Sequence[str]) -> bool:
        """Return whether the arguments compare servers, rather than sources of the engine."""
        return bool(self.preload or self.run_command) or any(PORT in text for text in sources)

    def refuse_for_engine(self) -> None:
        """Raise UsageError for an option that has no meaning for the engine."""
        for name, value in (
            ("--build", self.build),
            ("--protocol", self.protocol),
            ("--password-env", self.password_env),
            ("--value-size", self.value_size),
        ):
            if value is not None:
                raise UsageError(
                    f"{name} is for servers that are given as commands",
                    "give commands with {port}, or --run 'COMMAND' with REPOSITORY@REVISION",
                )


def server_spec(sources: Sequence[str], given: PairOptions, workloads: Sequence[str]) -> Spec:
    """Return the spec that compares the servers. Raises UsageError, before anything starts."""
    from perfrunner.spec.pair import server_document
    from perfrunner.spec.small import SERVER_BLOCKS, SERVER_WORKLOADS

    try:
        variants = _variants(sources, given)
    except ValueError as error:
        raise UsageError(str(error)) from None
    chosen = selection("workload", tuple(workloads), tuple(SERVER_WORKLOADS)) or ("mixed",)
    changes: dict[str, Any] = {}
    if given.items is not None:
        changes["items"] = int(given.items) if given.items.isdigit() else given.items
    if given.value_size is not None:
        size = given.value_size
        changes["value_size"] = int(size) if size.isdigit() else size
    document = server_document(
        variants,
        {name: {**SERVER_WORKLOADS[name], **changes} for name in chosen},
        given.blocks or SERVER_BLOCKS,
    )
    return _validated(document)


def same_servers(spec: Spec) -> str | None:
    """Return a message if all variants are the same command of the same commit, else None."""
    first, *others = (_described(variant) for variant in spec.variants.values())
    if any(other != first for other in others):
        return None
    what = "command" if first["server"]["git"] is None else "commit"
    return f"{' and '.join(spec.variants)} are the same {what}: there is nothing to compare"


def _described(variant: Variant) -> dict[str, Any]:
    """Return all that makes a variant but its name: of a revision its commit, of an allocator its library."""
    from perfrunner.servers.preload import find_library
    from perfrunner.servers.prepare import commit_of
    from perfrunner.spec.allocator import is_crate

    assert variant.server is not None
    document = variant.model_dump(mode="json", exclude={"name"})
    if variant.server.git is not None:
        document["server"]["revision"] = commit_of(variant.server).sha
    preload = variant.allocator.preload
    if preload is not None and not is_crate(preload):
        document["allocator"]["preload"] = str(find_library(preload))
    return document


def _variants(sources: Sequence[str], given: PairOptions) -> dict[str, dict[str, Any]]:
    from perfrunner.spec.pair import (
        build_steps,
        command_of,
        of_commands,
        of_preloads,
        of_revisions,
    )

    options = {"protocol": given.protocol, "password_env": given.password_env}
    settings = {name: value for name, value in options.items() if value is not None}
    if given.run_command is not None:
        if given.preload is not None:
            raise UsageError(
                "--preload cannot be used with --run", "compare them one after the other"
            )
        _at_least_two(sources, "REPOSITORY@REVISION")
        try:
            steps = [] if given.build is None else build_steps(given.build)
        except ValueError as error:
            raise UsageError(f"--build {given.build!r}: {error}") from None
        return of_revisions(
            sources,
            steps,
            _split("--run", given.run_command, partial(command_of, built=True)),
            settings,
        )
    if given.build is not None:
        raise UsageError("--build needs --run 'COMMAND', which starts the built program")
    commands = [_split("command", text, command_of) for text in sources]
    if given.preload is None:
        _at_least_two(sources, "commands")
        return of_commands(commands, settings)
    preloads = [name.strip() for name in given.preload.split(",") if name.strip()]
    _at_least_two(preloads, "allocators in --preload (glibc is one)")
    if len(sources) != 1:
        raise UsageError(f"--preload takes one command, got {len(sources)}")
    return of_preloads(commands[0], preloads, settings)


def _split(what: str, text: str, split: Callable[[str], Command]) -> Command:
    from perfrunner.spec.pair import shell_part

    if part := shell_part(text.strip()):
        raise UsageError(
            f"{what} {text!r}: {part} needs a shell, and the command is started without one",
            'put what needs a shell into a script that ends with `exec PROGRAM "$@"`, and give the script; what'
            " the server prints is kept with each trial",
        )
    try:
        return split(text)
    except ValueError as error:
        hint = "write {port} where the port belongs: perfrunner chooses a free one for each start"
        raise UsageError(f"{what} {text!r}: {error}", None if PORT in text else hint) from None


def _at_least_two(given: Sequence[str], what: str) -> None:
    if len(given) < 2:
        raise UsageError(f"expected at least 2 {what}, got {len(given)}")


def _validated(document: dict[str, Any]) -> Spec:
    """Read the document as a spec file would be read, so that its errors are the same."""
    import tempfile

    from perfrunner.servers.checks import ChecksHere
    from perfrunner.spec.loader import load_spec

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ab.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        try:
            return load_spec(path, servers=ChecksHere())
        except SpecError as error:
            texts = [problem.partition(": ")[2] for problem in error.problems]
            raise UsageError("\n".join(texts), error.hint) from None
