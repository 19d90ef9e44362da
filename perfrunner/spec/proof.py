"""What of a variant need not be proved: a declared subset, for an engine that does not tell all that today's does.

    proof: {skip: [options.ht_stats, allocator.version]}     settings, by the names that the proof calls them
    proof: {skip: [allocator]}                               all of a kind

What is skipped and told all the same is proved. What is not proved stands in the report, and marks the arm there.
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
        "a setting as the proof names it (options.NAME, params.NAME, allocator.name, allocator.version,"
        " allocator.options.NAME) or a kind of them (options, params, allocator, allocator.options)",
    ),
]


class ProofSpec(Piece):
    """`skip`: settings, or kinds of them."""

    skip: Annotated[tuple[SettingName, ...], ListAsTuple, Field(min_length=1)]

    def skips(self, setting: str) -> bool:
        """Whether this one, or a kind that it is of, is named."""
        return any(setting == name or setting.startswith(f"{name}.") for name in self.skip)

    def problems(self, options: Mapping[str, str], allocator: Mapping[str, str]) -> dict[str, str]:
        """What is named of build options and allocator options and is not set; an engine's params may be the spec's."""
        given = {f"{OPTIONS}.{name}" for name in options}
        given |= {f"{ALLOCATOR}.{OPTIONS}.{name}" for name in allocator}
        return {
            name: f"expected a setting of this variant; it does not set {name}"
            for name in self.skip
            if f".{OPTIONS}." in f".{name}" and name not in given
        }
