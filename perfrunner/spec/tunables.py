"""Check glibc's malloc settings in an environment: GLIBC_TUNABLES and its older aliases."""

from __future__ import annotations

from collections.abc import Mapping

from perfrunner.spec.suggest import did_you_mean

TUNABLES = "GLIBC_TUNABLES"
_MALLOC = "glibc.malloc."
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


def env_problems(env: Mapping[str, str]) -> dict[str, str]:
    """Return an error by variable for each setting that glibc would silently ignore."""
    wrong: dict[str, str] = {}
    for name in env:
        if name.startswith("MALLOC_") and name not in ALIASES:
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
