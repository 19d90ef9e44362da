"""Start each server that is not the engine once before the trials, and check that it has its settings."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.build.settings_check import LIST, check_tunables, loader_of
from perfrunner.domain import not_checked
from perfrunner.errors import SettingsCheckError, TrialError, UsageError
from perfrunner.experiment.events import Listener, SettingsCheckPassed, Warned
from perfrunner.experiment.trial.command_server import (
    CommandServer,
    CommandSetup,
    ServerCommand,
    free_ports,
)
from perfrunner.experiment.trial.placement import Deployed, Placement, client_python
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.hosts import scripts
from perfrunner.hosts.transport import Transport
from perfrunner.servers.adapter import Adapter, State
from perfrunner.servers.checks import unfit_in_files
from perfrunner.servers.placing import own_allocator, place
from perfrunner.servers.preload import asking, defines, read_back
from perfrunner.servers.prepare import PreparedServer
from perfrunner.servers.redis import SAVES_NOTHING
from perfrunner.servers.registry import ADAPTERS
from perfrunner.spec.allocator import ALIASES, TUNABLES, asked_tunables
from perfrunner.spec.cluster import LOOPBACK
from perfrunner.spec.model import Spec
from perfrunner.spec.server import DIRECTORY
from perfrunner.spec.variant import Variant

if TYPE_CHECKING:
    from perfrunner.experiment.preflight.hosts import RunHosts

READY_TIMEOUT_S = 60.0
STOP_GRACE_S = 5.0
_CHOOSE_CPUS = ("taskset", "numactl")


def place_server(
    spec: Spec,
    variant: Variant,
    server: PreparedServer,
    hosts: RunHosts,
    cache_dir: Path,
    listener: Listener,
) -> PreparedServer:
    """Bring a server to its host over SSH; on this machine it is there. Raises SettingsCheckError."""
    if spec.cluster.transport == "local":
        return server
    (node,) = spec.cluster.engine_nodes
    try:
        placed = place(server, variant, hosts.hosts[node], cache_dir)
    except UsageError as error:
        raise SettingsCheckError(f"variant {variant.name}: {error.message}", error.hint) from error
    listener.on_event(Warned(f"{variant.name}: {placed.provenance['server']['placed']}"))
    return placed


def deploy_server(
    spec: Spec,
    variant: Variant,
    server: PreparedServer,
    hosts: RunHosts,
    tools: Mapping[str, str],
    listener: Listener,
) -> tuple[Deployed, PreparedServer]:
    """Check the server of a variant; return how to start it, and what was found to serve. Raises SettingsCheckError."""
    (node,) = spec.cluster.engine_nodes
    asked = variant.server
    assert asked is not None
    placement = hosts.placements[node]
    host = placement.host
    # In a container it is root, unless the image names another user; memcached ignores its option -u then.
    root = server.image is not None or host.run(["id", "-u"]).stdout.strip() == "0"
    own = asked.own_words[1:]
    directory = DIRECTORY if server.image is None else None
    added = ADAPTERS[server.kind].added(
        own, root=root, listen=placement.listen, directory=directory
    )
    _give_password(variant, hosts, placement, listener)
    command = _command(spec, variant, server, added)
    env = {**server.env, **asking(variant.allocator)}
    if own and server.image is None:
        words = server.arguments[len(server.arguments) - len(own) :]
        _refuse(variant, unfit_in_files(server.kind, words, host))
    process, log, served, tunables = _ask(
        variant, command, env, placement, tools[node], client_python(spec, node)
    )
    kind, state = process.kind, State(**process.state)
    adapter = ADAPTERS[kind]
    _refuse(variant, adapter.unfit(state.settings))
    if server.image is None:
        _refuse_to_save(variant, adapter.saves_to(own, state.settings), placement)
        if len(served) > 2:
            server = server.served_by(served[0], served[1].split()[0], served[2:])
    protocol: str = asked.protocol or process.protocol or next(iter(adapter.spoken(own)), "")
    settings = {
        "server.kind": kind,
        "server.version": state.version or not_checked("any version", None),
        "server.protocol": _spoken(variant, adapter, protocol, own),
        **_checked(variant, kind, (*own, *added), state),
    }
    if asked.image is not None:
        settings["server.image"] = f"{asked.image} {server.provenance['server']['digest']}"
    settings |= _allocator(variant, server, process, log) | tunables
    for name in (TUNABLES, *ALIASES) if tunables else ():
        settings.pop(f"env.{name}", None)
    for text, remedy in _warnings(spec, variant, server, adapter, process):
        listener.on_event(Warned(f"{variant.name}: {text}", remedy))
    listener.on_event(SettingsCheckPassed(variant.name, node, settings))
    deployed = Deployed(
        build_id=server.build_id,
        paths={name: str(server.directory) for name in hosts.placements},
        env=server.env,
        tools=tools,
        server=replace(command, kind=kind, protocol=protocol, files=process.files),
        settings=settings,
    )
    return deployed, server


def _give_password(
    variant: Variant, hosts: RunHosts, placement: Placement, listener: Listener
) -> None:
    """Install the password of a server on all hosts; warn about a server without one that others can reach."""
    asked = variant.server
    assert asked is not None
    if asked.password_env is not None:
        hosts.credentials.servers[variant.name] = os.environ.get(asked.password_env, "")
        for other in hosts.placements.values():
            hosts.credentials.install(other.host, other.credentials.directory)
    elif placement.listen not in LOOPBACK:
        listener.on_event(
            Warned(
                f"{variant.name}: everyone who reaches {placement.host.name} can use the server while it runs:"
                " it listens without a password",
                "give it an address (memcached -l, redis --bind) or a password (server.password_env)",
            )
        )


def _command(
    spec: Spec, variant: Variant, server: PreparedServer, added: Sequence[str]
) -> ServerCommand:
    """Return how to start a server whose kind and protocol may not be known yet."""
    asked = variant.server
    assert asked is not None
    # The kind that is given or that follows from the program's name; for any other program it is asked.
    known = None if server.kind == "other" and asked.kind is None else server.kind
    return ServerCommand(
        program=str(server.program),
        arguments=(*server.arguments, *added),
        kind=known or "",
        protocol=asked.protocol or "",
        library=None if server.library is None else str(server.library),
        password=None if asked.password_env is None else variant.name,
        tolerated=frozenset(
            name for name in ("misses", "errors") if getattr(spec.limits, name) > 0
        ),
        image=server.image,
    )


def _refuse_to_save(variant: Variant, saved: str | None, placement: Placement) -> None:
    """Refuse a server that saves to a directory outside the run's own."""
    if saved is None:
        return
    run_dir = placement.host.run(["readlink", "-f", "--", placement.run_dir]).stdout.strip()
    if not saved.startswith(f"{run_dir}/"):
        _refuse(variant, f"it saves to {saved}: expected {SAVES_NOTHING}")


