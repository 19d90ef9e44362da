"""Settings that a variant's `proof` leaves out (proof.py), among those read back: what is kept of them, found again.

Of its own, without pydantic: reports read it.
"""

from __future__ import annotations

from collections.abc import Mapping

_NOT_PROVED = "not proved: "  # begins the value of such a setting


def not_proved(expected: str, found: str | None) -> str:
    """The value that is kept of a skipped setting; `found`: what the engine says, None where it says nothing."""
    told = "the engine does not tell" if found is None else f"the engine says {found}"
    return f"{_NOT_PROVED}asked for {expected}, {told}"


def unproved(settings: Mapping[str, str]) -> dict[str, str]:
    """Of what a proof kept, the settings that were skipped: by name why they are not proved."""
    return {
        name: value.removeprefix(_NOT_PROVED)
        for name, value in settings.items()
        if value.startswith(_NOT_PROVED)
    }
