"""Assemble the HTML page. All contents are escaped; a content security policy allows only its scripts, by hash."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from perfrunner.report.account import TITLE, account_rows
from perfrunner.report.environment import command, flatten, own_facts, shared_build
from perfrunner.report.explain import NO_COUNTERS
from perfrunner.report.html import embedded, render_page
from perfrunner.report.json_document import document
from perfrunner.report.model import HOSTS, by_metric, primary_rows
from perfrunner.report.page.chart_data import chart_data
from perfrunner.report.page.tables import brief, explained_section, panels, tables
from perfrunner.report.published import counts_text, published_facts, published_texts
from perfrunner.report.sentences import question
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from markupsafe import Markup

    from perfrunner.analysis.model import Row
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
    from markupsafe import Markup

    primary = primary_rows(report)
    rest = by_metric(row for row in report.comparison.rows if row.metric.id not in primary)
    brief_metrics, lines = brief(report)
    colours = chart_data_colours(report)
    names = SCRIPTS + (OF_PROFILES if report.profiled else ())
    scripts = [files("perfrunner.report").joinpath(name).read_text("utf-8") for name in names]
    return render_page(
        "report.html.j2",
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
        published_facts=published_facts(report),
        explained=explained_section(report),
        no_counters=NO_COUNTERS,
        account_title=TITLE,
        accounts=account_rows(report.comparison.accounts),
        moved=[(m, m.texts) for m in report.moved],
        always=[(c, Markup(c.inline())) for c in charts if c.name == PICTURED],
        static=[(c, Markup(c.inline())) for c in charts if c.name != PICTURED],
        facts=flatten(report.experiment.facts),
        shared_build=shared_build(report.builds),
        builds=[(b, own_facts(b, report.builds)) for b in report.builds],
        spec_json=json.dumps(dict(report.experiment.spec_json), indent=2, ensure_ascii=False),
        raw=_embedded(report, data, raw, page),
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


def _metric_names(report: Report) -> list[tuple[str, bool]]:
    """Return each metric and whether it is primary, primary metrics first."""
    names = {row.metric.id: row.primary for row in report.comparison.rows}
    return sorted(names.items(), key=lambda item: not item[1])


def _embedded(report: Report, data: ExperimentData, raw: RawSeries, page: Path | None) -> Markup:
    """Return the report, the trials and the data of the charts as JSON."""
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
    return embedded(content)


# The allocator and the source are described separately.
SILENT = ("name", "allocator.name", "source")


def variants(report: Report) -> list[tuple[str, str]]:
    """Return (name, description) of each variant: its allocator and the settings in which variants differ."""
    spec = report.experiment.spec_json.get("variants") or {}
    flat = {name: flatten(value) for name, value in spec.items() if isinstance(value, dict)}
    keys = dict.fromkeys(
        key
        for facts in flat.values()
        for key in facts
        if not key.startswith(("source.", "server.")) and key not in SILENT
    )
    apart = [k for k in keys if len({facts.get(k, "") for facts in flat.values()}) > 1]
    sources = {} if shared_source(report) else _sources(report)
    described = []
    for variant in report.comparison.variants:
        facts = flat.get(variant, {})
        if isinstance(server := (spec.get(variant) or {}).get("server"), dict):
            parts = [command(server)]
        else:
            name = facts.get("allocator.name", "")
            parts = ["the system's allocator (glibc)" if name == "system" else name]
        parts += [f"{k.rsplit('.', 1)[-1]} {facts[k]}" for k in apart if facts.get(k)]
        described.append((variant, ", ".join(filter(None, [*parts, sources.get(variant, "")]))))
    return described


def shared_source(report: Report) -> str:
    """Return the source of all variants; empty if they differ or one is unknown."""
    sources = _sources(report)
    known = {sources.get(variant, "") for variant in report.comparison.variants}
    return known.pop() if len(known) == 1 else ""


def _sources(report: Report) -> dict[str, str]:
    return {name: fact.value for fact in report.sources for name in fact.label.split(", ")}


def workloads(report: Report) -> list[tuple[str, str]]:
    """Return (name, description) of the measured workloads."""
    spec = report.experiment.spec_json.get("workloads") or {}
    measured = {case.workload for case in report.comparison.cases}
    return [
        (name, workload_words(value))
        for name, value in spec.items()
        if name in measured and isinstance(value, dict)
    ]


def workload_words(workload: Mapping[str, Any]) -> str:
    """Describe a workload: `20 % reads, 80 % writes of 256 B; 50,000 documents`; other types by settings."""
    kind = workload.get("type")
    if kind == "pillowfight":
        share = float(workload.get("set_share", 80.0))
        words = (
            f"{100 - share:g} % reads, {share:g} % writes of {_range(workload.get('value_size'))} B"
        )
    elif kind == "append":
        fields = workload.get("fields")
        of = f" of {_range(fields)} fields" if fields else ""
        words = f"documents{of} are read, extended by one field and written back, {workload.get('rounds', 5)} rounds"
    elif kind == "step":
        share = float(workload.get("set_share", 50.0))
        words = (
            f"{workload.get('change')} under load: {100 - share:g} % reads, {share:g} % writes of"
            f" {_range(workload.get('value_size'))} B"
        )
    elif kind == "sdk":
        share = float(workload.get("set_share", 20.0))
        words = (
            f"the Couchbase SDK, {100 - share:g} % reads, {share:g} % writes of"
            f" {_range(workload.get('value_size'))} B, one at a time in {workload.get('processes')} processes a client"
        )
        return f"{words}; {_count(workload.get('items'))} documents, verified"
    else:
        settings = {k: v for k, v in workload.items() if v not in (None, "", {}, [])}
        return ", ".join(f"{k} {v}" for k, v in flatten(settings).items())
    words += f"; {_count(workload.get('items'))} documents"
    connections = int(workload.get("threads") or 1) * int(workload.get("connections") or 1)
    words += f", {count_of(connections, 'connection')}"
    if workload.get("rate_limit"):
        words += f", at most {_count(workload['rate_limit'])} operations a second"
    return words


def _range(value: Any) -> str:
    if isinstance(value, (list, tuple)) and len(value) == 2:
        low, high = value
        return f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return str(value)


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
