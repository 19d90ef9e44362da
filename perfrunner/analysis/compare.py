"""Compare the variants of an experiment: effects for all rows first, then the correction, then verdicts.

The correction for multiple testing (Benjamini-Hochberg) covers every test of the report, in three
families: the tests of the primary metrics, which the spec named before anything was measured; those
of the total CPU that is judged next to a primary throughput; and all the exploratory rest. In one
family twenty exploratory metrics would hide a real change of the primary one (measured:
docs/explanation/statistics.md).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from perfrunner.analysis.account import THROUGHPUT, TOTAL_CPU, accounts, debt, disagreement
from perfrunner.analysis.cases import (
    AnalysisPlan,
    CaseBlocks,
    Paired,
    clean_blocks,
    discarded_trials,
    type_of,
)
from perfrunner.analysis.environment import (
    differences,
    shared_environment,
    variant_environment,
    workload_environment,
)
from perfrunner.analysis.estimate import (
    NotARatioError,
    Pairing,
    adjust,
    events_effect,
    events_summary,
    paired_effects,
    summarise,
    summarise_all,
    unpaired_effect,
)
from perfrunner.analysis.looks import Look
from perfrunner.analysis.model import ALPHA, Comparison, Effect, Row, Summary
from perfrunner.analysis.quality import (
    ROBUST,
    busy_hosts,
    saturated,
    short_load,
    slow_slices_note,
    too_little,
    uneven_discards,
)
from perfrunner.analysis.verdict import decide
from perfrunner.domain import MIN_BLOCKS, Case, unchecked
from perfrunner.spec.metrics import BY_USABLE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfrunner.results import ExperimentData
    from perfrunner.spec.metrics import MetricType


def compare(data: ExperimentData, baseline: str | None = None) -> Comparison:
    """Compare every variant with the baseline (the spec's, or the given variant), paired by block."""
    plan = AnalysisPlan.of(data, baseline)
    cases = _in_spec_order(clean_blocks(data.trials), plan)
    builds = {t.variant: t.build_id for t in data.trials} | {
        b.variant: b.build_id for b in data.builds
    }
    look = Look.at(data)
    drafts = _drafts(cases, builds, plan)
    judged = _with_disagreements(_with_verdicts(drafts, look))
    rows = _with_settings_checks(judged, _not_checked(data))
    discarded = discarded_trials(data.trials)
    return Comparison(
        baseline=plan.baseline,
        variants=plan.variants,
        cases=tuple(blocks.case for blocks in cases),
        rows=rows,
        discarded=discarded,
        blocks=max((len(blocks.blocks) for blocks in cases), default=0),
        tests=_tests(rows),
        warnings=(
            *look.notes(),
            *_warnings(cases, plan),
            *uneven_discards(data.trials, plan.baseline, plan.variants[1:]),
            *_rounded(rows, plan),
            *busy_hosts(cases),
        ),
        accounts=tuple(accounts(cases, plan.variants, look)),
    )


def compare_unpaired(
    a: ExperimentData, b: ExperimentData, variant_a: str, variant_b: str
) -> Comparison:
    """Compare `variant_b` of experiment b with `variant_a` of experiment a: Welch intervals, no verdicts."""
    plan = AnalysisPlan.of(a, variant_a)
    AnalysisPlan.of(b, variant_b)  # names an unknown variant
    base, other = f"{a.experiment.id}/{variant_a}", f"{b.experiment.id}/{variant_b}"
    cases_a = {c.case: c for c in _in_spec_order(clean_blocks(a.trials), plan)}
    cases_b = clean_blocks(b.trials)
    common = [case for case in cases_a if case in cases_b]
    build_a = next((t.build_id for t in a.trials if t.variant == variant_a), "")
    build_b = next((t.build_id for t in b.trials if t.variant == variant_b), "")
    drafts: list[Row] = []
    for case in common:
        for name in plan.order(cases_a[case].metrics | cases_b[case].metrics):
            metric, primary = type_of(name), name in plan.primary
            x, y = cases_a[case].values(name, variant_a), cases_b[case].values(name, variant_b)
            if x:
                drafts.append(_row(case, metric, base, build_a, summarise(x), primary=primary))
            if y:
                row = _row(case, metric, other, build_b, summarise(y), primary=primary)
                row = replace(row, companion=name == plan.companion(cases_b[case].metrics))
                row = _with_unpaired_effect(row, base, x, y, plan.margin(metric))
                why = saturated(cases_a[case], name, (variant_a,), plan.client_busy)
                why = why or saturated(cases_b[case], name, (variant_b,), plan.client_busy)
                drafts.append(replace(row, verdict="not comparable", reason=why) if why else row)
    lacking = (
        *((base,) if variant_a in _not_checked(a) else ()),
        *((other,) if variant_b in _not_checked(b) else ()),
    )
    rows = _with_settings_checks(_with_disagreements(_with_verdicts(drafts, Look())), lacking)
    return Comparison(
        baseline=base,
        variants=(base, other),
        cases=tuple(common),
        rows=rows,
        discarded=(*discarded_trials(a.trials), *discarded_trials(b.trials)),
        blocks=max((row.summary.n for row in rows), default=0),
        tests=_tests(rows),
        paired=False,
        warnings=(
            (
                "the two experiments were not interleaved: every interval below includes drift of the machine "
                "between them, so there is no verdict; for a verdict, run both as variants of one spec"
            ),
            *(
                f"{run.id} is {run.state}: the comparison uses the blocks measured so far"
                for run in (a.experiment, b.experiment)
                if run.state != "done"
            ),
            *_unlike(a, b, variant_a, variant_b, [case.workload for case in common]),
        ),
    )


def _unlike(
    a: ExperimentData, b: ExperimentData, variant_a: str, variant_b: str, workloads: Iterable[str]
) -> Iterable[str]:
    """Yield a line for every difference between two experiments, except their builds.

    The definitions of the two variants are compared only if they have the same name.
    """
    first_run, second_run = a.experiment, b.experiment
    first, second = (
        {
            **shared_environment(record),
            **{
                key: value
                for workload in dict.fromkeys(workloads)
                for key, value in workload_environment(record, workload).items()
            },
            **(variant_environment(record, variant) if variant_a == variant_b else {}),
            "perfrunner": record.tool_version,
        }
        for record, variant in ((first_run, variant_a), (second_run, variant_b))
    )
    for line in differences(first, second):
        yield f"the two experiments differ in {line}"
    for data, lacking in ((a, b), (b, a)):
        there = {trial.workload for trial in lacking.trials}
        if alone := sorted({trial.workload for trial in data.trials} - there):
            yield f"only {data.experiment.id} has {', '.join(alone)}: not compared"


def _row(
    case: Case,
    metric: MetricType,
    variant: str,
    build_id: str,
    summary: Summary,
    *,
    primary: bool,
) -> Row:
    notes = (f"outlier in block {_listed(summary.outliers)} (kept)",) if summary.outliers else ()
    return Row(
        case=case,
        metric=metric,
        variant=variant,
        build_id=build_id,
        summary=events_summary(summary) if metric.events else summary,
        effect=None,
        primary=primary,
        verdict=None,
        notes=notes,
    )


class _Place(NamedTuple):
    """The position of a row. `paired` holds its values and the baseline's; None for the baseline itself."""

    blocks: CaseBlocks
    metric: MetricType
    variant: str
    paired: Paired | None


def _drafts(cases: list[CaseBlocks], builds: Mapping[str, str], plan: AnalysisPlan) -> list[Row]:
    """Return every row with its effect, but without q and verdict. All numbers are computed in one pass."""
    places = [
        _Place(
            blocks,
            type_of(metric),
            variant,
            None if variant == plan.baseline else blocks.paired(metric, plan.baseline, variant),
        )
        for blocks in cases
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
            place.blocks.case,
            place.metric,
            place.variant,
            builds.get(place.variant, ""),
            summary,
            primary=place.metric.id in plan.primary,
        )
        row = replace(row, companion=place.metric.id == plan.companion(place.blocks.metrics))
        effect = effects.get(at)
        if place.metric.events and place.paired is not None and isinstance(effect, Effect):
            effect = events_effect(effect, place.paired.base, place.paired.other)
        drafts.append(_draft(row, place, effect, plan))
    return drafts


def _draft(
    row: Row, place: _Place, effect: Effect | NotARatioError | None, plan: AnalysisPlan
) -> Row:
    """Return the row with its effect, its notes and the reason if it gets no verdict."""
    blocks, metric, variant, paired = place
    if paired is None:
        return row
    if effect is None:
        return replace(row, reason="the baseline has no value")
    if isinstance(effect, NotARatioError):
        return replace(row, verdict="not comparable", reason=str(effect))
    notes = list(row.notes)
    measured = blocks.values(metric.id, plan.baseline).keys() | row.summary.values.keys()
    if unpaired := sorted(measured - paired.base.keys()):
        notes.append(f"block {_listed(unpaired)} lacks one of the variants and is left out")
    if paired.apart:
        notes.append(
            f"in block {_listed(paired.apart)} the two were in different groups: not interleaved, "
            "paired by block only"
        )
    notes.extend(_disagreement(effect))
    if metric.id == ROBUST:
        notes.extend(slow_slices_note(blocks, plan.baseline, variant, effect.margin))
        notes.extend(debt(blocks, plan.baseline, variant))
    variants = (plan.baseline, variant)
    wanted = blocks.case.workload in plan.short
    reason = too_little(blocks, metric.id, variants, short_wanted=wanted)
    if wanted and (note := short_load(blocks, metric.id, variants)):
        notes.append(note)
    why = saturated(blocks, metric.id, variants, plan.client_busy)
    return replace(
        row,
        effect=effect,
        notes=tuple(notes),
        verdict="not comparable" if why else None,
        reason=why or reason,
    )


def _with_unpaired_effect(
    row: Row, base: str, x: Mapping[int, float], y: Mapping[int, float], margin: float
) -> Row:
    """Return the row with its unpaired effect, or with the reason why it has none."""
    if not x:
        return replace(row, reason="the other experiment has no such metric")
    try:
        effect = unpaired_effect(
            row.metric.effect,
            base,
            x,
            y,
            margin,
            row.metric.resolution,
        )
    except NotARatioError as error:
        return replace(row, verdict="not comparable", reason=str(error))
    return replace(row, effect=events_effect(effect, x, y) if row.metric.events else effect)


def _with_verdicts(drafts: list[Row], look: Look) -> tuple[Row, ...]:
    effects = dict(enumerate(_corrected(drafts, look)))
    verdicts = {
        at: decide(effect, row.metric.direction)
        for (at, effect), row in zip(effects.items(), drafts, strict=True)
        if effect is not None and row.verdict is None and not row.reason
    }
    unsure = [at for at, (verdict, _, _) in verdicts.items() if verdict == "unsure"]
    tested = [e for at in unsure if (e := effects[at])]
    plans = dict(zip(unsure, look.plans(tested), strict=True))
    rows = []
    for at, row in enumerate(drafts):
        verdict, small, reason = verdicts.get(at, (row.verdict, row.small, row.reason))
        more, decides = plans.get(at) or (None, None)
        rows.append(
            row
            if row.effect is None
            else replace(
                row,
                effect=effects[at],
                verdict=verdict,
                small=small,
                reason=reason,
                more_blocks=more,
                decides=decides,
            )
        )
    return tuple(rows)


def _with_disagreements(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Mark the rows of throughput whose total CPU says something else."""
    totals = {
        (row.case, row.variant): row
        for name in reversed(TOTAL_CPU)
        for row in rows
        if row.metric.id == name and (row.companion or row.primary)
    }
    return tuple(
        replace(row, cpu=disagreement(row, total))
        if row.metric.id == THROUGHPUT and (total := totals.get((row.case, row.variant)))
        else row
        for row in rows
    )


def _not_checked(data: ExperimentData) -> tuple[str, ...]:
    """Return the variants whose engine did not report all settings, as their `settings_check` allows."""
    return tuple(build.variant for build in data.builds if unchecked(build.settings))


def _with_settings_checks(rows: tuple[Row, ...], lacking: tuple[str, ...]) -> tuple[Row, ...]:
    """Mark the rows as not checked if either of their two variants is."""

    def checked(row: Row) -> bool:
        variants = {row.variant} if row.effect is None else {row.variant, row.effect.baseline}
        return variants.isdisjoint(lacking)

    return tuple(row if checked(row) else replace(row, checked=False) for row in rows)


def _corrected(drafts: list[Row], look: Look) -> list[Effect | None]:
    """Return the rows' effects at the level of the look, with q over each of the three families."""
    effects = [None if row.effect is None else look.adjust(row.effect) for row in drafts]
    families: dict[tuple[bool, bool], list[int]] = defaultdict(list)
    for at, row in enumerate(drafts):
        if (effect := effects[at]) is not None and effect.p is not None:
            families[row.primary, row.companion].append(at)
    for family in families.values():
        tested = [e for at in family if (e := effects[at])]
        q_values = adjust([e.p for e in tested if e.p is not None])
        for at, effect, q in zip(family, tested, q_values, strict=True):
            effects[at] = replace(effect, q=q)
    return effects


def _disagreement(effect: Effect) -> Iterable[str]:
    if effect.n < MIN_BLOCKS:
        return  # the signed-rank test cannot reject
    if effect.p is None or effect.wilcoxon_p is None or effect.t is None:
        return
    if (effect.p < ALPHA) != (effect.wilcoxon_p < ALPHA):
        yield (
            f"t test (p={effect.p:.2g}) and signed-rank test (p={effect.wilcoxon_p:.2g}) disagree: "
            "look at the single trials"
        )


def _in_spec_order(cases: dict[Case, CaseBlocks], plan: AnalysisPlan) -> list[CaseBlocks]:
    def place(name: str, names: tuple[str, ...]) -> int:
        return names.index(name) if name in names else len(names)

    return sorted(
        cases.values(),
        key=lambda c: (place(c.case.workload, plan.workloads), place(c.case.bucket, plan.buckets)),
    )


def _tests(rows: Iterable[Row]) -> int:
    return sum(1 for row in rows if row.effect is not None and row.effect.p is not None)


def _warnings(cases: list[CaseBlocks], plan: AnalysisPlan) -> Iterable[str]:
    for blocks in cases:
        for variant in blocks.dead:
            yield f"{blocks.case}: {variant} did not finish a single trial: nothing to compare"
        measured = {trial.variant for trial in blocks.trials}
        if plan.baseline not in measured:
            yield f"{blocks.case}: no trial of the baseline {plan.baseline} counts, so there are no effects"
        for variant in plan.variants:
            if variant not in measured and variant not in blocks.dead and variant != plan.baseline:
                yield f"{blocks.case}: no trial of {variant} counts"
        for name in sorted(blocks.metrics):
            if not type_of(name).unit and not type_of(name).default_margin:
                yield f"{blocks.case}: metric {name} is unknown to this perfrunner: numbers only"


def _rounded(rows: Iterable[Row], plan: AnalysisPlan) -> Iterable[str]:
    """Warn about primary metrics that depend on how the allocators of the variants round sizes up."""
    names = sorted(set(plan.allocators.values()))
    primary = {row.metric.id for row in rows if row.primary and row.effect is not None}
    for metric in BY_USABLE_SIZE:
        payload = metric.replace("fragmentation", "fragmentation_payload")
        if metric in primary and payload not in primary and len(names) > 1:
            yield (
                f"{metric} divides mem_used, a sum of usable sizes, and {' and '.join(names)} round sizes up"
                f" differently: use {payload} to compare allocators"
            )


def _listed(blocks: Iterable[int]) -> str:
    return ", ".join(str(b) for b in blocks)
