"""Define the allocator of a variant, linked or preloaded, its run-time options, and glibc's tunables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from perfrunner.spec.base import Piece, ScalarText, matching, refuse
from perfrunner.spec.suggest import did_you_mean, expected_name, misspelt

SYSTEM = "system"
ALLOCATORS = (
    SYSTEM,
    "jemalloc-4.5.0",
    "jemalloc-5.0.1",
    "jemalloc-5.1.0",
    "jemalloc-5.2.1",
    "jemalloc-5.3.0",
    "jemalloc-5.3.1",
    "mimalloc-2.3.2",
    "mimalloc-3.3.2",
    "snmalloc-0.7.6",
    "tcmalloc",
)

# Libraries that the loader puts before all others; glibc too, for a program that is linked with another allocator.
GLIBC = "glibc"
PRELOADS = (GLIBC, "jemalloc", "mimalloc", "tcmalloc", "snmalloc")
# The environment variables of an allocator's options: one for all of them, or one for each. A jemalloc that perfrunner
# builds has the prefix _rjem_.
_ONE_VARIABLE = {"jemalloc": "MALLOC_CONF"}
_OWN_JEMALLOC = "_RJEM_MALLOC_CONF"
_OF_JEMALLOC = (*_ONE_VARIABLE.values(), _OWN_JEMALLOC, "JE_MALLOC_CONF")
PRELOAD = "LD_PRELOAD"
_PREFIXES = {"mimalloc": "MIMALLOC_", "tcmalloc": "TCMALLOC_"}

# Named sets of jemalloc's run-time options; a variant's own options override them. The settings check covers them too.
PRESETS: dict[str, dict[str, str]] = {
    # The historic engine set one arena in its daemon, for less fragmentation. It also set
    # `prof:true,prof_active:false`, which needs a jemalloc built with --enable-prof; none of ours is.
    "historic": {"narenas": "1"},
}


# All options of jemalloc 4.5 to 5.3.1, except profiling, which our builds lack. No version knows all of them.
JEMALLOC_OPTIONS = (
    "abort", "abort_conf", "background_thread", "cache_oblivious", "confirm_conf", "decay_time",
    "dirty_decay_ms", "dss", "experimental_hpa_max_purge_nhp", "experimental_hpa_start_huge_if_thp_always",
    "hpa", "hpa_dirty_mult", "hpa_hugification_threshold", "hpa_hugify_delay_ms", "hpa_min_purge_interval_ms",
    "hpa_sec_batch_fill_extra", "hpa_sec_bytes_after_flush", "hpa_sec_max_alloc", "hpa_sec_max_bytes",
    "hpa_sec_nshards", "hpa_slab_max_alloc", "junk", "lg_chunk", "lg_dirty_mult", "lg_extent_max_active_fit",
    "lg_san_uaf_align", "lg_tcache_flush_large_div", "lg_tcache_flush_small_div", "lg_tcache_max",
    "lg_tcache_nslots_mul", "max_background_threads", "metadata_thp", "mutex_max_spin", "muzzy_decay_ms",
    "narenas", "oversize_threshold", "percpu_arena", "purge", "quarantine", "redzone", "retain",
    "san_guard_large", "san_guard_small", "slab_sizes", "stats_interval", "stats_interval_opts", "stats_print",
    "stats_print_opts", "tcache", "tcache_gc_delay_bytes", "tcache_gc_incr_bytes", "tcache_max",
    "tcache_nslots_large", "tcache_nslots_small_max", "tcache_nslots_small_min", "thp", "trust_madvise",
    "utrace", "xmalloc", "zero", "zero_realloc",
)  # fmt: skip
_BOOLEAN = ("true", "false")
JEMALLOC_VALUES: Mapping[str, tuple[str, ...]] = {
    "metadata_thp": ("disabled", "auto", "always"),
    "thp": ("default", "always", "never"),
    "percpu_arena": ("disabled", "percpu", "phycpu"),
    "dss": ("disabled", "primary", "secondary"),
    **dict.fromkeys(
        ("background_thread", "retain", "tcache", "zero", "xmalloc", "abort"), _BOOLEAN
    ),
}
# Options whose first version is known; for the others the allocator decides.
JEMALLOC_SINCE: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("background_thread", "dirty_decay_ms", "muzzy_decay_ms", "percpu_arena"), (5, 0, 0)
    ),
    "metadata_thp": (5, 1, 0),
    **dict.fromkeys(("hpa", "zero_realloc"), (5, 3, 0)),
}
_JEMALLOC_NUMBERS = ("dirty_decay_ms", "muzzy_decay_ms", "max_background_threads", "lg_tcache_max")
# The options of mimalloc 2.3.2 and 3.3.2 that a release build on Linux uses; of tcmalloc those that can be read back.
MIMALLOC_OPTIONS = (
    "abandoned_page_purge", "abandoned_reclaim_on_free", "allow_large_os_pages", "allow_thp",
    "arena_eager_commit", "arena_is_numa_local", "arena_max_object_size", "arena_purge_mult", "arena_reserve",
    "destroy_on_exit", "disallow_arena_alloc", "disallow_os_alloc", "eager_commit", "eager_commit_delay",
    "generic_collect", "max_errors", "max_segment_reclaim", "max_vabits", "max_warnings", "minimal_purge_size",
    "page_commit_on_demand", "page_cross_thread_max_reclaim", "page_full_retain", "page_max_candidates",
    "page_max_reclaim", "page_reclaim_on_free", "pagemap_commit", "purge_decommits", "purge_delay",
    "purge_extend_delay", "reserve_huge_os_pages", "reserve_huge_os_pages_at", "reserve_os_memory",
    "show_errors", "show_stats", "target_segments_per_thread", "use_numa_nodes", "verbose", "visit_abandoned",
)  # fmt: skip
TCMALLOC_OPTIONS = ("aggressive_decommit", "heap_limit_mb", "max_total_thread_cache_bytes")
_WHOLE_NUMBERS = {"mimalloc": MIMALLOC_OPTIONS, "tcmalloc": TCMALLOC_OPTIONS}
_TRUTHS = ("true", "false", "yes", "no", "on", "off")
_INTEGER = re.compile(r"-?\d+")


def is_crate(allocator: str) -> bool:
    """Tell whether cargo builds an allocator of the engine: its name has the version that Cargo.lock pins."""
    return "-" in allocator and not allocator.startswith("/")


def family_of(allocator: str) -> str:
    """Return an allocator's name without its version."""
    return allocator.partition("-")[0]


