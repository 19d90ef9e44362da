"""The generated part of docs/statistics.md: a section a study, between markers, rewritten as a whole."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perfrunner.analysis.model import Effect
from perfrunner.errors import StoreError
from perfrunner.evidence import figures, kept
from perfrunner.evidence.kept import Comparison, Kept
from perfrunner.evidence.studies import BY_CONSTRUCTION, MEMORY, PRIMARY, SHARES
from perfrunner.report.numbers import change, minus, scale_of, significant
from perfrunner.spec.metrics import metric_type

STUDIES = ("aa", "planted", "slices", "relink", "memory")
GATE = "gate"  # the section of docs/ci.md: false alarms of whole reports, from the study aa
NOTHING = "Nothing is kept yet: `scripts/evidence {study}` measures it."
PROSE_WIDTH = 100  # columns, as in all documents


def update(document: Path, keep: Path, sections: Sequence[str] = STUDIES) -> bool:
    """Rewrite the generated sections of `document` from what `keep` holds; whether anything changed."""
    before = document.read_text(encoding="utf-8")
    after = before
    for study in sections:
        after = _between(after, study, section(keep, study), document)
    if after != before:
        document.write_text(after, encoding="utf-8")
    return after != before


def section(keep: Path, study: str) -> str:
    """A study's tables as Markdown."""
    measured = "aa" if study == GATE else study
    found = kept.read(keep, measured)
    if not found.comparisons:
        return NOTHING.format(study=measured)
    parts = [_RENDER[study](found)]
    hosts = "; ".join(_host(host) for host in found.hosts)
    parts.append(f"Measured {_when(found.comparisons)} on {hosts}.")
    return "\n\n".join(_wrapped(text) for part in parts for text in part.strip().split("\n\n"))


def _wrapped(text: str) -> str:
    """A paragraph in the width of the documents' prose; a table as it is."""
    if text.startswith("|"):
        return text
    return textwrap.fill(text, PROSE_WIDTH, break_long_words=False, break_on_hyphens=False)


# -- the studies

_HEADS = {
    "label": "machine",
    "load_s": "load of an arm and block",
    "bucket": "bucket",
    "relink": "`relink`",
}


