"""Write the accounts of changes: as lines for all text formats, as table rows for the page, as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import bracket, interval_places, signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.account import Account, Part

TITLE = "Account of the time per operation, in % of the baseline's"


def account_lines(accounts: Iterable[Account]) -> list[str]:
    """Return a line for each account."""
    return [
        f"{account.variant} \N{MIDDLE DOT} {account.case}: {_sum(account)}" for account in accounts
    ]


def account_rows(accounts: Sequence[Account]) -> list[tuple[str, ...]]:
    """Return the table of the accounts: a heading, then a row for each."""
    if not accounts:
        return []
    first = accounts[0]
    parts = (first.time, *first.parts, first.background)
    return [
        ("variant", "case", *(part.title for part in parts)),
        *(
            (a.variant, str(a.case), *map(_change, (a.time, *a.parts, a.background)))
            for a in accounts
        ),
    ]


def account_records(accounts: Iterable[Account]) -> list[dict[str, Any]]:
    """Return the accounts as plain values."""
    return [
        {
            "workload": account.case.workload,
            "bucket": account.case.bucket,
            "variant": account.variant,
            "baseline": account.time.effect.baseline,
            "n": account.time.effect.n,
            "baseline_us_per_op": account.base_us,
            "time": _record(account.time),
            "parts": [_record(part) for part in account.parts],
            "background": _record(account.background),
        }
        for account in accounts
    ]


def _sum(account: Account) -> str:
    parts = ", ".join(f"{part.title} {_change(part)}" for part in account.parts)
    return f"{_change(account.time)} = {parts}; {account.background.title} {_change(account.background)}"


def _change(part: Part) -> str:
    interval = part.effect.ci95
    value = 100 * part.effect.estimate
    if interval is None:
        return signed(value, 1)
    low, high = (100 * end for end in interval)
    places = interval_places((low, high), abs(value))
    shown = signed(value, places)
    return f"{shown} {bracket(signed(low, places), signed(high, places), shown)}"


def _record(part: Part) -> dict[str, Any]:
    interval = part.effect.ci95
    return {
        "metric": part.metric,
        "change": part.effect.estimate,
        "change_ci95": None if interval is None else list(interval),
    }