def _preload(value: str) -> str:
    crates = tuple(name for name in ALLOCATORS if is_crate(name))
    if value not in (*PRELOADS, *crates) and not value.startswith("/"):
        near = expected_name("an allocator", value, (*PRELOADS, *crates))
        raise ValueError(f"{near}; or the path of a library")
    return value


# The name of an allocator of the host, that of one that perfrunner builds, or the path of a library (absolute once a
# spec is loaded).
Preload = Annotated[
    str,
    matching(
        r"[A-Za-z0-9._/+@~-]+",
        "the name of an allocator, or a path of letters, digits and '.', '_', '/', '+', '@', '~', '-' (the loader"
        " splits at spaces and colons)",
    ),
    AfterValidator(_preload),
]

# A jemalloc option string is `key:value,key:value`: neither part may hold a separator, space or quote.
OptionKey = Annotated[str, matching(r"[a-z][a-z0-9_]*", "an option name of a-z, 0-9 and '_'")]
OptionValue = Annotated[
    ScalarText,
    matching(
        r"[A-Za-z0-9._|:+-]*[A-Za-z0-9._|+-]",
        "a value of letters, digits and '.', '_', '-', '|', ':'",
    ),
]


class AllocatorSpec(Piece):
    """An allocator: its name, which includes the version, and its run-time options as text.

    `preload` is for a server that perfrunner does not build: its `name` is that of the system then.
    """

    preload: Preload | None = Field(
        default=None, description="an allocator library that the loader puts before the C library"
    )
    name: str = Field(default="", validate_default=True)
    preset: str | None = Field(default=None, description="a named set of options: historic")
    options: dict[OptionKey, OptionValue] = Field(
        default_factory=dict, description="run-time options; they override those of the preset"
    )

    @field_validator("name")
    @classmethod
    def _known(cls, name: str, info: ValidationInfo) -> str:
        preloaded = info.data.get("preload", "") is not None
        if not name and preloaded:
            return SYSTEM
        if not name:
            raise PydanticCustomError("missing", "missing")
        if preloaded and name != SYSTEM:
            raise ValueError(f"expected {SYSTEM} or no name next to preload")
        if name not in ALLOCATORS:
            raise ValueError(expected_name("an allocator", name, ALLOCATORS))
        return name

    @field_validator("preset")
    @classmethod
    def _known_preset(cls, preset: str | None, info: ValidationInfo) -> str | None:
        if preset is not None and preset not in PRESETS:
            raise ValueError(expected_name("an allocator preset", preset, PRESETS))
        name = info.data.get("name", "jemalloc")
        if preset is not None and name == SYSTEM:
            raise ValueError("expected no preset: the system allocator takes no options")
        if preset is not None and not name.startswith("jemalloc"):
            raise ValueError(f"expected no preset: its options are those of jemalloc, not {name}")
        return preset

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        preload = info.data.get("preload")
        if options and preload is not None:
            if family_of(preload) not in (*_ONE_VARIABLE, *_PREFIXES):
                raise ValueError(
                    f"expected no options for {preload}: only those of"
                    f" {', '.join((*_ONE_VARIABLE, *_PREFIXES))} are known (others go into env:)"
                )
            return options
        if options and info.data.get("name") == SYSTEM:
            raise ValueError(
                "expected no options: the system allocator takes none (set glibc's tunables in env)"
            )
        if options and "name" in info.data:
            family = family_of(info.data["name"])
            if family not in (*_ONE_VARIABLE, *_PREFIXES):
                raise ValueError(f"expected no options: {family} takes none at run time")
            refuse(wrong_options(info.data["name"], options))
        return options

    @property
    def all_options(self) -> dict[str, str]:
        """The options of the preset, overridden by the variant's own."""
        return {**PRESETS.get(self.preset or "", {}), **self.options}

    @property
    def family(self) -> str:
        """The name of the linked allocator without its version."""
        return family_of(self.name)

    @property
    def preload_family(self) -> str | None:
        """The name of the preloaded allocator without its version; None without one, and for a path."""
        return None if self.preload is None or "/" in self.preload else family_of(self.preload)

    @property
    def linked_environment(self) -> dict[str, str]:
        """Return the environment variables of a linked allocator's options.

        jemalloc's is set even when it is empty: nothing may come from the host's environment.
        """
        if self.family == "jemalloc":
            return {_OWN_JEMALLOC: self.option_string}
        return self._variables(self.family)

    @property
    def preload_environment(self) -> dict[str, str]:
        """Return the environment variables of a preloaded allocator's options."""
        if not self.options or self.preload is None:
            return {}
        family = family_of(self.preload)
        if family in _ONE_VARIABLE:
            own = is_crate(self.preload)
            return {_OWN_JEMALLOC if own else _ONE_VARIABLE[family]: self.option_string}
        return self._variables(family)

    def _variables(self, family: str) -> dict[str, str]:
        """Return one environment variable for each option."""
        prefix = _PREFIXES.get(family, "")
        return {f"{prefix}{name.upper()}": value for name, value in self.options.items()}

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave `preload` out of the record of an allocator that is linked, as in older records."""
        fields: dict[str, Any] = handler(self)
        if self.preload is None:
            fields.pop("preload", None)
        return fields

    @property
    def option_string(self) -> str:
        """The options as `key:value,key:value`; empty if none is set."""
        return ",".join(f"{key}:{value}" for key, value in self.all_options.items())


# glibc's malloc takes settings from the environment: GLIBC_TUNABLES, and older variables that are aliases.
TUNABLES = "GLIBC_TUNABLES"
_MALLOC = "glibc.malloc."
CHECK = f"{_MALLOC}check"
# Tunables of glibc 2.26 to 2.41. A host's glibc may know fewer; the settings check queries it.
MALLOC_TUNABLES = tuple(
    _MALLOC + name
    for name in (
        "arena_max", "arena_test", "check", "hugetlb", "mmap_max", "mmap_threshold", "mxfast", "perturb",
        "tcache_count", "tcache_max", "tcache_unsorted_limit", "top_pad", "trim_threshold",
    )
)  # fmt: skip
# mallopt(3): the environment variables that are aliases of tunables.
ALIASES: Mapping[str, str] = {
    "MALLOC_ARENA_MAX": "arena_max",
    "MALLOC_ARENA_TEST": "arena_test",
    "MALLOC_CHECK_": "check",
    "MALLOC_MMAP_MAX_": "mmap_max",
    "MALLOC_MMAP_THRESHOLD_": "mmap_threshold",
    "MALLOC_PERTURB_": "perturb",
    "MALLOC_TOP_PAD_": "top_pad",
    "MALLOC_TRIM_THRESHOLD_": "trim_threshold",
}


_OF_ALLOCATORS = re.compile(
    rf"((_RJEM_|JE_)?MALLOC_|{'|'.join(_PREFIXES.values())})\w+|GLIBC_TUNABLES"
)


def allocator_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an allocator reads."""
    return {name: value for name, value in env.items() if _OF_ALLOCATORS.fullmatch(name)}


