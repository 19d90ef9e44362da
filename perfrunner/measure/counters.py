"""Compare the load generator's count of operations with the server's.

Both count the same requests, so they may differ only by the requests in flight when the clock stopped. A
larger difference means that one of them is wrong, and then no rate of this trial can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ALLOWED_SHARE = 0.001  # of the operations; at least the requests in flight are allowed


@dataclass(frozen=True)
class CrossCheck:
    """The operations of the driven phases, counted on both sides."""

    client: int
    server: int
    allowed: int

    @property
    def agrees(self) -> bool:
        """True if the counts differ by no more than is allowed."""
        return abs(self.client - self.server) <= self.allowed

    def __str__(self) -> str:
        return (
            f"the generator counted {self.client} operations, the server {self.server} "
            f"(allowed difference: {self.allowed})"
        )


def cross_check(
    client_ops: int, before: Mapping[str, float], after: Mapping[str, float], in_flight: int
) -> CrossCheck | None:
    """Compare the counts; None if the server has no such counters.

    `before` and `after` are the default STAT group.
    """
    keys = ("cmd_get", "cmd_set")
    if any(key not in group for key in keys for group in (before, after)):
        return None
    server = sum(after[key] - before[key] for key in keys)
    return CrossCheck(client_ops, round(server), max(round(client_ops * ALLOWED_SHARE), in_flight))
