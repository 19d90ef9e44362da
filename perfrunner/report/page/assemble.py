"""Assemble the HTML page. All contents are escaped; a content security policy allows only its scripts, by hash."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING

from perfrunner.report.account import TITLE, account_rows
from perfrunner.report.charts.dots import pieces
from perfrunner.report.explain import NO_COUNTERS
from perfrunner.report.facts import flatten, own_facts, shared_build
from perfrunner.report.json_document import document
from perfrunner.report.model import HOSTS
from perfrunner.report.numbers import change, scale_of
from perfrunner.report.page.chart_data import chart_data
from perfrunner.report.page.described import shared_source, variants, workloads
from perfrunner.report.page.effects import panels
from perfrunner.report.page.tables import brief, explained_section, profile_section, tables
from perfrunner.report.profiles import ONE_SAMPLE
from perfrunner.report.published import counts_text, published_texts, reference_facts
from perfrunner.report.selection import primary_rows
from perfrunner.report.sentences import question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from perfrunner.analysis import Row
    from perfrunner.domain import Case
    from perfrunner.report.charts import Chart
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData
    from perfrunner.results.raw import RawSeries

SCRIPTS = (
    "vendor/echarts/echarts.js",
    "points.js",
    "page/charts.js",
    "page/comparison.js",
    "page/page.js",
)
OF_PROFILES = ("page/flames.js",)
PICTURED = "heap"  # a chart without interaction on the page
MOST_WARNINGS = 3  # on the first screen


def html_text(
    report: Report, data: ExperimentData, raw: RawSeries, charts: Sequence[Chart], page: Path | None
) -> str:
    """Return the page. `charts`: pictures for readers without scripts (PICTURED: for all); `page`: its path."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("perfrunner.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = lambda name, *ends: Markup("<wbr>").join(
        pieces(str(name), *ends)
    )
    primary = primary_rows(report)
    rest = _by_metric(report, leave_out=primary)
    brief_metrics, lines = brief(report)
    colours = chart_data_colours(report)
    names = SCRIPTS + (OF_PROFILES if report.profiles or report.explanations else ())
    scripts = [files("perfrunner.report").joinpath(name).read_text("utf-8") for name in names]
    return environment.get_template("report.html.j2").render(
        report=report,
        comparison=report.comparison,
        record=report.experiment,
        colours=colours,
        hashes=" ".join(map(_hash, scripts)),
        scripts=[Markup(script) for script in scripts],
        warnings=(*report.warnings, *raw.notes),
        most_warnings=MOST_WARNINGS,
        hosts=[fact.value for fact in report.context if fact.label == HOSTS],
        variants=variants(report),
        source=shared_source(report),
        workloads=workloads(report),
        asked=_asked(report, primary),
        brief_metrics=brief_metrics,
        brief=lines,
        panels=panels(report, primary),
        other_panels=panels(report, rest),
        tables=tables(report),
        metrics=_metric_names(report),
        published=published_texts(report),
        published_counts=counts_text(report),
        reference_facts=reference_facts(report),
        profiles=profile_section(report),
        one_sample=ONE_SAMPLE,
        explained=explained_section(report),
        no_counters=NO_COUNTERS,
        account_title=TITLE,
        accounts=account_rows(report.comparison.accounts),
        moved=[(m, [_moved(row) for row in m.rows]) for m in report.moved],
        always=[(c, Markup(c.inline())) for c in charts if c.name == PICTURED],
        static=[(c, Markup(c.inline())) for c in charts if c.name != PICTURED],
        facts=flatten(report.facts),
        shared_build=shared_build(report.builds),
        builds=[(b, own_facts(b, report.builds)) for b in report.builds],
        spec_json=json.dumps(dict(report.experiment.spec_json), indent=2, ensure_ascii=False),
        raw=Markup(_embedded(report, data, raw, page)),
    )


def chart_data_colours(report: Report) -> list[str]:
    """Return the colours of the variants in their order."""
    from perfrunner.report.charts.style import VARIANTS

    return [VARIANTS[i % len(VARIANTS)] for i in range(len(report.comparison.variants))]


def _asked(report: Report, primary: Mapping[str, Mapping[Case, Sequence[Row]]]) -> str:
    """Return the question of the first screen: for its only metric, or for all metrics."""
    comparison = report.comparison
    if len(primary) == 1:
        rows = next(iter(next(iter(primary.values())).values()))
        return (
            f"{question(rows[0].metric, comparison.variants)} Change against {comparison.baseline}"
        )
    return f"Is any variant better than {comparison.baseline}?"


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _by_metric(
    report: Report, *, leave_out: Mapping[str, object]
) -> dict[str, dict[Case, list[Row]]]:
    by_metric: dict[str, dict[Case, list[Row]]] = {}
    for row in report.comparison.rows:
        if row.metric.id not in leave_out:
            by_metric.setdefault(row.metric.id, {}).setdefault(row.case, []).append(row)
    return by_metric


def _metric_names(report: Report) -> list[tuple[str, bool]]:
    """Return each metric and whether it is primary, primary metrics first."""
    names = {row.metric.id: row.primary for row in report.comparison.rows}
    return sorted(names.items(), key=lambda item: not item[1])


def _moved(row: Row) -> str:
    if row.effect is None:
        return ""
    return (
        f"{row.metric.id} {change(row.effect, row.metric, scale_of(row.metric, row.summary.mean))}"
    )


def _embedded(report: Report, data: ExperimentData, raw: RawSeries, page: Path | None) -> str:
    """Return the report, the trials and the data of the charts as JSON that cannot end the script element."""
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
        "charts": chart_data(report, data, raw, page),
    }  # fmt: skip
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