def asked_tunables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the tunables that `env` sets, by full name. As in glibc, GLIBC_TUNABLES overrides aliases.

    Raises ValueError for a text that is not `name=value:name=value`.
    """
    asked = {_MALLOC + name: env[alias] for alias, name in ALIASES.items() if alias in env}
    for word in filter(None, env.get(TUNABLES, "").split(":")):
        name, equals, value = word.partition("=")
        if not (name and equals and value) or "=" in value:
            raise ValueError(
                f"expected name=value:name=value, such as glibc.malloc.arena_max=1; got {word!r}"
            )
        asked[name] = value
    return asked


def env_problems(
    env: Mapping[str, str], allocator: AllocatorSpec | None, *, linked: bool = True
) -> dict[str, str]:
    """Return an error by variable for each setting that glibc would silently ignore, or that belongs elsewhere.

    The settings check does not see options that `env` sets of the `allocator` that the engine is linked with
    (`linked`). A server may have one that perfrunner does not know.
    """
    wrong: dict[str, str] = {}
    prefix = _PREFIXES.get(allocator.family) if allocator else None
    for name in env:
        if linked and (name == PRELOAD or name in _OF_JEMALLOC):
            wrong[name] = (
                "expected no allocator setting in env: use allocator.name and allocator.options"
            )
        elif name == PRELOAD:
            wrong[name] = "expected no preload in env: use allocator.preload (ab: --preload)"
        elif allocator and name in allocator.preload_environment:
            wrong[name] = "expected it in allocator.options, next to the others"
        elif prefix and name.startswith(prefix):
            wrong[name] = "expected no allocator setting in env: use allocator.options"
        elif name.startswith("MALLOC_") and name not in (*ALIASES, *_OF_JEMALLOC):
            wrong[name] = f"unknown variable of glibc's malloc{did_you_mean(name, ALIASES)}"
    try:
        asked = asked_tunables(env)
    except ValueError as error:
        return {**wrong, TUNABLES: str(error)}
    for name in asked:
        if name.startswith(_MALLOC) and name not in MALLOC_TUNABLES:
            wrong[TUNABLES] = f"unknown tunable {name}{did_you_mean(name, MALLOC_TUNABLES)}"
        elif not name.startswith("glibc."):
            wrong[TUNABLES] = f"expected names that begin with glibc.; got {name}"
    return wrong


def wrong_options(allocator: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return an error by name for each misspelled option of an allocator or invalid value."""
    if (known := _WHOLE_NUMBERS.get(allocator.partition("-")[0])) is not None:
        return {
            **{
                name: f"expected an integer (bytes, without a unit) or true or false, got {value}"
                for name, value in options.items()
                if not _INTEGER.fullmatch(value) and value.lower() not in _TRUTHS
            },
            **misspelt(options, known),
        }
    return _wrong_jemalloc_options(allocator, options)


def _wrong_jemalloc_options(allocator: str, options: Mapping[str, str]) -> dict[str, str]:
    wrong = misspelt(options, JEMALLOC_OPTIONS)
    version = tuple(int(part) for part in allocator.rpartition("-")[2].split("."))
    for name, value in options.items():
        values, since = JEMALLOC_VALUES.get(name), JEMALLOC_SINCE.get(name, ())
        if version < since:
            first = ".".join(map(str, since))
            wrong[name] = f"expected jemalloc {first} or later for this option; got {allocator}"
        elif values and value not in values:
            wrong[name] = f"expected one of {', '.join(values)}; got {value}"
        elif name in _JEMALLOC_NUMBERS and not _INTEGER.fullmatch(value):
            wrong[name] = f"expected an integer, got {value}"
        elif name == "narenas" and value != "default" and not _INTEGER.fullmatch(value):
            wrong[name] = f"expected an integer or default, got {value}"
    return wrong
