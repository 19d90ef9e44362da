"""Check the settings of a variant by reading them back from a started server.

The check covers build switches, allocator options, engine parameters and glibc tunables. It runs once per variant,
between the build and the first trial.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.domain import not_checked
from perfrunner.errors import HostError, SettingsCheckError
from perfrunner.hosts.process import foreign_variables
from perfrunner.spec.allocator import CHECK, SYSTEM, TUNABLES, asked_tunables
from perfrunner.spec.suggest import did_you_mean
from perfrunner.spec.switches import stat_key
from perfrunner.spec.variant import ALLOCATOR, OPTIONS, PARAMS, Variant

if TYPE_CHECKING:
    from perfrunner.hosts import Host, Process
    from perfrunner.spec.model import EngineSpec


LIST = "--list-tunables"
_LINE = re.compile(r"(glibc\.[\w.]+): *(\S*)(?: +\(.*\))?")
_LOADER = re.compile(r"(/\S*/ld(?:-linux)?[-.\w]*\.so\.\d+)$", re.MULTILINE)


def loader_of(maps: str) -> str | None:
    """Return the path of the dynamic loader from the text of /proc/PID/maps; None for a static program."""
    match = _LOADER.search(maps)
    return match[1] if match else None


def check_tunables(variant: Variant, listing: str) -> dict[str, str]:
    """Return the value in `listing` of each requested tunable.

    Raises SettingsCheckError for the first tunable that is unknown or has another value.
    """
    lines = map(_LINE.fullmatch, listing.splitlines())
    taken = {match[1]: match[2] for match in lines if match}
    read: dict[str, str] = {}
    for name, asked in asked_tunables(variant.env).items():
        if name not in taken:
            raise SettingsCheckError(
                f"variant {variant.name}: env.{TUNABLES}: the host's glibc has no tunable"
                f" {name}{did_you_mean(name, taken)}",
                hint=f"`ld.so {LIST}` on the host lists the names",
            )
        if _number(asked) != _number(taken[name]):
            raise SettingsCheckError(
                f"variant {variant.name}: env.{TUNABLES}: {name}: asked for {asked}, glibc has"
                f" {taken[name] or 'no value'}",
                hint=f"`ld.so {LIST}` on the host shows the valid range",
            )
        if name == CHECK and _number(asked) != 0 and not _has_malloc_debug(variant):
            raise SettingsCheckError(
                f"variant {variant.name}: env: {name} has no effect since glibc 2.34"
                " unless libc_malloc_debug.so.0 is preloaded",
                hint="remove it (also as MALLOC_CHECK_), or preload that library's path into a server",
            )
        read[f"env.{name}"] = taken[name]
    return read


def _has_malloc_debug(variant: Variant) -> bool:
    return "libc_malloc_debug.so" in (variant.allocator.preload or "")


def _number(text: str) -> int | str:
    """Parse a number as glibc does (strtoul, base 0); return other text unchanged."""
    try:
        return int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text, 0)
    except ValueError:
        return text


Stats = Mapping[str, Mapping[str, str]]

_TRUE, _FALSE = ("true", "on", "yes"), ("false", "off", "no")
_COMPLAINT = re.compile(r"<jemalloc>:.*\b(conf|option)", re.IGNORECASE)
# Reported by the crates of 4.5.0 and 5.0.1, which lack jemalloc's VERSION file.
_NO_VERSION = "0.0.0"


@dataclass(frozen=True)
class Setting:
    """One requested setting: `key` of STAT `group` must read `expected`. `name` is the setting's path in the spec."""

    name: str
    group: str
    key: str
    expected: str
    remedy: str


def settings_of(variant: Variant, params: Mapping[str, str]) -> list[Setting]:
    """Return every setting of a variant that the engine can report."""
    allocator = variant.allocator.name
    rebuild = _remedy(variant)
    wanted = [Setting("allocator.name", "allocator", "name", allocator, rebuild)]
    wanted += [
        Setting(
            f"allocator.options.{key}",
            "allocator",
            f"opt.{key}",
            value,
            f"check that this version of {allocator} knows {key} and this value",
        )
        for key, value in variant.allocator.all_options.items()
    ]
    wanted += [
        Setting(f"options.{name}", "config", stat_key(name), value, rebuild)
        for name, value in variant.options.items()
    ]
    wanted += [
        Setting(f"params.{name}", "config", name, value, "`kv_engine --help` shows the valid range")
        for name, value in params.items()
    ]
    return wanted


