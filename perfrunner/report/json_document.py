"""Write a report as one JSON document; every number has its unit, direction, n and interval."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perfrunner.report.account import account_records
from perfrunner.report.expected_gains import expected_gain_records
from perfrunner.report.explain import explain_document
from perfrunner.report.method import method_record
from perfrunner.report.model import SCHEMA
from perfrunner.report.published import published_records

if TYPE_CHECKING:
    from perfrunner.analysis.model import Row
    from perfrunner.report.model import Report


def json_text(report: Report) -> str:
    """Return valid JSON; unknown values are null, never NaN."""
    return json.dumps(document(report), indent=1, allow_nan=False) + "\n"


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain values."""
    record, comparison = report.experiment, report.comparison
    return {
        "experiment": record.id,
        "spec": dict(record.spec_json),
        "trials": {
            "ok": report.counts.ok,
            "discarded": report.counts.discarded,
            "failed": report.counts.failed,
        },
        **({"published": published_records(report)} if report.published_lines else {}),
        **({"expected_gains": expected_gain_records(report)} if report.expected_gains else {}),
        **({"explanations": explain_document(report.explanations)} if report.explanations else {}),
        **({"accounts": account_records(comparison.accounts)} if comparison.accounts else {}),
        "results": [_result(row, comparison.baseline) for row in comparison.rows],
        "facts": {
            "schema": SCHEMA,
            "name": record.name,
            "state": record.state,
            "seed": record.seed,
            "created_at": record.created_at.isoformat(),
            "tool_version": record.tool_version,
            "spec_path": record.spec_path,
            "blocks": comparison.blocks,
            "tests": comparison.tests,
            "paired": comparison.paired,
            "headline": list(report.headline),
            "reproduce": report.reproduce,
            "builds": {
                b.variant: {"build_id": b.build_id, "provenance": dict(b.provenance),
                            "settings": dict(b.settings)}
                for b in report.builds
            },
            "discarded": [
                {"block": v.block, "attempt": v.attempt, "workload": v.case.workload,
                 "bucket": v.case.bucket, "variant": v.variant, "status": v.status,
                 "reason": v.reason}
                for v in comparison.discarded
            ],
            "noise_floor": [floor.record() for floor in report.noise],
            "method": [method_record(method) for method in report.methods],
            "differing": list(report.differing),
            "recorded": dict(report.experiment.facts),
        },
        "warnings": [*report.warnings, *report.notes, *report.minor_notes],
    }  # fmt: skip


def _result(row: Row, baseline: str) -> dict[str, Any]:
    summary, effect = row.summary, row.effect
    return {
        "workload": row.case.workload,
        "bucket": row.case.bucket,
        "metric": row.metric.id,
        "unit": row.metric.unit,
        "direction": row.metric.direction,
        "variant": row.variant,
        "build_id": row.build_id,
        "n": summary.n,
        "mean": summary.mean,
        "sd": summary.sd,
        "cv": summary.cv,
        "min": summary.minimum,
        "max": summary.maximum,
        "max_deviation": summary.max_deviation,
        "ci95": None if summary.ci95 is None else list(summary.ci95),
        "baseline": baseline,
        "effect": row.metric.effect,
        "estimate": None if effect is None else effect.estimate,
        "estimate_ci95": None if effect is None or effect.ci95 is None else list(effect.ci95),
        "p_value": None if effect is None else effect.p,
        "q_value": None if effect is None else effect.q,
        "margin": None if effect is None else effect.margin,
        "primary": row.primary,
        "verdict": row.verdict,
        "small": row.small,
        "companion": row.companion,
        "cpu": row.cpu or None,
        "checked": row.checked,
        "reason": row.reason,
        "more_blocks": row.more_blocks,
    }
