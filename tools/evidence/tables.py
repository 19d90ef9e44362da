"""Generate the sections of docs/explanation/accuracy.md and docs/how-to/ci.md: one for each study, between markers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perfrunner.errors import StoreError
from perfrunner.report.numbers import minus, scale_of
from perfrunner.spec.metrics import metric_type
from tools.evidence import between, figures, kept
from tools.evidence.cells import (
    change_text,
    fact_of,
    host_text,
    percent,
    shown,
    slice_text,
    table,
    when,
)
from tools.evidence.kept import Comparison, Kept
from tools.evidence.studies import (
    AGAIN,
    BY_CONSTRUCTION,
    EXPLAINED,
    FAULTY,
    MEMORY,
    PRIMARY,
    SHARES,
)

STUDIES = ("aa", "injected", "account", "explain", "slices", between.STUDY, "relink", "memory")
GATE = "gate"  # the section of docs/how-to/ci.md: false alarms of whole reports, from the study aa
NOTHING = "Nothing is kept yet: `scripts/evidence {study}` measures it."
PROSE_WIDTH = 100  # columns, as in all documents


def update(document: Path, keep: Path, sections: Sequence[str] = STUDIES) -> bool:
    """Rewrite the generated sections of `document` from the results in `keep`; return whether anything changed."""
    return write(document, {study: section(keep, study) for study in sections})


def write(document: Path, sections: Mapping[str, str]) -> bool:
    """Replace the sections of `document` with these names; return whether anything changed."""
    before = document.read_text(encoding="utf-8")
    after = before
    for name, body in sections.items():
        after = _between(after, name, body, document)
    if after != before:
        document.write_text(after, encoding="utf-8")
    return after != before


def section(keep: Path, study: str) -> str:
    """Return a study's tables as Markdown."""
    measured = "aa" if study == GATE else study
    results = kept.read(keep, measured)
    if not results.comparisons:
        return NOTHING.format(study=measured)
    parts = [_RENDER[study](results)]
    hosts = "; ".join(host_text(host) for host in results.hosts)
    parts.append(f"Measured {when(results.comparisons)} on {hosts}.")
    return wrapped("\n\n".join(part.strip() for part in parts))


def wrapped(text: str) -> str:
    """Wrap the paragraphs to the width of the documents; leave tables unchanged."""
    return "\n\n".join(
        paragraph
        if paragraph.startswith("|")
        else textwrap.fill(paragraph, PROSE_WIDTH, break_long_words=False, break_on_hyphens=False)
        for paragraph in text.split("\n\n")
    )


# -- the studies

_HEADS = {
    "label": "machine",
    "load_s": "load of a variant and block",
    "bucket": "bucket",
    "relink": "`relink`",
}


def _aa(results: Kept) -> str:
    by = ("label", "bucket", "load_s")
    parts = [_alarm_tables(results.comparisons, by)]
    groups = figures.grouped(
        results.comparisons, lambda comparison: tuple(fact_of(comparison, key) for key in by)
    )
    rows = [
        [
            *(shown(fact_of(group[0], key), key) for key in by),
            str(report.rows),
            _rate(report.false),
            ", ".join(f"`{metric}` {n}" for metric, n in report.claims.items()) or "none",
        ]
        for group in groups.values()
        if (report := figures.reports(group))
    ]
    if rows:
        parts.append(
            "The whole reports of these experiments: every variant against the first, every metric, corrected for"
            " their number."
        )
        parts.append(
            table(
                [
                    *(_HEADS[key] for key in by),
                    "rows of a report",
                    "reports that say *better* or *worse* (95 % of the share)",
                    "of which metrics",
                ],
                rows,
            )
        )
    return "\n\n".join(parts)


def _gate(results: Kept) -> str:
    rows = []
    for group in figures.grouped(
        results.comparisons, lambda comparison: (fact_of(comparison, "label"),)
    ).values():
        (intervals,) = figures.alarms(group, PRIMARY[:1])
        whole = figures.reports(group)
        rows.append(
            [
                fact_of(group[0], "label"),
                _rate(intervals.alarms),
                f"{_rate(whole.false)}, of {whole.rows} rows each" if whole else "not counted",
            ]
        )
    heads = ["machine", f"alarms in intervals of `{PRIMARY[0]}`", "alarms in whole reports"]
    return "\n\n".join(
        ["Measured on one build against itself, where every alarm is false:", table(heads, rows)]
    )


def _rate(count: figures.Count) -> str:
    low, high = count.interval
    return f"{count.hits} of {count.of} ({100 * low:.1f} to {100 * high:.1f} %)"


def _relink(results: Kept) -> str:
    return _alarm_tables(results.comparisons, ("relink", "bucket"))


