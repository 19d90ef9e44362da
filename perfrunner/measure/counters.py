"""The generator's count of operations against the server's.

Both count the same requests, so they may differ only by what was in flight when the clock stopped. A larger
difference means that one of them lies, and then no rate of this trial can be believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ALLOWED_SHARE = 0.001  # beside what was in flight


@dataclass(frozen=True)
class CrossCheck:
    """Operations of the driven phases, counted on both sides."""

    client: int
    server: int
    allowed: int

    @property
    def agrees(self) -> bool:
        return abs(self.client - self.server) <= self.allowed

    def __str__(self) -> str:
        return (
            f"the generator counted {self.client} operations, the server {self.server} "
            f"(a difference of {self.allowed} would be allowed)"
        )


def cross_check(
    client_ops: int, before: Mapping[str, float], after: Mapping[str, float], in_flight: int
) -> CrossCheck | None:
    """None when the server has no such counters. `before` and `after` are the default STAT group."""
    keys = ("cmd_get", "cmd_set")
    if any(key not in group for key in keys for group in (before, after)):
        return None
    server = sum(after[key] - before[key] for key in keys)
    return CrossCheck(client_ops, round(server), max(round(client_ops * ALLOWED_SHARE), in_flight))
