"""The engine's build-time switches: names, values, and the CMake variable behind each.

The engine has one policy type a value (engine_src/options/). A variant that leaves a switch out gets the engine's
default.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfrunner.spec.suggest import expected_name


@dataclass(frozen=True)
class BuildOption:
    """One switch. `number` says that any whole number from 1 is a value too."""

    name: str
    values: tuple[str, ...]
    number: bool = False

    @property
    def cmake_variable(self) -> str:
        """The CMake cache variable, for example ENGINE_HT_STATS."""
        return f"ENGINE_{self.name.upper()}"

    @property
    def stat_key(self) -> str:
        """The key under which `STAT config` reads it back, for example build.ht_stats."""
        return f"build.{self.name}"

    @property
    def meaning(self) -> str:
        """The values, for an error message."""
        return ", ".join(self.values + (("a whole number from 1",) if self.number else ()))

    def accepts(self, value: str) -> bool:
        """Whether `value` is one of the switch's values."""
        if value in self.values:
            return True
        return self.number and value.isascii() and value.isdigit() and not value.startswith("0")


_ALL = (
    BuildOption("ht_stats", ("single", "llc", "core"), number=True),
    BuildOption("ht_stats_padded", ("on", "off")),
    BuildOption("dcp_ready", ("onelock", "roundrobin", "readyqueue", "lockfree")),
    BuildOption("dcp_snapshot_queue", ("unique", "duplicates")),
    BuildOption("dcp_snapshot_yield", (), number=True),
    BuildOption("dcp_consumer_probe", ("before", "after")),
    BuildOption("flush_callback", ("item", "transaction")),
    BuildOption("flush_ids", ("vector", "none")),
    BuildOption("flush_free", ("before", "after")),
    BuildOption("flush_dedup", ("map", "set")),
    BuildOption("cursor_drop", ("walk", "compare")),
    BuildOption("checkpoint_extract", ("walk", "distance")),
    BuildOption("planted", ("none", "burn1", "burn2", "stall", "bytes16", "leak")),
)
BUILD_OPTIONS = {option.name: option for option in _ALL}
_BOOLEAN_WORDS = {"true": "on", "false": "off", "yes": "on", "no": "off", "ON": "on", "OFF": "off"}


def check_option_name(name: str) -> str:
    """The name, or ValueError with the known ones."""
    if name not in BUILD_OPTIONS:
        raise ValueError(expected_name("a build option", name, BUILD_OPTIONS))
    return name


def normal_option_value(name: str, value: str) -> str:
    """The value as the engine spells it (YAML reads `on` as true), or ValueError with the known ones."""
    option = BUILD_OPTIONS[name]
    if "on" in option.values:
        value = _BOOLEAN_WORDS.get(value, value)
    if not option.accepts(value):
        raise ValueError(f"expected one of {option.meaning}; got {value}")
    return value