def _alarm_tables(comparisons: Sequence[Comparison], by: Sequence[str]) -> str:
    rows = []
    for group in figures.grouped(
        comparisons,
        lambda comparison: (*(fact_of(comparison, key) for key in by), comparison.blocks),
    ).values():
        for alarms in figures.alarms(group, PRIMARY):
            sd = sorted(alarms.sds)[len(alarms.sds) // 2]
            rows.append(
                [
                    *(shown(fact_of(group[0], key), key) for key in by),
                    f"`{alarms.metric}`",
                    str(group[0].blocks),
                    _rate(alarms.alarms),
                    f"± {100 * alarms.half_width(0.5):.2f} %",
                    f"± {100 * alarms.half_width(0.9):.2f} %",
                    f"{100 * sd:.2f} %",
                ]
            )
    return table(
        [
            *(_HEADS[key] for key in by),
            "metric",
            "blocks",
            "alarms (95 % of the share)",
            "half-width, median",
            "p90",
            "sd over blocks",
        ],
        rows,
    )


def _injected(results: Kept) -> str:
    faults = [comparison for comparison in results.comparisons if "stall" in comparison.values]
    parts = []
    for group in figures.grouped(
        faults, lambda comparison: (comparison.bucket, fact_of(comparison, "relink"))
    ).values():
        variants = len(group[0].values)
        seconds = float(fact_of(group[0], "load_s")) * group[0].blocks * variants
        parts.append(
            f"{len(group)} experiments of {group[0].blocks} blocks, {variants} variants and {seconds:.0f} s of load"
            f" each, {group[0].bucket}, `relink: {fact_of(group[0], 'relink')}`:"
        )
        parts.append(
            table(
                [
                    "fault",
                    "metric",
                    "by construction",
                    "mean estimate",
                    "half-width, median",
                    "verdict worse",
                    "interval covers it",
                    "covers the others' mean",
                ],
                [
                    [
                        f"`{fault.fault}`",
                        f"`{fault.metric}`",
                        "" if fault.constructed is None else percent(fault.constructed),
                        percent(fault.mean),
                        f"± {100 * fault.half_width:.2f} %",
                        f"{fault.worse.hits} of {fault.worse.of}",
                        "" if fault.covers is None else f"{fault.covers.hits} of {fault.covers.of}",
                        f"{fault.repeats.hits} of {fault.repeats.of}",
                    ]
                    for fault in figures.injected(group, SHARES, PRIMARY, BY_CONSTRUCTION)
                ],
            )
        )
        parts.append(_stall(group))
    parts += [
        _injected_memory(comparison)
        for comparison in results.comparisons
        if "leak" in comparison.values
    ]
    return "\n\n".join(parts)


def _account(results: Kept) -> str:
    rows = []
    for comparison in results.comparisons:
        response = figures.dose_response(comparison)
        rows.append(
            [
                f"`{response.fault}`",
                slice_text(comparison),
                str(response.blocks),
                f"{len(comparison.others)}, to {100 * response.counted:.1f} %",
                *(_slope(response.slopes[name]) for name in figures.FIGURES),
                f"{response.right_signs.hits} of {response.right_signs.of}",
            ]
        )
    return table(
        [
            "fault",
            "slice",
            "blocks",
            "sizes, of the time per operation",
            "time per operation",
            "`server_cpu_us_per_op`",
            "`total_cpu_us_per_op`",
            "total CPU above the baseline's",
        ],
        rows,
    )


def _explain(kept: Kept) -> str:
    rows = []
    for variant in (AGAIN, EXPLAINED):
        facts = [comparison.facts["explained"][variant] for comparison in kept.comparisons]
        first = [fact["first"] for fact in facts if fact["first"] is not None]
        named = [100 * size for _, function, size in first if function in FAULTY]
        rows.append(
            [
                f"`{variant}`",
                str(kept.comparisons[0].blocks),
                shown(kept.comparisons[0].facts["load_s"], "load_s"),
                _middle([fact["samples"] for fact in facts]),
                _middle([fact["functions"] for fact in facts]),
                _rate(figures.Count(len(first), len(facts))),
                _rate(figures.Count(len(named), len(facts))),
                minus(f"{min(named):+.2f} to {max(named):+.2f} %") if named else "none",
            ]
        )
    return table(
        [
            "variant against `none`",
            "blocks",
            "load of a variant and block",
            "samples of both",
            "functions compared",
            "experiments that name a function",
            "that name the faulty one first",
            "its change, of all CPU",
        ],
        rows,
    )


def _middle(values: Sequence[int]) -> str:
    return str(sorted(values)[len(values) // 2])


def _slope(slope: figures.Slope) -> str:
    low, high = slope.ci95
    return minus(f"{slope.estimate:.2f} [{low:.2f}, {high:.2f}]")


def _stall(group: Sequence[Comparison]) -> str:
    """Return tables of single experiments, and of all of them as one long run."""
    (long,) = figures.together(group)
    named = [comparison for comparison in group if figures.named_rare(comparison, "stall")]
    note = figures.named_rare(long, "stall")
    rows = []
    for variant in (*SHARES, "stall"):
        apart = [figures.totals_against_robust(comparison, variant) for comparison in group]
        below = sum(
            effect is not None and effect.ci95 is not None and effect.ci95[1] < 1
            for effect in apart
        )
        rows.append(
            [
                f"`{variant}`",
                *(
                    change_text(figures.effect(long, metric, variant), metric)
                    for metric in ("ops_per_s", "ops_per_s_total")
                ),
                change_text(figures.totals_against_robust(long, variant), "ops_per_s"),
                f"{below} of {len(group)}",
                *(
                    change_text(figures.effect(long, metric, variant), metric)
                    for metric in ("slow_slices", "latency_set_p99_9_us")
                ),
            ]
        )
    text = table(
        [
            "fault",
            "robust",
            "totals",
            "totals / robust",
            "below 1 in one experiment",
            "slow slices",
            "p99.9 of SET",
        ],
        rows,
    )
    return (
        f"The rare stall, all {long.blocks} blocks as one long run, for comparison with the shares:\n\n{text}\n\n"
        f"A report names it in {len(named)} of {len(group)} single experiments; that of all blocks "
        + (f"says: {note}." if note else "does not.")
    )


def _injected_memory(comparison: Comparison) -> str:
    verdicts = figures.verdicts(comparison)
    items, operations = int(comparison.facts.get("items", 0)), float(comparison.facts.get("ops", 0))
    rows = []
    for fault in comparison.others:
        for metric in MEMORY:
            row = verdicts.get((fault, metric))
            if row is None or row.effect is None:
                continue
            base = comparison.by_block(comparison.baseline, metric)
            faulty = comparison.by_block(fault, metric)
            mean = sum(faulty[b] - base[b] for b in base) / len(base)
            unit = metric_type(metric).unit
            rows.append(
                [
                    f"`{fault}`",
                    f"`{metric}`",
                    change_text(row.effect, metric),
                    f"{minus(f'{mean / 1e3:+.1f}')} kB" if unit == "B" else "",
                    row.verdict or "",
                ]
            )
    return (
        f"Memory, {items} items, about {operations / 1e6:.1f} million operations a variant and block, "
        f"{comparison.blocks} blocks, {comparison.bucket} (16 B an item are {16 * items / 1e3:.0f} kB; 32 B per "
        f"1000 SETs about {0.032 * 0.8 * operations / 1e3:.0f} kB):\n\n"
        + table(["fault", "metric", "change", "difference", "verdict"], rows)
    )


def _slices(results: Kept) -> str:
    ordered = sorted(
        results.comparisons,
        key=lambda comparison: (comparison.bucket, float(fact_of(comparison, "slice_s"))),
    )
    rows = [
        [
            comparison.bucket,
            slice_text(comparison),
            *(change_text(figures.effect(comparison, metric, other), metric) for metric in PRIMARY),
        ]
        for comparison in ordered
        for other in comparison.others
    ]
    return table(["bucket", "slice", *(f"`{metric}`" for metric in PRIMARY)], rows)


def _memory(results: Kept) -> str:
    rows = []
    for comparison, variant in figures.schedules(results.comparisons):
        for metric in MEMORY:
            difference = figures.effect(comparison, metric, "interleaved")
            if difference is None:
                continue
            scale = scale_of(
                metric_type(metric), next(iter(comparison.by_block("sequential", metric).values()))
            )
            means = [
                scale.text(sum(values.values()) / len(values))
                for schedule in comparison.values
                if (values := comparison.by_block(schedule, metric))
            ]
            rows.append(
                [
                    f"{comparison.workload} · {comparison.bucket}",
                    variant,
                    f"`{metric}`",
                    *means,
                    change_text(difference, metric),
                ]
            )
    return table(["case", "variant", "metric", "sequential", "interleaved", "difference"], rows)


_RENDER: dict[str, Callable[[Kept], str]] = {
    "aa": _aa,
    GATE: _gate,
    "injected": _injected,
    "account": _account,
    "explain": _explain,
    "slices": _slices,
    between.STUDY: between.tables,
    "relink": _relink,
    "memory": _memory,
}

# -- pieces


def _between(text: str, study: str, body: str, document: Path) -> str:
    begin, end = f"<!-- evidence: {study} -->", f"<!-- end of evidence: {study} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise StoreError(f"{document} has no place for {study}", hint=f"{begin} ... {end}")
    return pattern.sub(lambda _: f"{begin}\n\n{body}\n\n{end}", text)
