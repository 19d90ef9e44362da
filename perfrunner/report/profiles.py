"""Compare CPU profiles: each variant against the baseline, and the functions that changed most.

Functions are compared by their shares of all samples of a profile, not by counts, because two variants differ in how
much CPU time they use. A profile is one sample of a variant: a difference of shares has no interval and is no verdict.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from perfrunner.domain import Case
from perfrunner.errors import TrialError
from perfrunner.report.numbers import minus
from perfrunner.results.profiles import read_profile, variant_profiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.measure.cpu_profile import Folded, Stack
    from perfrunner.results import ExperimentData
    from perfrunner.results.profiles import VariantProfile


MOST_MOVED = 10
ALL = "all"  # the frame below every stack


@dataclass(frozen=True)
class FunctionShare:
    """The samples in a function itself, without its callees, as shares of all samples of each variant."""

    function: str
    base: float
    variant: float

    @property
    def difference(self) -> float:
        """The difference of the shares; positive if the variant spends a larger share than the baseline."""
        return self.variant - self.base


@dataclass
class Frame:
    """A function in one chain of callers, with its callees, as shares of all samples of each variant."""

    name: str
    base: float = 0.0
    variant: float = 0.0
    callees: dict[str, Frame] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The mean of both shares, which also shows a frame that only one has. Callees never exceed their caller."""
        return (self.base + self.variant) / 2

    @property
    def difference(self) -> float:
        """The difference of the shares; positive if the variant spends a larger share than the baseline."""
        return self.variant - self.base


def self_shares(profile: Folded) -> dict[str, float]:
    """Return for each function the share of samples in which it was the innermost, under any caller."""
    counts: Counter[str] = Counter()
    for stack, count in profile.counts.items():
        counts[stack[-1]] += count
    total = profile.samples
    return {function: count / total for function, count in counts.items()} if total else {}


def most_moved(base: Folded, variant: Folded, most: int = MOST_MOVED) -> tuple[FunctionShare, ...]:
    """Return the functions whose own share changed most, the largest difference first."""
    before, after = self_shares(base), self_shares(variant)
    shares = [
        FunctionShare(name, before.get(name, 0.0), after.get(name, 0.0))
        for name in {**before, **after}
    ]
    moved = [share for share in shares if share.difference]
    return tuple(sorted(moved, key=lambda s: (-abs(s.difference), s.function))[:most])


def by_chance(base: int, variant: int, share: float) -> float:
    """Return how far two shares of about `share` differ by chance in 1 of 20 pairs of profiles.

    `base` and `variant` are the numbers of samples. The formula is the normal approximation for two binomial
    counts. Samples of a burst are not independent, so the true value is not smaller.
    """
    variance = share * (1 - share) * (1 / base + 1 / variant)
    return NormalDist().inv_cdf(0.975) * math.sqrt(variance)


def frames(base: Folded, variant: Folded) -> Frame:
    """Merge both profiles into one tree of callers. One profile given twice yields that profile's own tree."""
    root = Frame(ALL)
    before, after = max(1, base.samples), max(1, variant.samples)
    for stack, count in base.counts.items():
        for frame in _chain(root, stack):
            frame.base += count / before
    for stack, count in variant.counts.items():
        for frame in _chain(root, stack):
            frame.variant += count / after
    return root


def _chain(root: Frame, stack: Stack) -> list[Frame]:
    """Return the frames of a stack from the root outwards, creating missing ones."""
    chain = [root]
    for name in stack:
        chain.append(chain[-1].callees.setdefault(name, Frame(name)))
    return chain


TYPICAL_SHARE = 0.1  # share at which the sampling error is reported
LONGEST_NAME = 72  # characters of a function name in a table; a tooltip has the full name
ONE_SAMPLE = (
    "A CPU profile is taken once per variant, after the last trial. Its shares have no interval, so a"
    " difference is not a verdict."
)
_INNERMOST = re.compile(r"<[^<>]*>")  # innermost template arguments
_EMPTIED = "\0"
_ARROW, _ARROW_KEPT = "operator->", "operator\1"  # this > does not end a template


@dataclass(frozen=True)
class Profile:
    """The profile of one variant, and how it was taken."""

    taken: VariantProfile
    stacks: Folded


@dataclass(frozen=True)
class ProfiledVariant:
    """A variant and the baseline of its group; `moved` lists functions, largest difference first."""

    case: Case
    base: Profile
    variant: Profile
    moved: tuple[FunctionShare, ...]


