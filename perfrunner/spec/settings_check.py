"""Define which settings of a variant the settings check may skip.

An older engine may not report all settings that today's engine reports.

    settings_check: {skip: [options.ht_stats, allocator.version]}     single settings
    settings_check: {skip: [allocator]}                               all settings of a kind

A skipped setting that the engine reports is checked anyway. The report lists the settings that were not
checked and marks the variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from perfrunner.spec.base import ListAsTuple, Piece, matching

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
    """The settings, or kinds of settings, that the check may skip."""

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
