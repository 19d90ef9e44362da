"""Define named conditions that a comparison requires; the report says whether they were met.

Most are checked on the engine nodes before the first trial. Those of MEASURED are checked in the results.
"""

from __future__ import annotations

from perfrunner.spec.suggest import expected_name

PRECONDITIONS = {
    "thp_madvise": "transparent huge pages are in mode `madvise` on the engine node",
    "two_cores": "the engine node has at least two CPUs",
    "three_cores": "the engine node has at least three CPUs",
    "two_caches": "the engine node has at least two last-level caches",
    "metadata_visible": "huge pages of allocator metadata take at least 4 % of RSS",
}
MEASURED = frozenset({"metadata_visible"})


def check_precondition(name: str) -> str:
    """Return the name if the precondition exists. Raises ValueError, which lists the known ones."""
    if name not in PRECONDITIONS:
        raise ValueError(expected_name("a precondition", name, PRECONDITIONS))
    return name
