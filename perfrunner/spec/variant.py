"""Define a variant of an experiment: a build and its run-time settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from perfrunner.errors import UsageError
from perfrunner.spec.allocator import SYSTEM, AllocatorSpec, env_problems
from perfrunner.spec.base import ListAsTuple, Piece, ScalarText, VariantName, matching, refuse
from perfrunner.spec.server import DIRECTORY, PORT, ServerSpec, lost_libraries
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.suggest import misspelt
from perfrunner.spec.switches import checked_options

ParamName = Annotated[str, matching(r"[a-z][a-z0-9_]*", "a parameter name of a-z, 0-9 and '_'")]
ParamValue = Annotated[
    ScalarText,
    matching(r"[A-Za-z0-9._:/+-]+", "a value of letters, digits and '.', '_', ':', '/', '-'"),
]

EnvName = Annotated[
    str,
    matching(
        r"[A-Za-z_][A-Za-z0-9_]*", "an environment variable's name of letters, digits and '_'"
    ),
]
EnvValue = Annotated[ScalarText, matching(r"[\x20-\x7e]*", "printable ASCII text")]


# engine_src/server/params.cc
PARAM_NAMES = (
    "max_connections", "reserved_connections", "read_buffer_kb", "max_requests_per_turn", "max_unsent_kb",
    "max_buffered_mb", "idle_partial_s", "frame_deadline_s", "login_timeout_s", "max_before_login_kb", "persist_wait_s",
    "auth_delay_ms", "max_failed_logins", "failed_logins_per_minute", "dcp_idle_timeout_s", "timing_sample",
    "ht_size", "ht_locks", "max_item_size",
    "mem_low_wat_pct", "mem_high_wat_pct", "mutation_mem_threshold_pct", "ephemeral_purge_age_s",
    "persistent_purge_age_s", "expiry_pass_s", "ht_resize_ms", "dcp_snapshot_interval_us",
    "dcp_backfill_idle_s", "dcp_backfill_age_s", "dcp_backfills_per_connection", "dcp_backfills_per_node",
    "dcp_connections_per_node", "dcp_connections_per_user",
    "ephemeral_purge_interval_s", "chk_max_items", "max_checkpoints", "chk_period_ms", "chk_remover_ms",
    "fsync", "fsync_interval_ms", "rocksdb_write_buffer_mb", "rocksdb_block_cache_mb", "rocksdb_compression",
    "flusher_batch_split_trigger", "flusher_interval_ms", "flusher_retry_ms",
)  # fmt: skip
# Params whose value is one of these; all others take a number.
PARAM_WORDS: Mapping[str, tuple[str, ...]] = {
    "fsync": ("never", "interval", "commit"),
    "rocksdb_compression": ("none", "lz4", "snappy", "zstd"),
}
_NUMBER = re.compile(r"\d+(\.\d+)?")


def check_params(params: dict[str, str]) -> dict[str, str]:
    """Return the params unchanged. Raises an error for each misspelt name, and each value that the engine refuses."""
    wrong = misspelt(params, PARAM_NAMES)
    for name, value in params.items():
        if name in PARAM_WORDS and value not in PARAM_WORDS[name]:
            wrong[name] = f"expected one of {', '.join(PARAM_WORDS[name])}; got {value}"
        elif name in PARAM_NAMES and name not in PARAM_WORDS and not _NUMBER.fullmatch(value):
            wrong[name] = f"expected a number, got {value}"
    refuse(wrong)
    return params


ALLOCATOR, OPTIONS, PARAMS = "allocator", "options", "params"
_KEY = r"\.[a-z][a-z0-9_]*"
SettingName = Annotated[
    str,
    matching(
        rf"allocator(\.name|\.version|\.options({_KEY})?)?|(options|params)({_KEY})?",
        "a setting as the settings check names it (options.NAME, params.NAME, allocator.name, allocator.version,"
        " allocator.options.NAME) or a kind of them (options, params, allocator, allocator.options)",
    ),
]


class SettingsCheckSpec(Piece):
    """The settings, or kinds of settings, that the settings check may skip.

        settings_check: {skip: [options.ht_stats, allocator.version]}     single settings
        settings_check: {skip: [allocator]}                               all settings of a kind

    An older engine may not report all settings that today's engine reports. A skipped setting that the engine reports
    is checked anyway. The report lists the settings that were not checked and marks the variant.
    """

    skip: Annotated[tuple[SettingName, ...], ListAsTuple, Field(min_length=1)]

    def skips(self, setting: str) -> bool:
        """Tell whether this setting, or its kind, is listed."""
        return any(setting == name or setting.startswith(f"{name}.") for name in self.skip)

    def problems(self, options: Mapping[str, str], allocator: Mapping[str, str]) -> dict[str, str]:
        """Return an error for each listed build or allocator option that the variant does not set.

        Params are not checked, because they may be those of the spec.
        """
        given = {f"{OPTIONS}.{name}" for name in options}
        given |= {f"{ALLOCATOR}.{OPTIONS}.{name}" for name in allocator}
        return {
            name: f"expected a setting of this variant; got {name}, which it does not set"
            for name in self.skip
            if f".{OPTIONS}." in f".{name}" and name not in given
        }


class Variant(Piece):
    """One variant of an experiment: a build and its run-time settings.

    `name` is its key in the spec's `variants`. Two variants may share one build.
    """

    name: VariantName
    source: SourceSpec | None = Field(default=None, description="none: the engine source in use")
    server: ServerSpec | None = Field(default=None, description="none: the engine")
    allocator: AllocatorSpec
    options: dict[str, ScalarText] = Field(
        default_factory=dict, description="build-time switches of the engine"
    )
    params: dict[ParamName, ParamValue] = Field(
        default_factory=dict, description="engine parameters (--param)"
    )
    env: dict[EnvName, EnvValue] = Field(
        default_factory=dict, description="environment of the engine"
    )
    settings_check: SettingsCheckSpec | None = Field(
        default=None, description="none: every setting is checked"
    )

    @model_validator(mode="before")
    @classmethod
    def _servers_have_the_systems(cls, given: Any) -> Any:
        """Give a server its own allocator if the spec names none."""
        if isinstance(given, dict) and given.get("server") is not None and "allocator" not in given:
            return {**given, "allocator": {"name": SYSTEM}}
        return given

    @field_validator("server")
    @classmethod
    def _can_be_started(cls, server: ServerSpec | None, info: ValidationInfo) -> ServerSpec | None:
        """Require that the server can be started, if the spec is read on the machine that runs it."""
        if server is None:
            return None
        if info.data.get("source") is not None:
            raise ValueError("expected either source (of the engine) or server")
        context = info.context or {}
        checks, remote = context.get("servers"), context.get("remote", False)
        if checks is not None and (wrong := checks.command(server, remote=remote)):
            refuse(wrong)
        return server

    @field_validator("allocator")
    @classmethod
    def _can_be_preloaded(cls, allocator: AllocatorSpec, info: ValidationInfo) -> AllocatorSpec:
        if "server" not in info.data:
            return allocator
        server: ServerSpec | None = info.data["server"]
        if server is None:
            if allocator.preload is not None:
                refuse(
                    {"preload": "expected server: the engine is linked with its allocator (name)"}
                )
            return allocator
        if allocator.name != SYSTEM:
            refuse({"name": "expected preload: a server is not linked again with an allocator"})
        if server.image is not None and allocator.preload is not None:
            refuse(
                {"preload": "expected no preload with server.image: use an image with that library"}
            )
        context = info.context or {}
        checks, remote = context.get("servers"), context.get("remote", False)
        if checks is not None and allocator.preload is not None:
            wrong = checks.preload(server, allocator.preload, remote=remote)
            if wrong is not None:
                refuse({"preload": wrong})
        return allocator

    @field_validator("options", "params", "settings_check")
    @classmethod
    def _of_the_engine(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("server") is not None:
            raise ValueError(f"expected no {info.field_name}: they are the engine's")
        return value

    @field_validator("source")
    @classmethod
    def _a_revision(cls, source: SourceSpec | None, info: ValidationInfo) -> SourceSpec | None:
        """Check that the revision exists, if the loader passed a way to look it up."""
        tables = (info.context or {}).get("switches")
        if tables is not None and source is not None and source.git and "name" in info.data:
            try:
                tables(info.data["name"], source)
            except UsageError as error:
                hint = f" ({error.hint})" if error.hint else ""
                refuse({"git": f"{error.message}{hint}"})
        return source

    @field_validator("options")
    @classmethod
    def _switches(cls, options: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        """Check the options against the switches of the variant's source.

        A recorded spec has no table in its context: it was checked when it was loaded.
        """
        tables = (info.context or {}).get("switches")
        table = None
        if tables is not None and {"name", "source"} <= info.data.keys():
            table = tables(info.data["name"], info.data["source"])
        normal, wrong = checked_options(options, table)
        refuse(wrong)
        return normal

    @field_validator("params")
    @classmethod
    def _params(cls, params: dict[str, str]) -> dict[str, str]:
        return check_params(params)

    @field_validator("env")
    @classmethod
    def _nothing_is_ignored(cls, env: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        allocator, server = info.data.get("allocator"), info.data.get("server")
        refuse(env_problems(env, allocator, linked=server is None))
        if server is not None:
            refuse(
                {
                    name: f"expected no {placeholder}, which is replaced in the command only:"
                    f" begin the command with [env, {name}={value}]"
                    for name, value in env.items()
                    for placeholder in (PORT, DIRECTORY)
                    if placeholder in value
                }
            )
            if server.image is None and server.git is None:  # else they are not here yet
                refuse(
                    {
                        name: "expected directories that exist, or absolute paths: the server runs in another"
                        f" directory; got {lost}"
                        for name, value in env.items()
                        if (lost := lost_libraries(f"{name}={value}"))
                    }
                )
        return env

    @field_validator("settings_check")
    @classmethod
    def _skips_what_is_asked(
        cls, settings_check: SettingsCheckSpec | None, info: ValidationInfo
    ) -> SettingsCheckSpec | None:
        if settings_check is not None and {"allocator", "options"} <= info.data.keys():
            wrong = settings_check.problems(
                info.data["options"], info.data["allocator"].all_options
            )
            refuse({("skip", settings_check.skip.index(n)): text for n, text in wrong.items()})
        return settings_check

    def skips(self, setting: str) -> bool:
        """Tell whether the settings check leaves this setting out."""
        return self.settings_check is not None and self.settings_check.skips(setting)

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit unset newer fields, so that the record equals that of older versions."""
        fields: dict[str, Any] = handler(self)
        for name in ("source", "server", "settings_check"):
            if getattr(self, name) is None:
                fields.pop(name, None)  # an exclusion may have taken it already
        return fields
