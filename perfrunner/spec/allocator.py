"""Which allocator a variant is linked with, and the run-time options it gets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from perfrunner.spec.base import Piece, ScalarText, items_error, matching
from perfrunner.spec.params import wrong_options
from perfrunner.spec.suggest import expected_name

SYSTEM = "system"
ALLOCATORS = (
    SYSTEM,
    "jemalloc-4.5.0",
    "jemalloc-5.0.1",
    "jemalloc-5.1.0",
    "jemalloc-5.2.1",
    "jemalloc-5.3.0",
    "jemalloc-5.3.1",
)

# Named sets of run-time options, overlaid by a variant's own ones. Every option is read back like any other.
PROFILES: dict[str, dict[str, str]] = {
    # What the historic engine set in its own daemon: one arena, for less fragmentation. It set
    # `prof:true,prof_active:false` too, which only a jemalloc configured with --enable-prof knows: none of ours.
    "historic": {"narenas": "1"},
}

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
    """An allocator's name (it carries its version) and its run-time options, as text."""

    name: str
    profile: str | None = Field(default=None, description="a named set of options: historic")
    options: dict[OptionKey, OptionValue] = Field(
        default_factory=dict, description="an option of the profile is replaced"
    )

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in ALLOCATORS:
            raise ValueError(expected_name("an allocator", name, ALLOCATORS))
        return name

    @field_validator("profile")
    @classmethod
    def _known_profile(cls, profile: str | None, info: ValidationInfo) -> str | None:
        if profile is not None and profile not in PROFILES:
            raise ValueError(expected_name("an allocator profile", profile, PROFILES))
        if profile is not None and info.data.get("name") == SYSTEM:
            raise ValueError("expected no profile: the system allocator takes no options")
        return profile

    @field_validator("options")
    @classmethod
    def _none_for_system(cls, options: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if options and info.data.get("name") == SYSTEM:
            raise ValueError(
                "expected no options: the system allocator takes none (glibc's tunables go into env:)"
            )
        if options and "name" in info.data and (wrong := wrong_options(info.data["name"], options)):
            raise items_error(wrong)
        return options

    @property
    def all_options(self) -> dict[str, str]:
        """The profile's, overlaid by the variant's own."""
        return {**PROFILES.get(self.profile or "", {}), **self.options}

    @property
    def option_string(self) -> str:
        """`key:value,key:value`, the profile's first; empty when nothing is set."""
        return ",".join(f"{key}:{value}" for key, value in self.all_options.items())
