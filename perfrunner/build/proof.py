"""Proof by read-back: the engine, started as a trial will start it, says that it has the variant's settings."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.build.readback import Stats, check_complaints, check_readback, groups_asked
from perfrunner.build.tunables import LIST, check_tunables, loader_of, wants_tunables
from perfrunner.cluster.environment import foreign_variables
from perfrunner.errors import HostError, ProofError
from perfrunner.spec.allocator import SYSTEM
from perfrunner.spec.tunables import TUNABLES

if TYPE_CHECKING:
    from perfrunner.cluster import Host, Process
    from perfrunner.spec.model import EngineSpec
    from perfrunner.spec.variant import Variant

CONF_VARIABLE = "_RJEM_MALLOC_CONF"  # every jemalloc of ours is linked under the prefix _rjem_
READY_TIMEOUT_S = 60.0
_READY_POLL_S = 0.05
_STAT_TIMEOUT_S = 30.0
_STOP_GRACE_S = 30.0
_NAME = "proof"
_LOG_LINES = 5


@dataclass(frozen=True)
class Proof:
    """`settings`: what was asked, as read back or as not proved (spec.proof); `stats`: the groups that were asked."""

    settings: Mapping[str, str]
    stats: Mapping[str, Mapping[str, str]]


def prove(
    host: Host,
    deployed: str,
    variant: Variant,
    engine: EngineSpec,
    *,
    params: Mapping[str, str] | None = None,
    tools: str | None = None,
) -> Proof:
    """Start the engine of `deployed` (Host.deploy's answer) as `variant` and read every setting back.

    `params` are the engine's and the variant's together (Spec.params_of); without them the variant's alone.
    `tools`: the artifact whose kvctl asks; the engine's own if nothing is said. On port 0, without data.
    ProofError names the variant, the setting, what was expected and what was found.
    """
    asked = dict(variant.params if params is None else params)
    directory = f"{host.work_dir}/{_NAME}"
    transport = host.transport
    transport.remove_tree(directory)
    transport.makedirs(f"{directory}/data")
    try:
        process = host.start(
            _engine_argv(deployed, directory, engine, asked),
            name=_NAME,
            log_stdout=f"{directory}/out",
            log_stderr=f"{directory}/log",
            env=engine_environment(variant),
            cwd=directory,
        )
        try:
            stats = _ask(host, process, variant, tools or deployed, directory)
            tunables = _prove_environment(host, process, variant)
        except BaseException:
            with contextlib.suppress(HostError):
                process.stop(2.0)
            raise
        log = transport.read_text(f"{directory}/log")
        stopped = process.stop(_STOP_GRACE_S)
        check_complaints(variant, log)
        settings = check_readback(variant, asked, stats)
        if not stopped.status.ok:
            raise ProofError(
                f"variant {variant.name}: the engine did not stop cleanly ({stopped.status})"
                f"{_last_words(transport.read_text(f'{directory}/log'))}"
            )
        return Proof({**settings, **tunables}, stats)
    finally:
        with contextlib.suppress(HostError):
            transport.remove_tree(directory)


def engine_environment(variant: Variant) -> dict[str, str]:
    """The variables with which an engine of this variant is started."""
    env = dict(variant.env)
    if variant.allocator.name != SYSTEM:
        # Also when it is empty: nothing may come from the host's own environment.
        env[CONF_VARIABLE] = variant.allocator.option_string
    return env


def _prove_environment(host: Host, process: Process, variant: Variant) -> dict[str, str]:
    """The running engine has its variables and no others; its loader took every tunable among them."""
    env = engine_environment(variant)
    transport = host.transport
    if foreign := foreign_variables(transport.read_text(f"/proc/{process.pid}/environ"), env):
        raise ProofError(
            f"variant {variant.name}: the engine on {host.name} has another environment than it was given:"
            f" {', '.join(foreign)}"
        )
    if not wants_tunables(env):
        return {}
    loader = loader_of(transport.read_text(f"/proc/{process.pid}/maps"))
    if loader is None:
        raise ProofError(
            f"variant {variant.name}: env.{TUNABLES} cannot be proved: the engine has no dynamic loader"
        )
    return check_tunables(variant, transport.run([loader, LIST], env=env, check=False).stdout)


def _engine_argv(
    deployed: str, directory: str, engine: EngineSpec, params: Mapping[str, str]
) -> list[str]:
    return [
        f"{deployed}/bin/kv_engine",
        "--host=127.0.0.1",
        "--port=0",
        f"--port-file={directory}/port",
        f"--data-dir={directory}/data",
        "--bucket-type=ephemeral",
        f"--quota-mb={engine.quota_mb}",
        f"--vbuckets={engine.vbuckets}",
        f"--threads={engine.threads}",
        f"--shards={engine.shards}",
        *(f"--param={key}={value}" for key, value in params.items()),
    ]


def _ask(host: Host, process: Process, variant: Variant, tools: str, directory: str) -> Stats:
    port = _wait_ready(host, process, variant, directory)
    asked = groups_asked(variant)
    if not asked:
        return {}
    argv = [f"{tools}/bin/kvctl", "--host=127.0.0.1", f"--port={port}", "stat", *asked]
    done = host.transport.run(argv, timeout=_STAT_TIMEOUT_S, check=False)
    try:
        if done.exit == 0:
            groups = json.loads(done.stdout)
            return {
                group: {str(key): str(value) for key, value in groups[group].items()}
                for group in asked
            }
        said = done.stderr.strip() or done.stdout.strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        said = f"no JSON of {' and '.join(asked)}: {done.stdout[:200]}"
    raise ProofError(
        f"variant {variant.name}: kvctl stat ended with status {done.exit}: {said[-500:]}",
        hint=None
        if variant.source is None
        else (
            f"the engine of {variant.source.text} may not have STAT {' and '.join(asked)}:"
            " the variant's proof.skip leaves out what it cannot tell"
        ),
    )


def _wait_ready(host: Host, process: Process, variant: Variant, directory: str) -> int:
    transport = host.transport
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        ended = process.poll()
        if ended is not None:
            log = transport.read_text(f"{directory}/log")
            check_complaints(variant, log)
            raise ProofError(
                f"variant {variant.name}: the engine does not start on {host.name} ({ended})"
                f"{_last_words(log)}",
                hint=_of_another_time(variant),
            )
        if transport.exists(f"{directory}/port"):
            text = transport.read_text(f"{directory}/port").strip()
            if text.isdigit():
                return int(text)
        if time.monotonic() > deadline:
            raise ProofError(
                f"variant {variant.name}: the engine on {host.name} was not ready within"
                f" {READY_TIMEOUT_S:g} s{_last_words(transport.read_text(f'{directory}/log'))}"
            )
        time.sleep(_READY_POLL_S)


def _of_another_time(variant: Variant) -> str | None:
    """What may be behind it when the engine is not the one in use."""
    if variant.source is None:
        return None
    return (
        f"the engine of {variant.source.text} may lack a flag or a parameter"
        " that this perfrunner or the spec gives it"
    )


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()][-_LOG_LINES:]
    return f": {' | '.join(lines)[-800:]}" if lines else ""
