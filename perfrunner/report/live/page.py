"""How far an experiment is, and what its trials so far say: estimates, marked as provisional until it is done."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from perfrunner.analysis import MIN_BLOCKS
from perfrunner.report.build import build_report
from perfrunner.report.page.effects import panels
from perfrunner.report.selection import primary_rows
from perfrunner.spec.cell import WITHOUT_AN_ENGINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.results import ExperimentData, ExperimentSummary, TrialRecord


@dataclass(frozen=True)
class Progress:
    """Of the trials that are planned now; `left_s` by the pace so far, None where it is not known."""

    state: str
    done: int
    planned: int
    void: int
    blocks: int  # that every arm of some cell has finished
    planned_blocks: int
    left_s: float | None
    built: tuple[int, int] | None = None  # of the arms, while none has been measured

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def text(self) -> str:
        """In words."""
        share = 100 * self.done // self.planned if self.planned else 0
        parts = [f"{self.built[0]} of {self.built[1]} arms built"] if self.built else []
        parts.append(f"{self.done} of {self.planned} trials ({share} %)")
        parts.append(f"{self.blocks} of {self.planned_blocks} blocks")
        if self.void:
            parts.append(f"{self.void} void or failed")
        if self.running and self.left_s is not None:
            parts.append(f"about {max(1, round(self.left_s / 60))} min left")
        return ", ".join(parts)


def progress(data: ExperimentData, blocks: int) -> Progress:
    """`blocks`: those that the report so far compares."""
    record, spec = data.experiment, data.experiment.spec_json
    extended = record.facts.get("extended")
    wanted = int(extended[-1]["to"] if extended else spec.get("blocks") or 0)
    cells = _cells(data)
    ok = {(t.block, t.workload, t.bucket, t.variant) for t in data.trials if t.status == "ok"}
    arms = len(spec.get("variants") or ())
    planned = max(len(ok), wanted * cells * arms)
    pace = _seconds_of_a_block(data)
    left = pace * (planned - len(ok)) / arms if pace is not None and arms else None
    void = sum(t.status != "ok" for t in data.trials)
    built = None
    if record.state == "running" and not data.trials:
        built = (len({build.variant for build in data.builds}), arms)
    return Progress(record.state, len(ok), planned, void, blocks, wanted, left, built)


def _cells(data: ExperimentData) -> int:
    """As the spec plans them; a run that has ended had those that it measured."""
    if data.experiment.state != "running":
        return len({(t.workload, t.bucket) for t in data.trials if t.block == 1})
    spec = data.experiment.spec_json
    buckets = len(spec.get("buckets") or ("persistent",))
    workloads = (spec.get("workloads") or {}).values()
    return sum(1 if one.get("type") in WITHOUT_AN_ENGINE else buckets for one in workloads)


def _seconds_of_a_block(data: ExperimentData) -> float | None:
    """That a cell takes on average: its median over blocks, so that one in which the run was interrupted is no pace."""
    spans: dict[tuple[str, str], dict[int, list[TrialRecord]]] = {}
    for trial in data.trials:
        if trial.status == "ok":
            cell = spans.setdefault((trial.workload, trial.bucket), {})
            cell.setdefault(trial.block, []).append(trial)
    medians = [
        median(
            (max(t.finished_at for t in ran) - min(t.started_at for t in ran)).total_seconds()
            for ran in blocks.values()
        )
        for blocks in spans.values()
    ]
    return sum(medians) / len(medians) if medians else None


def live_page(data: ExperimentData, others: Sequence[ExperimentSummary]) -> str:
    """The page of one experiment, with links to `others`."""
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