@dataclass(frozen=True)
class CaseProfiles:
    """The profiles of a case: of the baseline, and of each other variant against it."""

    case: Case
    base: Profile
    variants: tuple[ProfiledVariant, ...]


def case_profiles(
    data: ExperimentData, cases: Sequence[Case], variants: Sequence[str]
) -> tuple[tuple[CaseProfiles, ...], tuple[str, ...]]:
    """Return the profiles of a report's cases and variants (baseline first), and a line for each unreadable one."""
    unread: list[str] = []
    read: dict[tuple[Case, str, int], Profile] = {}
    for taken in variant_profiles(data):
        case = Case(taken.workload, taken.bucket)
        if case not in cases or taken.variant not in variants or taken.status != "ok":
            continue
        try:
            read[case, taken.variant, taken.group] = Profile(taken, read_profile(data, taken))
        except TrialError as error:
            unread.append(f"the profile of {taken.variant} in {case} cannot be read: {error}")
    profiled = (_case(case, read, variants) for case in cases)
    return tuple(case for case in profiled if case is not None), tuple(unread)


def _case(
    case: Case, read: dict[tuple[Case, str, int], Profile], variants: Sequence[str]
) -> CaseProfiles | None:
    baseline, *others = variants
    of_base = {e: p for (c, variant, e), p in read.items() if (c, variant) == (case, baseline)}
    if not of_base:
        return None
    first = next(iter(of_base.values()))
    profiled = []
    for variant in others:
        of_other = {e: p for (c, name, e), p in read.items() if (c, name) == (case, variant)}
        for group, profile in of_other.items():
            base = of_base.get(group, first)
            profiled.append(
                ProfiledVariant(case, base, profile, most_moved(base.stacks, profile.stacks))
            )
    return CaseProfiles(case, first, tuple(profiled))


def how_taken(profile: Profile) -> str:
    """Return samples, event and rate in a line."""
    taken = profile.taken
    text = f"{taken.variant}: {taken.samples} samples of {taken.event} at {taken.frequency} Hz"
    return (
        f"{text}, truncated: the limit of stored samples was reached" if taken.cut_short else text
    )


def both_taken(variant: ProfiledVariant) -> str:
    """Describe how both profiles were taken, and which differences are too small to matter."""
    luck = by_chance(variant.base.stacks.samples, variant.variant.stacks.samples, TYPICAL_SHARE)
    return (
        f"{how_taken(variant.variant)}; {how_taken(variant.base)}. With so few samples, shares of"
        f" {100 * TYPICAL_SHARE:g} % differ by up to {_hundredths(luck)} points by chance"
    )


def shares(share: FunctionShare) -> tuple[str, str, str]:
    """Return baseline, variant and difference as text: percent, percent, percentage points."""
    return (
        percent_of(share.base),
        percent_of(share.variant),
        points(share.difference),
    )


def percent_of(share: float) -> str:
    """Return a share in percent: 0.1234 is `12.3 %`, zero is `-`."""
    return f"{_hundredths(share)} %" if share else "-"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    text = _hundredths(abs(difference))
    return f"+{text}" if difference > 0 else minus(f"-{text}")


def _hundredths(share: float) -> str:
    return f"{100 * share:.{1 if share >= 0.01 else 2}f}"


def short_name(function: str, most: int = LONGEST_NAME) -> str:
    """Shorten a function's name: drop template arguments first, then cut the end."""
    if len(function) <= most:
        return function
    name = function.replace(_ARROW, _ARROW_KEPT)
    while (inner := _INNERMOST.sub(_EMPTIED, name)) != name:
        name = inner
    name = name.replace(_EMPTIED, "<>").replace(_ARROW_KEPT, _ARROW)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def profile_records(profiles: Iterable[CaseProfiles]) -> list[dict[str, Any]]:
    """Return the profiles as plain values for the JSON document."""
    return [
        {
            "workload": variant.case.workload,
            "bucket": variant.case.bucket,
            "variant": variant.variant.taken.variant,
            "baseline": variant.base.taken.variant,
            "event": variant.variant.taken.event,
            "frequency": variant.variant.taken.frequency,
            "samples": variant.variant.taken.samples,
            "baseline_samples": variant.base.taken.samples,
            "directory": variant.variant.taken.directory,
            "baseline_directory": variant.base.taken.directory,
            "functions": [
                {
                    "function": share.function,
                    "baseline_self_share": share.base,
                    "self_share": share.variant,
                    "difference": share.difference,
                }
                for share in variant.moved
            ],
        }
        for case in profiles
        for variant in case.variants
    ]
