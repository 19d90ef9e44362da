"""What is compared as one: a workload on a bucket type, by their names."""

from __future__ import annotations

from typing import TypeAlias

NO_BUCKET = "-"  # the bucket of a workload that has none
CellName: TypeAlias = tuple[str, str]  # (workload, bucket)