def _warnings(
    spec: Spec, variant: Variant, server: PreparedServer, adapter: Adapter, process: CommandServer
) -> Iterator[tuple[str, str]]:
    """Yield what disturbs the measurement of a started server, each with what to do."""
    program = None if variant.server is None else variant.server.program
    if program in _CHOOSE_CPUS and spec.engine.cpus != "any":
        text = (
            f"{program} in its command overrides the CPUs that perfrunner gives the servers:"
            " it may share CPUs with the load, or have others than the other variants"
        )
        yield text, "leave it out and set engine.cpus, or set engine.cpus and client.cpus to any"
    # The library of another host cannot be read here.
    library = server.library if spec.cluster.transport == "local" else None
    if library is not None and not defines(library, b"malloc"):
        yield (
            f"{library} defines no malloc: the server keeps its own allocator",
            "preload the library of an allocator, unless that is meant",
        )
    if server.image is not None and process.listener is None:
        text = (
            "the descriptors of its container cannot be read: it is not checked that the container's first"
            " process, which is measured, is the one that serves"
        )
        yield text, "a wrapper script of the image must end with exec"
    for text in (*adapter.warnings(State(**process.state)), adapter.missing):
        if text:
            yield text, ""


def _ask(
    variant: Variant,
    command: ServerCommand,
    env: Mapping[str, str],
    placement: Placement,
    tools: str,
    python: str,
) -> tuple[CommandServer, str, list[str], dict[str, str]]:
    """Start the server in its own directory, query it, and stop it.

    Return the stopped server, what it printed, lines about its process (program, sha256, the words of its command
    line), and the tunables that its loader takes.
    """
    host, directory = placement.host, f"{placement.run_dir}/settings_check"
    host.remove_tree(directory)
    host.makedirs(directory)
    recorder = ScriptRecorder("settings check")
    recorder.add_host(
        host.name, ssh=None, artifact=tools, tools=tools, work={}, script_work=directory
    )
    setup = CommandSetup(
        name="settings_check",
        tools=tools,
        directory=directory,
        credentials=placement.credentials,
        listen=placement.listen,
        address=placement.address,
        port=free_ports(host, python, directory, 1)[0],
        env=env,
        command=command,
        python=python,
    )
    try:
        process = CommandServer.start(host, setup, recorder.variant(0), "")
        try:
            process.wait_ready(time.monotonic() + READY_TIMEOUT_S)
            served = host.run(
                ["sh", "-c", scripts.SERVED_BY, "sh", str(process.handle.pid)], check=False
            )
            tunables = {} if command.image else _tunables(variant, host, process.handle.pid)
            process.stop(time.monotonic())
            log = host.read_text(setup.log)
        finally:
            process.abandon(STOP_GRACE_S)
    except TrialError as error:
        raise SettingsCheckError(f"variant {variant.name}: {error.message}", error.hint) from error
    finally:
        with contextlib.suppress(TrialError):
            host.remove_tree(directory)
    return process, log, served.stdout.splitlines(), tunables


