"""How much of the resident memory the allocator's huge metadata pages take: whether metadata_thp can show at all.

A huge page of metadata is 2 MiB, one or more for each arena in use. Where they are a small part of RSS no setting of
metadata_thp can move fragmentation, whatever the numbers say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.analysis.model import Cell

if TYPE_CHECKING:
    from perfrunner.results import TrialRecord

HUGE_PAGE = 2 * 2**20
ENOUGH = 0.04


@dataclass(frozen=True)
class MetadataShare:
    """Of a cell: the largest mean share of any variant; None when no trial gives the figures."""

    cell: Cell
    variant: str
    share: float | None

    @property
    def enough(self) -> bool | None:
        return None if self.share is None else self.share >= ENOUGH

    def __str__(self) -> str:
        if self.share is None:
            return f"{self.cell}: not known (no trial reports metadata_thp_pages)"
        return f"{self.cell}: {100 * self.share:.1f} % of RSS ({self.variant})"


def metadata_shares(trials: Iterable[TrialRecord]) -> list[MetadataShare]:
    """By cell, of trials on a server that count; cells in the order of their first trial."""
    found: dict[Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        pages, rss = trial.metrics.get("metadata_thp_pages"), trial.metrics.get("rss_bytes")
        if trial.status != "ok" or rss is None:
            continue
        arms = found[Cell(trial.workload, trial.bucket)]
        if pages is not None:
            arms[trial.variant].append(pages * HUGE_PAGE / rss)
    return [_largest(cell, arms) for cell, arms in found.items()]


def _largest(cell: Cell, arms: dict[str, list[float]]) -> MetadataShare:
    means = {variant: sum(shares) / len(shares) for variant, shares in arms.items()}
    if not means:
        return MetadataShare(cell, "", None)
    variant = max(means, key=lambda name: means[name])
    return MetadataShare(cell, variant, means[variant])
