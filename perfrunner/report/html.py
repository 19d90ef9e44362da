"""The report as one page: no server, no other file, no request. Everything in it is escaped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perfrunner.report.facts import flatten
from perfrunner.report.json_document import document
from perfrunner.report.numbers import (
    ARROWS,
    MARKS,
    change,
    mean_text,
    more_text,
    p_text,
    scale_for,
    scale_of,
    significant,
    spread,
    verdict_text,
)
from perfrunner.report.selection import selected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.analysis import Cell, Row
    from perfrunner.report.charts import Chart
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale
    from perfrunner.results import ExperimentData


LONG_NAME = 26  # letters; longer variant names are broken


def html_text(
    report: Report, data: ExperimentData, charts: Sequence[Chart], notes: Sequence[str]
) -> str:
    """The page. `notes` say what could not be drawn."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("perfrunner.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        report=report,
        comparison=report.comparison,
        record=report.experiment,
        cards=_cards(report),
        tables=[_tables(report, cell) for cell in report.comparison.cells],
        long_names=max((len(v) for v in report.comparison.variants), default=0) > LONG_NAME,
        moved=[(m, [_moved(row) for row in m.rows]) for m in report.moved],
        main=[(c, Markup(c.inline())) for c in charts if c.main],
        folded=[(c, Markup(c.inline())) for c in charts if not c.main],
        drawing_notes=notes,
        facts=flatten(report.facts),
        builds=[(b, flatten(b.provenance), b.settings) for b in report.builds],
        spec_json=json.dumps(dict(report.experiment.spec_json), indent=2, ensure_ascii=False),
        raw=Markup(_embedded(report, data)),
    )


def _cards(report: Report) -> list[dict[str, Any]]:
    """A card for each variant and primary metric, with a line for each cell."""
    cards: dict[tuple[str, str], list[Row]] = {}
    for row in report.comparison.rows:
        if row.primary and row.variant != report.comparison.baseline:
            cards.setdefault((row.variant, row.metric.id), []).append(row)
    order = {name: place for place, name in enumerate(report.comparison.variants)}
    return [
        {
            "variant": variant,
            "metric": metric,
            "arrow": ARROWS[rows[0].metric.direction],
            "colour": _common_verdict(rows),
            "lines": [_card_line(row) for row in rows],
        }
        for (variant, metric), rows in sorted(cards.items(), key=lambda item: order[item[0][0]])
    ]


def _common_verdict(rows: list[Row]) -> str:
    verdicts = {row.verdict for row in rows}
    return (verdicts.pop() or "none") if len(verdicts) == 1 else "mixed"


def _card_line(row: Row) -> dict[str, str]:
    effect = row.effect
    return {
        "verdict": row.verdict or "none",
        "mark": MARKS.get(row.verdict or "", "·"),
        "word": (row.verdict or "no verdict") + (" (small)" if row.small else ""),
        "cell": str(row.cell),
        "change": "" if effect is None else change(effect, row.metric, _scale(row)),
        "detail": _detail(row),
    }


def _detail(row: Row) -> str:
    effect = row.effect
    if effect is None:
        return row.reason
    parts = [f"{effect.n} blocks" if effect.paired else "not interleaved"]
    if effect.q is not None:
        parts.append(p_text("q", effect.q))
    if row.verdict == "unsure":
        more = more_text(row)
        parts.append(f"{more} would settle it" if row.more_blocks is not None else more)
    elif row.reason:
        parts.append(row.reason)
    return ", ".join(parts)


def _tables(report: Report, cell: Cell) -> dict[str, Any]:
    """The rows that matter, and the rest to fold away."""
    groups = report.rows(cell)
    shown, left_out = selected(report, cell, every=False)
    rest = {metric: rows for metric, rows in groups.items() if metric not in shown}
    parts = [(f"Results of {cell}", "", _table(shown))]
    if left_out:
        title = f"{left_out} metrics without a clear change"
        parts.append((f"{title}, {cell}", title, _table(rest)))
    return {"cell": str(cell), "parts": parts}


def _table(groups: dict[str, list[Row]]) -> list[dict[str, Any]]:
    lines = []
    for rows in groups.values():
        for index, row in enumerate(rows):
            lines.append(_line(row, scale_for(row, rows), first=index == 0, span=len(rows)))
    return lines


def _line(row: Row, scale: Scale, *, first: bool, span: int) -> dict[str, Any]:
    summary, effect = row.summary, row.effect
    return {
        "first": first,
        "span": span,
        "metric": row.metric.id,
        "title": row.metric.title,
        "arrow": ARROWS[row.metric.direction],
        "direction": {"higher": "higher is better", "lower": "lower is better"}.get(
            row.metric.direction, "no direction is better"
        ),
        "primary": row.primary,
        "variant": row.variant,
        "n": summary.n,
        "mean": mean_text(summary, scale),
        "half": spread(summary, row.metric, scale),
        "sd": "" if summary.sd is None else scale.number(summary.sd, 3),
        "cv": "" if summary.cv is None else f"{significant(100 * summary.cv, 2)} %",
        "range": f"{scale.number(summary.minimum)} … {scale.number(summary.maximum)}",
        "change": "" if effect is None else change(effect, row.metric, scale),
        "p": "" if effect is None or effect.p is None else p_text("", effect.p).lstrip("="),
        "q": "" if effect is None or effect.q is None else p_text("", effect.q).lstrip("="),
        "verdict": row.verdict or "none",
        "text": verdict_text(row),
        "remark": ", ".join(text for text in (more_text(row), row.reason) if text),
        "notes": "; ".join(row.notes),
    }


def _moved(row: Row) -> str:
    return (
        ""
        if row.effect is None
        else f"{row.metric.id} {change(row.effect, row.metric, _scale(row))}"
    )


def _scale(row: Row) -> Any:
    return scale_of(row.metric, row.summary.mean)


def _embedded(report: Report, data: ExperimentData) -> str:
    """The report's JSON and every trial's numbers, in a form that cannot end the script element."""
    content = {
        "report": document(report),
        "trials": [
            {
                "block": t.block, "attempt": t.attempt, "position": t.position,
                "workload": t.workload, "bucket": t.bucket, "variant": t.variant,
                "build_id": t.build_id, "status": t.status, "reason": t.reason,
                "started_at": t.started_at.isoformat(), "finished_at": t.finished_at.isoformat(),
                "metrics": dict(t.metrics),
            }
            for t in data.trials
        ],
    }  # fmt: skip
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
