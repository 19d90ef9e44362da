"""Render the live page: the progress of an experiment and estimates, which are provisional until it is done."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from perfrunner.domain import MIN_BLOCKS, WITHOUT_AN_ENGINE
from perfrunner.report.build import build_report
from perfrunner.report.page.effects import panels
from perfrunner.report.selection import primary_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.results import ExperimentData, ExperimentSummary, TrialRecord


@dataclass(frozen=True)
class Progress:
    """The progress of a run in planned trials; `left_s` extrapolates the pace so far, None if unknown."""

    state: str
    done: int
    planned: int
    discarded: int
    blocks: int  # blocks that every variant of some case has finished
    planned_blocks: int
    left_s: float | None
    built: tuple[int, int] | None = None  # (built, all) variants, before the first trial

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def text(self) -> str:
        """Return the progress in words."""
        share = 100 * self.done // self.planned if self.planned else 0
        parts = [f"{self.built[0]} of {self.built[1]} variants built"] if self.built else []
        parts.append(f"{self.done} of {self.planned} trials ({share} %)")
        parts.append(f"{self.blocks} of {self.planned_blocks} blocks")
        if self.discarded:
            parts.append(f"{self.discarded} discarded or failed")
        if self.running and self.left_s is not None:
            parts.append(f"about {max(1, round(self.left_s / 60))} min left")
        return ", ".join(parts)


def progress(data: ExperimentData, blocks: int) -> Progress:
    """Return the progress of a run. `blocks`: number of blocks that the report compares so far."""
    record, spec = data.experiment, data.experiment.spec_json
    extended = record.facts.get("extended")
    wanted = int(extended[-1]["to"] if extended else spec.get("blocks") or 0)
    cases = _cases(data)
    ok = {(t.block, t.workload, t.bucket, t.variant) for t in data.trials if t.status == "ok"}
    variants = len(spec.get("variants") or ())
    planned = max(len(ok), wanted * cases * variants)
    pace = _seconds_of_a_block(data)
    left = pace * (planned - len(ok)) / variants if pace is not None and variants else None
    discarded = sum(t.status != "ok" for t in data.trials)
    built = None
    if record.state == "running" and not data.trials:
        built = (len({build.variant for build in data.builds}), variants)
    return Progress(record.state, len(ok), planned, discarded, blocks, wanted, left, built)


def _cases(data: ExperimentData) -> int:
    """Return the number of planned cases; for a finished run, of measured cases."""
    if data.experiment.state != "running":
        return len({(t.workload, t.bucket) for t in data.trials if t.block == 1})
    spec = data.experiment.spec_json
    buckets = len(spec.get("buckets") or ("persistent",))
    workloads = (spec.get("workloads") or {}).values()
    return sum(1 if w.get("type") in WITHOUT_AN_ENGINE else buckets for w in workloads)


def _seconds_of_a_block(data: ExperimentData) -> float | None:
    """Return the average seconds of a case per block, as medians over blocks to ignore interruptions."""
    spans: dict[tuple[str, str], dict[int, list[TrialRecord]]] = {}
    for trial in data.trials:
        if trial.status == "ok":
            case = spans.setdefault((trial.workload, trial.bucket), {})
            case.setdefault(trial.block, []).append(trial)
    medians = [
        median(
            (max(t.finished_at for t in ran) - min(t.started_at for t in ran)).total_seconds()
            for ran in blocks.values()
        )
        for blocks in spans.values()
    ]
    return sum(medians) / len(medians) if medians else None


def live_page(data: ExperimentData, others: Sequence[ExperimentSummary]) -> str:
    """Return the page of one experiment, with links to `others`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from perfrunner.report.charts.dots import pieces
    from perfrunner.report.page.assemble import chart_data_colours

    environment = Environment(
        loader=PackageLoader("perfrunner.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["breakable"] = lambda name, *ends: Markup("<wbr>").join(
        pieces(str(name), *ends)
    )
    report = build_report(data)
    return environment.get_template("live.html.j2").render(
        record=data.experiment, report=report, comparison=report.comparison,
        progress=progress(data, report.comparison.blocks), needed=MIN_BLOCKS,
        colours=chart_data_colours(report), panels=panels(report, primary_rows(report)), others=others,
    )  # fmt: skip
