"""Which night a moment belongs to: a job of the night is queued once, however often cron fires."""

from __future__ import annotations

import zoneinfo
from datetime import date, datetime, timedelta

NOON = timedelta(hours=12)


def night_of(moment: datetime, timezone: str | None) -> date:
    """The day on which the night began; it lasts from noon to noon, so that 23:50 and 00:10 are of one night.

    `moment` is aware. Without a time zone this machine's counts.
    """
    zone = None if timezone is None else zoneinfo.ZoneInfo(timezone)
    return (moment.astimezone(zone).replace(tzinfo=None) - NOON).date()
