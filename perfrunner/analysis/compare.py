"""The comparison of an experiment: estimates for every row first, then the correction, then verdicts.

The correction for multiple testing (Benjamini-Hochberg) covers every test of the report, in two
families: the tests of the primary metrics, which the spec named before anything was measured, and
all the exploratory rest. In one family twenty exploratory metrics would hide a real change of the
primary one (measured: docs/reports.md).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from perfrunner.analysis.cells import CellBlocks, Paired, clean_blocks, void_trials
from perfrunner.analysis.circumstances import (
    differences,
    shared_circumstances,
    variant_circumstances,
    workload_circumstances,
)
from perfrunner.analysis.enough import short_load, too_little
from perfrunner.analysis.estimate import (
    NotARatioError,
    Pairing,
    adjust,
    paired_effects,
    summarise,
    summarise_all,
    unpaired_effect,
)
from perfrunner.analysis.model import ALPHA, Cell, Comparison, Effect, Row, Summary
from perfrunner.analysis.plan import AnalysisPlan, type_of
from perfrunner.analysis.rare import ROBUST, rare_slices
from perfrunner.analysis.saturation import busy_hosts, saturated
from perfrunner.analysis.verdict import decide, more_blocks
from perfrunner.spec.metrics import BY_USABLE_SIZE
from perfrunner.spec.unproved import unproved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfrunner.results import ExperimentData
    from perfrunner.spec.metrics import MetricType


def compare(data: ExperimentData, baseline: str | None = None) -> Comparison:
    """Every variant against the baseline (the spec's, or another variant), paired by block."""
    plan = AnalysisPlan.of(data, baseline)
    cells = _in_spec_order(clean_blocks(data.trials), plan)
    builds = {t.variant: t.build_id for t in data.trials} | {
        b.variant: b.build_id for b in data.builds
    }
    rows = _with_proofs(_with_verdicts(_drafts(cells, builds, plan)), _not_proved(data))
    return Comparison(
        baseline=plan.baseline,
        variants=plan.variants,
        cells=tuple(blocks.cell for blocks in cells),
        rows=rows,
        voids=void_trials(data.trials),
        blocks=max((len(blocks.blocks) for blocks in cells), default=0),
        tests=_tests(rows),
        warnings=(*_warnings(cells, plan), *_rounded(rows, plan), *busy_hosts(cells)),
    )


def compare_unpaired(
    a: ExperimentData, b: ExperimentData, variant_a: str, variant_b: str
) -> Comparison:
    """`variant_b` of experiment b against `variant_a` of experiment a: Welch intervals, no verdicts."""
    plan = AnalysisPlan.of(a, variant_a)
    AnalysisPlan.of(b, variant_b)  # names an unknown variant
    base, other = f"{a.experiment.id}/{variant_a}", f"{b.experiment.id}/{variant_b}"
    cells_a = {c.cell: c for c in _in_spec_order(clean_blocks(a.trials), plan)}
    cells_b = clean_blocks(b.trials)
    common = [cell for cell in cells_a if cell in cells_b]
    build_a = next((t.build_id for t in a.trials if t.variant == variant_a), "")
    build_b = next((t.build_id for t in b.trials if t.variant == variant_b), "")
    drafts: list[Row] = []
    for cell in common:
        for name in plan.order(cells_a[cell].metrics | cells_b[cell].metrics):
            metric, primary = type_of(name), name in plan.primary
            x = cells_a[cell].values(name, variant_a)
            y = cells_b[cell].values(name, variant_b)
            if x:
                drafts.append(_row(cell, metric, base, build_a, summarise(x), primary=primary))
            if y:
                row = _row(cell, metric, other, build_b, summarise(y), primary=primary)
                drafts.append(_with_unpaired_effect(row, base, x, y, plan.margin(metric)))
    lacking = (
        *((base,) if variant_a in _not_proved(a) else ()),
        *((other,) if variant_b in _not_proved(b) else ()),
    )
    rows = _with_proofs(_with_verdicts(drafts), lacking)
    return Comparison(
        baseline=base,
        variants=(base, other),
        cells=tuple(common),
        rows=rows,
        voids=(*void_trials(a.trials), *void_trials(b.trials)),
        blocks=max((row.summary.n for row in rows), default=0),
        tests=_tests(rows),
        paired=False,
        warnings=(
            (
                "the two experiments were not interleaved: drift of the machine between them is in every "
                "interval below, so there is no verdict; run both as variants of one spec for that"
            ),
            *(
                f"{run.id} is {run.state}: compared is what was measured"
                for run in (a.experiment, b.experiment)
                if run.state != "done"
            ),
            *_unlike(a, b, variant_a, variant_b, [cell.workload for cell in common]),
        ),
    )


def _unlike(
    a: ExperimentData, b: ExperimentData, variant_a: str, variant_b: str, workloads: Iterable[str]
) -> Iterable[str]:
    """Every difference but the builds, a line each; of two variants' definitions only where they have one name."""
    one, other = a.experiment, b.experiment
    first, second = (
        {
            **shared_circumstances(record),
            **{
                key: value
                for workload in dict.fromkeys(workloads)
                for key, value in workload_circumstances(record, workload).items()
            },
            **(variant_circumstances(record, variant) if variant_a == variant_b else {}),
            "perfrunner": record.tool_version,
        }
        for record, variant in ((one, variant_a), (other, variant_b))
    )
    for line in differences(first, second):
        yield f"the two experiments differ in {line}"
    for data, lacking in ((a, b), (b, a)):
        there = {trial.workload for trial in lacking.trials}
        if alone := sorted({trial.workload for trial in data.trials} - there):
            yield f"only {data.experiment.id} has {', '.join(alone)}: not compared"


def _row(
    cell: Cell,
    metric: MetricType,
    variant: str,
    build_id: str,
    summary: Summary,
    *,
    primary: bool,
) -> Row:
    notes = (f"outlier in block {_listed(summary.outliers)} (kept)",) if summary.outliers else ()
    return Row(
        cell=cell,
        metric=metric,
        variant=variant,
        build_id=build_id,
        summary=summary,
        effect=None,
        primary=primary,
        verdict=None,
        notes=notes,
    )


class _Place(NamedTuple):
    """Where a row is: `paired` with the baseline's values, but for the baseline itself."""

    blocks: CellBlocks
    metric: MetricType
    variant: str
    paired: Paired | None


def _drafts(cells: list[CellBlocks], builds: Mapping[str, str], plan: AnalysisPlan) -> list[Row]:
    """Every row, with its effect but without q and verdict. All numbers are worked out at once."""
    places = [
        _Place(
            blocks,
            type_of(metric),
            variant,
            None if variant == plan.baseline else blocks.paired(metric, plan.baseline, variant),
        )
        for blocks in cells
        for metric in plan.order(blocks.metrics)
        for variant in plan.variants
        if blocks.values(metric, variant)
    ]
    summaries = summarise_all([p.blocks.values(p.metric.id, p.variant) for p in places])
    pairings = {
        at: Pairing(
            place.metric.effect,
            place.paired.base,
            place.paired.other,
            plan.margin(place.metric),
            place.metric.resolution,
        )
        for at, place in enumerate(places)
        if place.paired is not None and place.paired.base
    }
    effects = dict(
        zip(pairings, paired_effects(plan.baseline, list(pairings.values())), strict=True)
    )
    drafts = []
    for at, (place, summary) in enumerate(zip(places, summaries, strict=True)):
        row = _row(
            place.blocks.cell,
            place.metric,
            place.variant,
            builds.get(place.variant, ""),
            summary,
            primary=place.metric.id in plan.primary,
        )
        drafts.append(_draft(row, place, effects.get(at), plan))
    return drafts


def _draft(
    row: Row, place: _Place, effect: Effect | NotARatioError | None, plan: AnalysisPlan
) -> Row:
    """The row with its effect, and what is to be said of it."""
    blocks, metric, variant, paired = place
    if paired is None:
        return row
    if effect is None:
        return replace(row, reason="the baseline gives none")
    if isinstance(effect, NotARatioError):
        return replace(row, verdict="invalid", reason=str(effect))
    notes = list(row.notes)
    held = blocks.values(metric.id, plan.baseline).keys() | row.summary.values.keys()
    if unpaired := sorted(held - paired.base.keys()):
        notes.append(f"block {_listed(unpaired)} lacks one of the arms and is left out")
    if paired.apart:
        notes.append(
            f"in block {_listed(paired.apart)} the two were of different ensembles: not side by side, "
            "paired by block only"
        )
    notes.extend(_disagreement(effect))
    if metric.id == ROBUST:
        notes.extend(rare_slices(blocks, plan.baseline, variant, effect.margin))
    arms = (plan.baseline, variant)
    wanted = blocks.cell.workload in plan.short
    reason = too_little(blocks, metric.id, arms, short_wanted=wanted)
    if wanted and (said := short_load(blocks, metric.id, arms)):
        notes.append(said)
    why = saturated(blocks, metric.id, arms, plan.client_busy)
    return replace(
        row,
        effect=effect,
        notes=tuple(notes),
        verdict="invalid" if why else None,
        reason=why or reason,
    )


def _with_unpaired_effect(
    row: Row, base: str, x: Mapping[int, float], y: Mapping[int, float], margin: float
) -> Row:
    if not x:
        return replace(row, reason="the other experiment has no such metric")
    try:
        effect = unpaired_effect(
            row.metric.effect,
            base,
            list(x.values()),
            list(y.values()),
            margin,
            row.metric.resolution,
        )
    except NotARatioError as error:
        return replace(row, verdict="invalid", reason=str(error))
    return replace(row, effect=effect)


def _with_verdicts(drafts: list[Row]) -> tuple[Row, ...]:
    effects = dict(enumerate(_corrected(drafts)))
    verdicts = {
        at: decide(effect, row.metric.direction)
        for (at, effect), row in zip(effects.items(), drafts, strict=True)
        if effect is not None and row.verdict is None and not row.reason
    }
    unsure = [at for at, (verdict, _, _) in verdicts.items() if verdict == "unsure"]
    more = dict(zip(unsure, more_blocks([e for at in unsure if (e := effects[at])]), strict=True))
    rows = []
    for at, row in enumerate(drafts):
        verdict, small, reason = verdicts.get(at, (row.verdict, row.small, row.reason))
        rows.append(
            row
            if row.effect is None
            else replace(
                row,
                effect=effects[at],
                verdict=verdict,
                small=small,
                reason=reason,
                more_blocks=more.get(at),
            )
        )
    return tuple(rows)


def _not_proved(data: ExperimentData) -> tuple[str, ...]:
    """The variants whose engine did not tell all of their settings, as their `proof` allows."""
    return tuple(build.variant for build in data.builds if unproved(build.settings))


def _with_proofs(rows: tuple[Row, ...], lacking: tuple[str, ...]) -> tuple[Row, ...]:
    """A comparison is as well proved as the worse of its two arms."""

    def proved(row: Row) -> bool:
        arms = {row.variant} if row.effect is None else {row.variant, row.effect.baseline}
        return arms.isdisjoint(lacking)

    return tuple(row if proved(row) else replace(row, proved=False) for row in rows)


def _corrected(drafts: list[Row]) -> list[Effect | None]:
    """Their effects with q, which is over each of the two families."""
    effects = [row.effect for row in drafts]
    families: dict[bool, list[int]] = defaultdict(list)
    for at, row in enumerate(drafts):
        if row.effect is not None and row.effect.p is not None:
            families[row.primary].append(at)
    for family in families.values():
        tested = [e for at in family if (e := effects[at])]
        q_values = adjust([e.p for e in tested if e.p is not None])
        for at, effect, q in zip(family, tested, q_values, strict=True):
            effects[at] = replace(effect, q=q)
    return effects


def _disagreement(effect: Effect) -> Iterable[str]:
    if effect.p is None or effect.wilcoxon_p is None or effect.t is None:
        return
    if (effect.p < ALPHA) != (effect.wilcoxon_p < ALPHA):
        yield (
            f"t test (p={effect.p:.2g}) and signed-rank test (p={effect.wilcoxon_p:.2g}) disagree: "
            "look at the single trials"
        )


def _in_spec_order(cells: dict[Cell, CellBlocks], plan: AnalysisPlan) -> list[CellBlocks]:
    def place(name: str, names: tuple[str, ...]) -> int:
        return names.index(name) if name in names else len(names)

    return sorted(
        cells.values(),
        key=lambda c: (place(c.cell.workload, plan.workloads), place(c.cell.bucket, plan.buckets)),
    )


def _tests(rows: Iterable[Row]) -> int:
    return sum(1 for row in rows if row.effect is not None and row.effect.p is not None)


def _warnings(cells: list[CellBlocks], plan: AnalysisPlan) -> Iterable[str]:
    for blocks in cells:
        for variant in blocks.dead:
            yield f"{blocks.cell}: {variant} did not finish a single trial: nothing to compare"
        measured = {trial.variant for trial in blocks.trials}
        if plan.baseline not in measured:
            yield f"{blocks.cell}: no trial of the baseline {plan.baseline} counts: no effects"
        for variant in plan.variants:
            if variant not in measured and variant not in blocks.dead and variant != plan.baseline:
                yield f"{blocks.cell}: no trial of {variant} counts"
        for name in sorted(blocks.metrics):
            if not type_of(name).unit and not type_of(name).default_margin:
                yield f"{blocks.cell}: metric {name} is unknown to this perfrunner: numbers only"


def _rounded(rows: Iterable[Row], plan: AnalysisPlan) -> Iterable[str]:
    """Primary metrics that divide by what each allocator rounds up to, where the arms' allocators differ."""
    names = sorted(set(plan.allocators.values()))
    primary = {row.metric.id for row in rows if row.primary and row.effect is not None}
    for metric in BY_USABLE_SIZE:
        payload = metric.replace("fragmentation", "fragmentation_payload")
        if metric in primary and payload not in primary and len(names) > 1:
            yield (
                f"{metric} divides mem_used, which is usable sizes, and {' and '.join(names)} round sizes up"
                f" differently: between allocators {payload} compares"
            )


def _listed(blocks: Iterable[int]) -> str:
    return ", ".join(str(b) for b in blocks)
