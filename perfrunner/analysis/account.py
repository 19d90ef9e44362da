"""Account for the change of the time per operation: whose CPU, the load's own CPU, and what is left unexplained.

Interleaved, the servers share their CPUs, so a variant pays only a part of its own background work and parts of that of
the others. Every slice is measured with the CPU clocks of all servers, and the time of a load thread per operation is
the sum of four parts (workloads.metrics.cpu_parts). So is its change, block by block: each part is divided by the
baseline's time per operation of the same block, and the parts of the change add up exactly. What the other variants
paid is listed next to them.

Throughput and the total CPU are judged apart. Where their verdicts disagree, `disagreement` says how; the sentence,
the verdict and `--fail-on worse` show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.analysis.estimate import paired_effect
from perfrunner.analysis.verdict import deviation, margin_deviation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.analysis.looks import Look
    from perfrunner.analysis.model import Effect, Row
    from perfrunner.domain import Case

THROUGHPUT = "ops_per_s"
# What judges the total CPU next to throughput: the first of these that the case has.
TOTAL_CPU = ("total_cpu_us_per_op", "server_cpu_us_per_op")
# What has to be reported in the same sentence as a change of one of them.
COUNTERPARTS = {THROUGHPUT: TOTAL_CPU, **dict.fromkeys(TOTAL_CPU, (THROUGHPUT,))}
MORE_CPU, LESS_CPU = "more CPU", "less CPU"

# Metrics that add up to the time of a load thread per operation.
PARTS = {
    "own_cpu_us_per_op": "server CPU in its slices",
    "foreign_cpu_us_per_op": "CPU of the other servers in its slices",
    "client_cpu_us_per_op": "CPU of the load",
    "waiting_us_per_op": "unexplained (waiting)",
}
BACKGROUND = "background_cpu_us_per_op"
UNPERSISTED = "unpersisted_items"


@dataclass(frozen=True)
class Part:
    """A part of the change: its metric, and its change as a share of the baseline's time per operation."""

    metric: str
    title: str
    effect: Effect


@dataclass(frozen=True)
class Account:
    """The change of a variant's time per operation in a case.

    `parts` add up to `time`; `background` is paid by the other variants.
    """

    case: Case
    variant: str
    base_us: float  # the baseline's time of a load thread per operation, mean over blocks
    time: Part
    parts: tuple[Part, ...]
    background: Part


def accounts(cases: Iterable[CaseBlocks], variants: Iterable[str], look: Look) -> Iterable[Account]:
    """Yield the account of every variant and case whose trials have all parts; `variants` starts with the baseline."""
    baseline, *others = variants
    for blocks in cases:
        for variant in others:
            account = _account(blocks, baseline, variant, look)
            if account is not None:
                yield account


def _account(blocks: CaseBlocks, baseline: str, variant: str, look: Look) -> Account | None:
    pairs = {name: blocks.paired(name, baseline, variant) for name in (*PARTS, BACKGROUND)}
    base, other = ({n: getattr(p, side) for n, p in pairs.items()} for side in ("base", "other"))
    common = set.intersection(*map(set, base.values()))
    times = {b: time for b in common if (time := sum(base[name][b] for name in PARTS)) > 0}
    if not times:
        return None

    def part(metric: str, title: str, names: Iterable[str]) -> Part:
        def shares(values: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
            return {b: sum(values[name][b] for name in names) / time for b, time in times.items()}

        names = tuple(names)
        effect = paired_effect("difference", baseline, shares(base), shares(other), 0.0)
        return Part(metric, title, look.adjust(effect))

    return Account(
        blocks.case,
        variant,
        sum(times.values()) / len(times),
        part("time_us_per_op", "time per operation", PARTS),
        tuple(part(name, title, [name]) for name, title in PARTS.items()),
        part(BACKGROUND, "background CPU that the other variants paid for", [BACKGROUND]),
    )


def lacks_total_cpu(primary: Collection[str]) -> bool:
    """Return whether throughput is among the primary metrics and no total CPU is: then one is judged next to it."""
    return THROUGHPUT in primary and not any(name in primary for name in TOTAL_CPU)


def disagreement(throughput: Row, total_cpu: Row) -> str:
    """Return how the verdicts of throughput and total CPU disagree, or an empty text.

    Where a row has no verdict, its interval alone decides. A change of CPU within the margin counts only if throughput
    is *better*: a variant is never called better without the CPU that it costs.
    """
    (speed, _), (cost, small) = _moved(throughput), _moved(total_cpu)
    if cost == "worse" and speed != "worse":
        return MORE_CPU if not small or speed == "better" else ""
    if cost == "better" and speed != "better" and not small:
        return LESS_CPU
    return ""


def _moved(row: Row) -> tuple[str | None, bool]:
    """Return the verdict and whether it is small; without a verdict, what the interval alone says."""
    if row.verdict is not None or row.effect is None or row.effect.ci95 is None:
        return row.verdict, row.small
    low, high = deviation(row.effect, row.effect.ci95)
    if low <= 0 <= high:
        return None, False
    margin = margin_deviation(row.effect)
    better = (low > 0) == (row.metric.direction == "higher")
    return "better" if better else "worse", -margin <= low and high <= margin


def debt(blocks: CaseBlocks, baseline: str, variant: str) -> Iterable[str]:
    """Yield a note about writes that were not yet on disk when the load ended; none if there were none."""
    pair = blocks.paired(UNPERSISTED, baseline, variant)
    if not pair.base or not any((*pair.base.values(), *pair.other.values())):
        return
    base, other = (sum(side.values()) / len(side) for side in (pair.base, pair.other))
    effect = paired_effect("difference", baseline, pair.base, pair.other, 0.0)
    interval = "" if effect.ci95 is None else " [{:+,.0f}, {:+,.0f}]".format(*effect.ci95)
    text = f"{other:,.0f} against {base:,.0f} of the baseline, {other - base:+,.0f}{interval}"
    yield f"writes not yet on disk at the end of the load: {text}".replace("-", "\N{MINUS SIGN}")
