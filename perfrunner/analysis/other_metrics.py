"""Find metrics that changed in addition to the primary ones, and the memory share of allocator metadata."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfrunner.analysis.model import ALPHA, Comparison, Row
from perfrunner.analysis.verdict import interval_at
from perfrunner.domain import MIN_BLOCKS, Case

if TYPE_CHECKING:
    from perfrunner.results import TrialRecord


def moved_with(comparison: Comparison, case: Case, variant: str) -> list[Row]:
    """Return the other metrics of that variant that changed (q < 0.05), the clearest first.

    Primary metrics are left out. A change without any spread counts as the clearest of all. The rows were selected
    because they changed, so their intervals are wider than in the table of all metrics: of all intervals selected so,
    95 % hold the truth (false coverage rate, Benjamini and Yekutieli 2005).
    """
    rows = [row for row in comparison.variant(case, variant) if not row.primary and _moved(row)]
    share = _selected_share(comparison.rows) if rows else 1.0
    return [_adjusted(row, share) for row in sorted(rows, key=_clarity, reverse=True)]


def _selected_share(rows: Iterable[Row]) -> float:
    """Return the share of the exploratory tests whose row was selected."""
    tested = [row for row in rows if not row.primary and row.effect and row.effect.q is not None]
    return sum(map(_moved, tested)) / len(tested)


def _adjusted(row: Row, share: float) -> Row:
    assert row.effect is not None
    interval = interval_at(row.effect, 1 - share * row.effect.level)
    return replace(row, effect=replace(row.effect, ci95=interval))


def _moved(row: Row) -> bool:
    """Return whether the metric changed. Of paired rows that could have a verdict, only those with one did."""
    if row.effect is None or row.effect.q is None or row.effect.q >= ALPHA:
        return False
    if row.effect.paired and (row.metric.direction != "none" or row.effect.n < MIN_BLOCKS):
        return row.verdict in ("better", "worse")
    return row.verdict != "not comparable"


def _clarity(row: Row) -> float:
    if row.effect is None:
        return 0.0
    return math.inf if row.effect.t is None else abs(row.effect.t)


HUGE_PAGE = 2 * 2**20
ENOUGH = 0.04


@dataclass(frozen=True)
class MetadataShare:
    """The largest mean share of memory that allocator metadata takes, over the variants of a case.

    `share` is None if no trial has the figures.
    """

    case: Case
    variant: str
    share: float | None

    @property
    def enough(self) -> bool | None:
        """Return whether the share is large enough for huge pages of metadata to matter; None if unknown."""
        return None if self.share is None else self.share >= ENOUGH

    def __str__(self) -> str:
        if self.share is None:
            return f"{self.case}: unknown (no trial reports metadata_thp_pages)"
        return f"{self.case}: {100 * self.share:.1f} % of RSS ({self.variant})"


def metadata_shares(trials: Iterable[TrialRecord]) -> list[MetadataShare]:
    """Return the share of each case with clean trials on a server, in the order of the cases' first trials."""
    shares: dict[Case, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        pages, rss = trial.metrics.get("metadata_thp_pages"), trial.metrics.get("rss_bytes")
        if trial.status != "ok" or rss is None:
            continue
        variants = shares[trial.case]
        if pages is not None:
            variants[trial.variant].append(pages * HUGE_PAGE / rss)
    return [_largest(case, variants) for case, variants in shares.items()]


def _largest(case: Case, variants: dict[str, list[float]]) -> MetadataShare:
    means = {variant: sum(shares) / len(shares) for variant, shares in variants.items()}
    if not means:
        return MetadataShare(case, "", None)
    variant = max(means, key=lambda name: means[name])
    return MetadataShare(case, variant, means[variant])