def _aa(found: Kept) -> str:
    by = ("label", "bucket", "load_s")
    parts = [_alarm_tables(found.comparisons, by)]
    groups = figures.grouped(found.comparisons, lambda one: tuple(_of(one, key) for key in by))
    rows = [
        [
            *(_shown(_of(group[0], key), key) for key in by),
            str(its.rows),
            _rate(its.false),
            ", ".join(f"`{metric}` {n}" for metric, n in its.claims.items()) or "none",
        ]
        for group in groups.values()
        if (its := figures.reports(group))
    ]
    if rows:
        parts.append(
            "What the reports of these experiments say, each as a whole: every arm against the first, every metric, "
            "corrected for their number."
        )
        parts.append(
            _table(
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


def _gate(found: Kept) -> str:
    said = []
    for group in figures.grouped(found.comparisons, lambda one: (_of(one, "label"),)).values():
        rates = figures.alarms(group, PRIMARY[:1])
        counts = [f"{_rate(its.alarms)} intervals of `{its.metric}`" for its in rates]
        if its := figures.reports(group):
            counts.append(f"{_rate(its.false)} whole reports, of {its.rows} rows each")
        said.append(f"{_of(group[0], 'label')}: {', and '.join(counts)}")
    return f"Measured on one build against itself, where every alarm is a false one ({'; '.join(said)})."


def _rate(count: figures.Count) -> str:
    low, high = count.interval
    return f"{count.hits} of {count.of} ({100 * low:.1f} to {100 * high:.1f} %)"


def _relink(found: Kept) -> str:
    return _alarm_tables(found.comparisons, ("relink", "bucket"))


def _alarm_tables(comparisons: Sequence[Comparison], by: Sequence[str]) -> str:
    rows = []
    for group in figures.grouped(
        comparisons, lambda one: (*(_of(one, key) for key in by), one.blocks)
    ).values():
        for its in figures.alarms(group, PRIMARY):
            sd = sorted(its.sds)[len(its.sds) // 2]
            rows.append(
                [
                    *(_shown(_of(group[0], key), key) for key in by),
                    f"`{its.metric}`",
                    str(group[0].blocks),
                    _rate(its.alarms),
                    f"± {100 * its.half_width(0.5):.2f} %",
                    f"± {100 * its.half_width(0.9):.2f} %",
                    f"{100 * sd:.2f} %",
                ]
            )
    return _table(
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


def _planted(found: Kept) -> str:
    faults = [one for one in found.comparisons if "stall" in one.values]
    parts = []
    for group in figures.grouped(faults, lambda one: (one.bucket, _of(one, "relink"))).values():
        arms = len(group[0].values)
        seconds = float(_of(group[0], "load_s")) * group[0].blocks * arms
        parts.append(
            f"{len(group)} experiments of {group[0].blocks} blocks, {arms} arms and {seconds:.0f} s of load each, "
            f"{group[0].bucket}, `relink: {_of(group[0], 'relink')}`:"
        )
        parts.append(
            _table(
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
                        f"`{its.fault}`",
                        f"`{its.metric}`",
                        "" if its.constructed is None else _percent(its.constructed),
                        _percent(its.mean),
                        f"± {100 * its.half_width:.2f} %",
                        f"{its.worse.hits} of {its.worse.of}",
                        "" if its.covers is None else f"{its.covers.hits} of {its.covers.of}",
                        f"{its.repeats.hits} of {its.repeats.of}",
                    ]
                    for its in figures.planted(group, SHARES, PRIMARY, BY_CONSTRUCTION)
                ],
            )
        )
        parts.append(_stall(group))
    parts += [_planted_memory(one) for one in found.comparisons if "leak" in one.values]
    return "\n\n".join(parts)


def _stall(group: Sequence[Comparison]) -> str:
    """One experiment at a time, and all of them as one long run."""
    (long,) = figures.together(group)
    named = [one for one in group if figures.named_rare(one, "stall")]
    said = figures.named_rare(long, "stall")
    rows = []
    for arm in (*SHARES, "stall"):
        apart = [figures.totals_against_robust(one, arm) for one in group]
        below = sum(one is not None and one.ci95 is not None and one.ci95[1] < 1 for one in apart)
        rows.append(
            [
                f"`{arm}`",
                *(
                    _change(figures.effect(long, metric, arm), metric)
                    for metric in ("ops_per_s", "ops_per_s_total")
                ),
                _change(figures.totals_against_robust(long, arm), "ops_per_s"),
                f"{below} of {len(group)}",
                *(
                    _change(figures.effect(long, metric, arm), metric)
                    for metric in ("slow_slices", "latency_set_p99_9_us")
                ),
            ]
        )
    text = _table(
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
        f"The rare stall, all {long.blocks} blocks as one long run beside the shares:\n\n{text}\n\n"
        f"A report names it in {len(named)} of {len(group)} single experiments; that of all blocks "
        + (f"says: {said}." if said else "does not.")
    )


def _planted_memory(one: Comparison) -> str:
    table = figures.verdicts(one)
    items, operations = int(one.facts.get("items", 0)), float(one.facts.get("ops", 0))
    rows = []
    for fault in one.others:
        for metric in MEMORY:
            row = table.get((fault, metric))
            if row is None or row.effect is None:
                continue
            base, its = one.by_block(one.baseline, metric), one.by_block(fault, metric)
            mean = sum(its[b] - base[b] for b in base) / len(base)
            unit = metric_type(metric).unit
            rows.append(
                [
                    f"`{fault}`",
                    f"`{metric}`",
                    _change(row.effect, metric),
                    f"{minus(f'{mean / 1e3:+.1f}')} kB" if unit == "B" else "",
                    row.verdict or "",
                ]
            )
    return (
        f"Memory, {items} items, about {operations / 1e6:.1f} million operations an arm and block, "
        f"{one.blocks} blocks, {one.bucket} (16 B an item are {16 * items / 1e3:.0f} kB; 32 B per 1000 "
        f"SETs about {0.032 * 0.8 * operations / 1e3:.0f} kB):\n\n"
        + _table(["fault", "metric", "change", "difference", "verdict"], rows)
    )


def _slices(found: Kept) -> str:
    ordered = sorted(found.comparisons, key=lambda one: (one.bucket, float(_of(one, "slice_s"))))
    rows = [
        [
            one.bucket,
            f"{1000 * float(_of(one, 'slice_s')):g} ms",
            *(_change(figures.effect(one, metric, other), metric) for metric in PRIMARY),
        ]
        for one in ordered
        for other in one.others
    ]
    return _table(["bucket", "slice", *(f"`{metric}`" for metric in PRIMARY)], rows)


def _memory(found: Kept) -> str:
    rows = []
    for one, variant in figures.schedules(found.comparisons):
        for metric in MEMORY:
            its = figures.effect(one, metric, "side-by-side")
            if its is None:
                continue
            scale = scale_of(
                metric_type(metric), next(iter(one.by_block("sequential", metric).values()))
            )
            means = [
                scale.text(sum(values.values()) / len(values))
                for arm in one.values
                if (values := one.by_block(arm, metric))
            ]
            rows.append(
                [
                    f"{one.workload} · {one.bucket}",
                    variant,
                    f"`{metric}`",
                    *means,
                    _change(its, metric),
                ]
            )
    return _table(
        ["cell", "variant", "metric", "one at a time", "side by side", "difference"], rows
    )


_RENDER: dict[str, Callable[[Kept], str]] = {
    "aa": _aa,
    GATE: _gate,
    "planted": _planted,
    "slices": _slices,
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


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _change(its: Effect | None, metric: str) -> str:
    if its is None:
        return "none"
    if its.kind == "ratio" and its.ci95 is not None:
        low, high = (f"{100 * (bound - 1):+.2f}" for bound in its.ci95)
        return minus(f"{100 * (its.estimate - 1):+.2f} % [{low}, {high}]")
    kind = metric_type(metric)
    return change(its, kind, scale_of(kind, its.estimate))


def _percent(ratio: float) -> str:
    return minus(f"{100 * (ratio - 1):+.2f} %")


def _of(one: Comparison, key: str) -> Any:
    """A fact of it, or its bucket."""
    return one.bucket if key == "bucket" else one.facts.get(key, "")


def _shown(value: Any, key: str) -> str:
    return f"{value:g} s" if key == "load_s" else str(value)


def _when(comparisons: Sequence[Comparison]) -> str:
    """The days, and how busy the host was with other things."""
    days = sorted({str(one.facts["began"])[:10] for one in comparisons if "began" in one.facts})
    busy = [float(one.facts["busy"]) for one in comparisons if "busy" in one.facts]
    words = []
    if days:
        words.append(days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}")
    if busy:
        words.append(f"(load average before an experiment {min(busy):.1f} to {max(busy):.1f})")
    return " ".join(words)


def _host(host: dict[str, Any] | Any) -> str:
    words = [str(host.get("cpu_model", "an unnamed CPU"))]
    if "cpus" in host:
        words.append(f"{host['cpus']} CPUs")
    if "memory_bytes" in host:
        words.append(f"{significant(host['memory_bytes'] / 1e9, 2)} GB")
    if "kernel" in host:
        words.append(f"Linux {host['kernel']}")
    if host.get("virtualization"):
        words.append(
            "a virtual machine"
            if "Virtual" in str(host["virtualization"])
            else str(host["virtualization"])
        )
    return ", ".join(words)
