"""What is compared as one: a workload on a bucket type, by their names."""

from __future__ import annotations

from typing import TypeAlias

NO_BUCKET = "-"  # the bucket of a workload that has none
# The types of workloads that have none: a program runs alone. Here, for stored specs are read without pydantic.
WITHOUT_AN_ENGINE = ("latency", "microbench")
CellName: TypeAlias = tuple[str, str]  # (workload, bucket)
