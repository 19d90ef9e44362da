"""Find the experiment that a user's reference names: an id, the start of one, a spec name or a day."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from perfrunner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.results.records import ExperimentRecord


def find_experiment(
    known: Sequence[ExperimentRecord], reference: str | None, place: str
) -> ExperimentRecord:
    """Return the experiment that a user's reference names. Raises UsageError if none or several match.

    A reference is an id, a spec name (its latest run), a day (its latest run; 20261120 or 2026-11-20,
    UTC), the start of exactly one id, or None for the latest experiment.
    """
    if not known:
        raise UsageError(f"no experiment is stored in {place}", "start one: perfrunner run SPEC")
    if reference is None:
        return known[-1]
    for record in known:
        if record.id == reference:
            return record
    named = [record for record in known if record.name == reference]
    if named:
        return named[-1]
    if (day := _day(reference)) and (then := [r for r in known if _day_of(r) == day]):
        names = sorted({record.name for record in then})
        if len(names) == 1:
            return then[-1]
        raise UsageError(
            f"several specs were run on {reference}: {', '.join(names)}",
            f"add the spec's name, as in {names[0]}-{day}",
        )
    starting = [r for r in known if reference and r.id.startswith(reference)]
    if len(starting) == 1:
        return starting[0]
    if starting:
        ids = ", ".join(record.id for record in starting)
        raise UsageError(f"{reference!r} matches several experiments: {ids}")
    names = [record.id for record in known] + sorted({record.name for record in known})
    near = difflib.get_close_matches(reference, names, n=1)
    raise UsageError(
        f"no experiment {reference!r} in {place}",
        f"did you mean {near[0]}?" if near else "`perfrunner list` shows the stored experiments",
    )


def _day(reference: str) -> str | None:
    """Return a day in the form 20261120; None if `reference` is not a day."""
    match = re.fullmatch(r"(\d{4})(-?)(\d{2})\2(\d{2})", reference)
    return None if match is None else match[1] + match[3] + match[4]


def _day_of(record: ExperimentRecord) -> str:
    return f"{record.created_at:%Y%m%d}"