def _tunables(variant: Variant, host: Transport, pid: int) -> dict[str, str]:
    """Return glibc's tunables of a variant as the loader of a process takes them; empty if it lists none.

    Raises SettingsCheckError if one has another value.
    """
    if not asked_tunables(variant.env):
        return {}
    loader = loader_of(host.read_text(f"/proc/{pid}/maps"))
    if loader is None:
        return {}
    listing = host.run([loader, LIST], env=variant.env, check=False).stdout
    return check_tunables(variant, listing) if "glibc." in listing else {}


def _refuse(variant: Variant, wrong: str | None) -> None:
    if wrong is not None:
        raise SettingsCheckError(f"variant {variant.name}: {wrong}")


def _checked(variant: Variant, kind: str, arguments: Sequence[str], state: State) -> dict[str, str]:
    """Return the settings that the arguments ask for, as read back. Raises SettingsCheckError if one differs."""
    adapter = ADAPTERS[kind]
    read = {}
    for name, asked in adapter.requested(arguments).items():
        actual = state.settings.get(name)
        if actual is None:
            read[f"server.{name}"] = not_checked(asked or '""', None)
            continue
        if not adapter.same(asked, actual):
            raise SettingsCheckError(
                f"variant {variant.name}: {name}: the command asks for {asked or 'nothing'},"
                f" the server has {actual or 'nothing'}",
                "the server's limits or its configuration file may overrule the command",
            )
        read[f"server.{name}"] = actual
    return read


def _allocator(
    variant: Variant, server: PreparedServer, process: CommandServer, log: str
) -> dict[str, str]:
    """Return the preloaded library and the options of allocators. Raises SettingsCheckError.

    `server` knows what a wrapper script became, and `log` is what it printed.
    """
    settings, library = {}, process.setup.command.library
    if library is not None:
        settings["allocator.preload"] = library
        if server.serves is not None:
            _refuse(variant, own_allocator(process.host, str(server.serves), process.kind))
    try:
        return settings | read_back(variant.allocator, variant.env, log)
    except ValueError as error:
        raise SettingsCheckError(
            f"variant {variant.name}: {'env' if library is None else 'allocator.options'}: {error}",
            "remove the option, or correct its name or value",
        ) from error


def _spoken(variant: Variant, adapter: Adapter, protocol: str, own: Sequence[str]) -> str:
    if wrong := adapter.wrong_protocol(protocol, own):
        raise SettingsCheckError(f"variant {variant.name}: server.protocol: {wrong}")
    if not protocol:
        raise SettingsCheckError(
            f"variant {variant.name}: the server speaks neither memcached's protocols nor Redis'",
            "set the variant's server.protocol (ab: --protocol)",
        )
    return protocol
