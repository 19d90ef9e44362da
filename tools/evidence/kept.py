"""Store the results of studies in the repository: `docs/statistics/<study>.json`.

A comparison holds the value of each metric of each variant in every block that counts. This is the input of all tests,
so every figure can be recomputed without the machine. The raw files of trials are not stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias

from perfrunner.errors import StoreError
from perfrunner.results import ExperimentData, ExperimentRecord, TrialRecord

SCHEMA = 1
DIGITS = 7  # significant ones of a kept value

Values: TypeAlias = Mapping[str, Mapping[str, list[float]]]  # variant -> metric -> a value a block


@dataclass(frozen=True)
class Comparison:
    """The variants of a case of an experiment, the baseline first. The n-th value of each list is of the n-th block."""

    experiment: str  # the spec's name
    workload: str
    bucket: str
    values: Values
    primary: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        return (self.experiment, self.workload, self.bucket, *self.values)

    @property
    def baseline(self) -> str:
        return next(iter(self.values))

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(self.values)[1:]

    @property
    def blocks(self) -> int:
        return max(len(series) for variant in self.values.values() for series in variant.values())

    def by_block(self, variant: str, metric: str) -> dict[int, float]:
        """Return the values of a metric by block; empty if the variant lacks the metric."""
        return dict(enumerate(self.values[variant].get(metric, ()), start=1))

    def data(self) -> ExperimentData:
        """Return the comparison in the form of an experiment, for the analysis of reports."""
        then = datetime.fromtimestamp(0, timezone.utc)
        record = ExperimentRecord(
            id=self.experiment,
            name=self.experiment,
            spec_json={
                "baseline": self.baseline,
                "variants": dict.fromkeys(self.values),
                "primary": list(self.primary),
                "margins": self.facts.get("margins", {}),
                "workloads": {self.workload: None},
                "buckets": [self.bucket],
            },
            spec_text="",
            spec_path="",
            seed=0,
            created_at=then,
            state="done",
            tool_version="",
        )
        trials = [
            TrialRecord(
                block=block,
                attempt=1,
                position=position,
                workload=self.workload,
                bucket=self.bucket,
                variant=variant,
                build_id="",
                status="ok",
                reason="",
                started_at=then,
                finished_at=then,
                metrics={
                    metric: series[block - 1]
                    for metric, series in by_metric.items()
                    if len(series) >= block
                },
                group=1,
            )
            for block in range(1, self.blocks + 1)
            for position, (variant, by_metric) in enumerate(self.values.items(), start=1)
        ]
        return ExperimentData(record, (), tuple(trials))


@dataclass(frozen=True)
class Kept:
    """The kept results of a study, in the order of the experiments' names. `hosts`: where they were measured."""

    study: str
    comparisons: tuple[Comparison, ...] = ()
    hosts: tuple[Mapping[str, Any], ...] = ()

    def having(self, added: Iterable[Comparison], host: Mapping[str, Any]) -> Kept:
        """Return the results with more comparisons, which replace older ones of the same experiment."""
        merged = {comparison.key: comparison for comparison in (*self.comparisons, *added)}
        hosts = self.hosts if dict(host) in map(dict, self.hosts) else (*self.hosts, host)
        return Kept(self.study, tuple(merged[key] for key in sorted(merged)), hosts)


def place(directory: Path, study: str) -> Path:
    return directory / f"{study}.json"


def read(directory: Path, study: str) -> Kept:
    """Read the kept results of a study; empty if there are none. Raises StoreError for a file of another kind."""
    path = place(directory, study)
    if not path.exists():
        return Kept(study)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA or document["study"] != study:
            raise ValueError(f"schema {document['schema']} of study {document['study']}")
        return Kept(
            study,
            tuple(
                Comparison(**{**comparison, "primary": tuple(comparison["primary"])})
                for comparison in document["comparisons"]
            ),
            tuple(document["hosts"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} holds no kept results: {error}") from error


def write(directory: Path, kept: Kept) -> Path:
    """Write the file of a study atomically, with a line for each comparison, so that diffs are small."""
    path = place(directory, kept.study)
    directory.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(_line(asdict(comparison)) for comparison in kept.comparisons)
    hosts = ",\n".join(_line(dict(host)) for host in kept.hosts)
    aside = path.with_suffix(".new")
    with aside.open("w", encoding="utf-8") as file:
        file.write(
            f'{{"schema": {SCHEMA}, "study": {json.dumps(kept.study)}, "hosts": [\n{hosts}\n],\n'
            f'"comparisons": [\n{lines}\n]}}\n'
        )
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    return path


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def rounded(value: float) -> float:
    """Round a value for the file; whole numbers (bytes) stay exact."""
    return value if value == int(value) else float(f"{value:.{DIGITS}g}")
