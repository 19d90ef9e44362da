"""How much of RSS the huge metadata pages take, by case."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from perfrunner.analysis.other_metrics import HUGE_PAGE, metadata_shares
from perfrunner.results import TrialRecord

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def trial(variant: str, pages: float | None, rss: float | None, **changes: str) -> TrialRecord:
    metrics = {"metadata_thp_pages": pages, "rss_bytes": rss}
    return TrialRecord(
        block=1,
        attempt=1,
        position=0,
        workload=changes.get("workload", "append"),
        bucket=changes.get("bucket", "persistent"),
        variant=variant,
        build_id="b",
        status=changes.get("status", "ok"),  # type: ignore[arg-type]
        reason="",
        started_at=NOW,
        finished_at=NOW,
        metrics={name: value for name, value in metrics.items() if value is not None},
    )


RSS = 100 * HUGE_PAGE


def test_the_variant_with_most_of_it_decides() -> None:
    (matches,) = metadata_shares(
        [trial("off", 0, RSS), trial("on", 8, RSS), trial("on", 10, 2 * RSS), trial("x", 1, RSS)]
    )
    assert matches.variant == "on"
    assert matches.share == pytest.approx((0.08 + 0.05) / 2)
    assert matches.enough is True
    assert str(matches) == "append · persistent: 6.5 % of RSS (on)"


def test_four_percent_is_enough_and_less_is_not() -> None:
    shares = metadata_shares(
        [trial("on", 4, RSS), trial("on", 3.9, RSS, bucket="ephemeral"), trial("off", 0, RSS)]
    )
    assert [matches.enough for matches in shares] == [True, False]


def test_trials_that_do_not_count_and_tools_are_left_out() -> None:
    shares = metadata_shares(
        [
            trial("on", 50, RSS, status="discarded"),
            trial("on", 1, RSS),
            trial("on", None, None, workload="bench", bucket="-"),
        ]
    )
    assert [(str(matches.case), matches.share) for matches in shares] == [
        ("append · persistent", 0.01)
    ]


def test_an_allocator_that_does_not_say_leaves_it_unknown() -> None:
    (matches,) = metadata_shares([trial("glibc", None, RSS)])
    assert (matches.share, matches.enough) == (None, None)
    assert str(matches) == "append · persistent: unknown (no trial reports metadata_thp_pages)"