def _remedy(variant: Variant) -> str:
    """Return the hint for a build that lacks a setting. Another revision may never have had it."""
    if variant.source is not None:
        return (
            f"the engine of {variant.source.text} may not know this setting, or report it differently: remove the"
            " setting, use the perfrunner of that time, or name the setting in the variant's settings_check.skip"
        )
    return "the build cache holds another build: run `perfrunner clean --builds`, then build again"


def check_readback(variant: Variant, params: Mapping[str, str], stats: Stats) -> dict[str, str]:
    """Compare every setting with the engine's answers and return the values that were read, by setting.

    Raises SettingsCheckError for the first setting that differs, unless the variant skips its check. Such a setting is
    recorded as not checked (domain.unchecked).
    """
    read: dict[str, str] = {}
    for setting in settings_of(variant, params):
        actual = stats.get(setting.group, {}).get(setting.key)
        agrees = actual is not None and same_value(setting.expected, actual)
        if not agrees and variant.skips(setting.name):
            read[setting.name] = not_checked(setting.expected, actual)
            continue
        if actual is None:
            raise SettingsCheckError(
                f"variant {variant.name}: {setting.name} = {setting.expected} cannot be read back:"
                f" STAT {setting.group} has no {setting.key}",
                hint=setting.remedy,
            )
        if not agrees:
            raise SettingsCheckError(
                f"variant {variant.name}: {setting.name}: asked for {setting.expected},"
                f" the engine has {actual}",
                hint=setting.remedy,
            )
        read[setting.name] = actual
    return {**read, **_check_version(variant, stats)}


def groups_asked(variant: Variant) -> tuple[str, ...]:
    """Return the STAT groups to request. A group whose checks are all skipped may not exist in the engine."""
    groups = {"allocator": (ALLOCATOR,), "config": (OPTIONS, PARAMS)}
    return tuple(
        group for group, kinds in groups.items() if not all(variant.skips(kind) for kind in kinds)
    )


def check_complaints(variant: Variant, log: str) -> None:
    """Raise SettingsCheckError if the log has a complaint of the allocator.

    jemalloc ignores options that it does not understand, and reports them on standard error.
    """
    for line in log.splitlines():
        if _COMPLAINT.search(line):
            raise SettingsCheckError(
                f"variant {variant.name}: {variant.allocator.name} rejects its options"
                f" ({variant.allocator.option_string or 'none in the spec'}): {line.strip()}",
                hint="correct allocator.options; not every version knows every option",
            )


def same_value(expected: str, actual: str) -> bool:
    """Tell whether two values are equal as text, as truth values or as numbers."""
    a, b = expected.strip().lower(), actual.strip().lower()
    if a == b:
        return True
    for names in (_TRUE, _FALSE):
        if a in names:
            return b in names or b == ("1" if names is _TRUE else "0")
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def _check_version(variant: Variant, stats: Stats) -> dict[str, str]:
    """Check the allocator's version.

    Returns an entry only if the version is not checked, or is that of a library of the system: otherwise the
    allocator's name already holds it.
    """
    family, _, version = variant.allocator.name.partition("-")
    actual = stats.get("allocator", {}).get("version")
    text = actual or ""
    if family == SYSTEM or text.startswith((f"{version}-", _NO_VERSION)):
        return {}
    if text and not version:
        return {"allocator.version": text}
    if text and text == version:
        return {}
    if variant.skips("allocator.version"):
        return {"allocator.version": not_checked(version, actual)}
    raise SettingsCheckError(
        f"variant {variant.name}: asked for {family} {version}, the allocator reports"
        f" {f'version {text}' if text else 'no version'}",
        hint=_remedy(variant),
    )


READY_TIMEOUT_S = 60.0
_READY_POLL_S = 0.05
_STAT_TIMEOUT_S = 30.0
_STOP_GRACE_S = 30.0
_NAME = "settings_check"
_LOG_LINES = 5


