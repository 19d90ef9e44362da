"""What a history needs of each run: the primary metrics' effects, worked out once a run and kept.

Reading and comparing a thousand runs takes ten seconds. What was worked out, when a run ended or a history was asked
for, is kept in a file beside the store, which may be removed at any time; a run that got trials since is done again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.model import Cell, Interval
from perfrunner.analysis.plan import type_of

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData, ExperimentRecord, ExperimentSummary
    from perfrunner.spec.metrics import MetricType

FILE = "history-cache.jsonl"
SCHEMA = 2  # of a line of the file; raised whenever an effect would come out otherwise


@dataclass(frozen=True)
class NightRow:
    """A variant's metric in a cell. `effect` (ratio or difference) is None for the baseline and where there is none.

    `ci95` is the interval of the effect, or of the mean where there is no effect.
    """

    cell: Cell
    variant: str
    metric: MetricType
    build_id: str
    mean: float
    effect: float | None
    blocks: int
    ci95: Interval | None = None


@dataclass(frozen=True)
class Night:
    """A finished run: what was asked for, on which hosts, and what came of it."""

    record: ExperimentRecord
    rows: tuple[NightRow, ...]

    @property
    def experiment(self) -> str:
        return self.record.id

    @property
    def created_at(self) -> datetime:
        return self.record.created_at

    @property
    def baseline(self) -> str:
        return str(self.record.spec_json.get("baseline", ""))


def primary_metrics(record: ExperimentRecord) -> tuple[str, ...]:
    """As its spec names them."""
    return tuple(record.spec_json.get("primary") or ("ops_per_s",))


def night_of(data: ExperimentData, metrics: Sequence[str]) -> Night:
    """From a run's trials; only `metrics` are looked at."""
    from perfrunner.analysis.compare import compare

    trials = tuple(
        replace(t, metrics={name: t.metrics[name] for name in metrics if name in t.metrics})
        for t in data.trials
    )
    rows = tuple(
        NightRow(
            cell=row.cell,
            variant=row.variant,
            metric=row.metric,
            build_id=row.build_id,
            mean=row.summary.mean,
            effect=None if row.effect is None else row.effect.estimate,
            blocks=row.summary.n,
            ci95=row.summary.ci95 if row.effect is None else row.effect.ci95,
        )
        for row in compare(replace(data, trials=trials)).rows
    )
    return Night(data.experiment, rows)


def nights(
    summaries: Iterable[ExperimentSummary],
    load: Callable[[str], ExperimentData],
    metrics: Sequence[str],
    directory: Path | None,
) -> list[Night]:
    """Of finished runs. Primary metrics are looked up in `directory`'s file, and kept there; others are worked out."""
    finished = [s for s in summaries if s.experiment.state == "done"]
    kept = {} if directory is None else _read(directory / FILE)
    found, fresh = [], []
    for summary in finished:
        record = summary.experiment
        key = _key(summary)
        line = kept.get(record.id)
        if line is not None and line["key"] == key and set(metrics) <= set(line["metrics"]):
            rows = tuple(_row(row) for row in line["rows"])
            found.append(Night(record, tuple(r for r in rows if r.metric.id in metrics)))
            continue
        night = night_of(load(record.id), metrics)
        found.append(night)
        if set(metrics) <= set(primary_metrics(record)):
            fresh.append(
                {
                    "id": record.id,
                    "key": key,
                    "metrics": list(metrics),
                    "rows": [_plain(r) for r in night.rows],
                }
            )
    if fresh and directory is not None:
        _append(directory / FILE, fresh)
    return found


def keep_night(data: ExperimentData, directory: Path | None) -> None:
    """Of a run that has just ended, in `directory`'s file: `nights` finds it there."""
    from perfrunner.results import ExperimentSummary

    if directory is not None:
        ended = Counter(trial.status for trial in data.trials)
        summary = ExperimentSummary(data.experiment, ended["ok"], ended["void"], ended["failed"])
        nights([summary], lambda _: data, primary_metrics(data.experiment), directory)


def _key(summary: ExperimentSummary) -> list[Any]:
    return [SCHEMA, summary.ok, summary.void, summary.failed]


def _plain(row: NightRow) -> list[Any]:
    return [
        *row.cell,
        row.variant,
        row.metric.id,
        row.build_id,
        row.mean,
        row.effect,
        row.blocks,
        row.ci95,
    ]


def _row(plain: Sequence[Any]) -> NightRow:
    workload, bucket, variant, metric, build_id, mean, effect, blocks, ci95 = plain
    return NightRow(
        Cell(workload, bucket),
        variant,
        type_of(metric),
        build_id,
        mean,
        effect,
        blocks,
        None if ci95 is None else (ci95[0], ci95[1]),
    )


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    """By experiment, its latest line; lines that are torn or of another schema are left out."""
    found = {}
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for text in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                line = json.loads(text)
                if line["key"][0] == SCHEMA:
                    found[str(line["id"])] = line
    return found


def _append(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """A results directory that cannot be written is read all the same."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
