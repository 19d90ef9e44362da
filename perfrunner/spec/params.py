"""Detect misspelled run-time settings: the engine's --param and the options of allocators.

Only a name that resembles a known one is refused here. Any other name goes to the engine, which decides:
another revision of it, or another version of an allocator, may know more names than this list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from perfrunner.spec.suggest import nearest

# engine_src/server/params.cc
PARAMS = (
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
_NUMBER = re.compile(r"\d+(\.\d+)?")


def wrong_params(params: Mapping[str, str]) -> dict[str, str]:
    """Return an error by name for each misspelled param or value that the engine refuses."""
    wrong = misspelt(params, PARAMS)
    for name, value in params.items():
        if name in PARAM_WORDS and value not in PARAM_WORDS[name]:
            wrong[name] = f"expected one of {', '.join(PARAM_WORDS[name])}; got {value}"
        elif name in PARAMS and name not in PARAM_WORDS and not _NUMBER.fullmatch(value):
            wrong[name] = f"expected a number, got {value}"
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


def misspelt(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return a suggestion by name for each unknown name that resembles a known one."""
    names_known = tuple(known)
    return {
        name: f"unknown (did you mean {near}?)"
        for name in names
        if name not in names_known and (near := nearest(name, names_known))
    }