@dataclass(frozen=True)
class SettingsCheck:
    """The result of a settings check.

    `settings` are the values by setting, as read back or marked as not checked (domain.unchecked). `stats` are the STAT
    groups that were requested.
    """

    settings: Mapping[str, str]
    stats: Mapping[str, Mapping[str, str]]


def check(
    host: Host,
    deployed: str,
    variant: Variant,
    engine: EngineSpec,
    *,
    params: Mapping[str, str] | None = None,
    tools: str | None = None,
) -> SettingsCheck:
    """Start the engine of `deployed` (returned by Host.deploy) as `variant` and read every setting back.

    `params` are the parameters of the engine and the variant together (Spec.params_of; default: the variant's alone).
    `tools` is the artifact whose kvctl is used (default: the engine's). The engine runs on port 0, without data.
    Raises SettingsCheckError, which names the variant, the setting, the expected and the actual value.
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
            tunables = _check_environment(host, process, variant)
        except BaseException:
            with contextlib.suppress(HostError):
                process.stop(2.0)
            raise
        log = transport.read_text(f"{directory}/log")
        stopped = process.stop(_STOP_GRACE_S)
        check_complaints(variant, log)
        settings = check_readback(variant, asked, stats)
        if not stopped.status.ok:
            raise SettingsCheckError(
                f"variant {variant.name}: the engine did not stop cleanly ({stopped.status})"
                f"{_log_tail(transport.read_text(f'{directory}/log'))}"
            )
        return SettingsCheck({**settings, **tunables}, stats)
    finally:
        with contextlib.suppress(HostError):
            transport.remove_tree(directory)


def engine_environment(variant: Variant) -> dict[str, str]:
    """Return the environment variables with which an engine of this variant is started."""
    return {**variant.env, **variant.allocator.linked_environment}


def _check_environment(host: Host, process: Process, variant: Variant) -> dict[str, str]:
    """Check that the running engine has exactly its variables, and that its loader accepted every tunable."""
    env = engine_environment(variant)
    transport = host.transport
    if foreign := foreign_variables(transport.read_text(f"/proc/{process.pid}/environ"), env):
        raise SettingsCheckError(
            f"variant {variant.name}: the environment of the engine on {host.name} differs from the one it was given:"
            f" {', '.join(foreign)}"
        )
    if not asked_tunables(env):
        return {}
    loader = loader_of(transport.read_text(f"/proc/{process.pid}/maps"))
    if loader is None:
        raise SettingsCheckError(
            f"variant {variant.name}: cannot check env.{TUNABLES}: the engine has no dynamic loader"
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
        reason = done.stderr.strip() or done.stdout.strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = f"no JSON of {' and '.join(asked)}: {done.stdout[:200]}"
    raise SettingsCheckError(
        f"variant {variant.name}: kvctl stat ended with status {done.exit}: {reason[-500:]}",
        hint=None
        if variant.source is None
        else (
            f"the engine of {variant.source.text} may not have STAT {' and '.join(asked)}:"
            " name the settings that it cannot report in the variant's settings_check.skip"
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
            raise SettingsCheckError(
                f"variant {variant.name}: the engine does not start on {host.name} ({ended})"
                f"{_log_tail(log)}",
                hint=_revision_hint(variant),
            )
        if transport.exists(f"{directory}/port"):
            text = transport.read_text(f"{directory}/port").strip()
            if text.isdigit():
                return int(text)
        if time.monotonic() > deadline:
            raise SettingsCheckError(
                f"variant {variant.name}: the engine on {host.name} was not ready within"
                f" {READY_TIMEOUT_S:g} s{_log_tail(transport.read_text(f'{directory}/log'))}"
            )
        time.sleep(_READY_POLL_S)


def _revision_hint(variant: Variant) -> str | None:
    """Return a hint about an engine from another source than the one in use; None for the one in use."""
    if variant.source is None:
        return None
    return (
        f"the engine of {variant.source.text} may lack a flag or a parameter"
        " that this perfrunner or the spec passes to it"
    )


def _log_tail(log: str) -> str:
    """Return the last lines of a log, to append to an error message."""
    lines = [line.strip() for line in log.splitlines() if line.strip()][-_LOG_LINES:]
    return f": {' | '.join(lines)[-800:]}" if lines else ""
