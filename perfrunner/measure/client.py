"""Parse, merge and check the JSON report of a load process: `pillowfight`, `append`, `consistency_checker` or `sdk`.

Only schema version 1 is accepted: another version is an error, never a guess. `merge_reports` joins the processes of
several client hosts into one report: operations and histograms are added, series are added second by second.

Latency histograms are log-linear with a fixed layout, so buckets of two processes with the same upper value are the
same bucket. Merging adds counts, and a percentile of the merged counts is exact to the bucket's width (three
significant digits). Percentiles are never averaged. Values are in nanoseconds.

The clients' count of operations is checked against the server's (`cross_check`). Both count the same requests, so they
may differ only by the requests in flight when the clock stopped. A larger difference means that one of them is wrong,
and then no rate of this trial can be trusted.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

from perfrunner.errors import TrialError

SCHEMA = 1
_T = TypeVar("_T")


@dataclass(frozen=True)
class Second:
    """A point of a series: the operations of the interval that ends `t` seconds after the phase began."""

    t: float
    ops: int
    width: float  # seconds; the last interval is usually a partial one


@dataclass(frozen=True)
class ClientCost:
    """The CPU seconds of the load process, and the utilisation of its busiest thread (1 = saturated)."""

    cpu_s: float
    wall_s: float
    threads: int
    busiest_thread_busy: float | None


@dataclass(frozen=True)
class Phase:
    """A phase of load. `errors` counts error answers by kind; misses are not errors.

    `refusal`: the server's own text in the first error answer, if it has one.
    """

    ops: int
    gets: int
    sets: int
    misses: int
    errors: Mapping[str, int]
    seconds: float
    series: tuple[Second, ...] = ()
    latency: Mapping[str, Histogram] = field(default_factory=dict)
    refusal: str = ""

    @property
    def error_count(self) -> int:
        """The number of error answers of all kinds."""
        return sum(self.errors.values())


@dataclass(frozen=True)
class ClientReport:
    """The report of a load process.

    `prepare` is the populate phase or append's load; `drive` is the measured phase. Either may be absent.
    `live_bytes` (append only) is the sum of key and value bytes that should be stored at the end.
    """

    tool: str
    prepare: Phase | None
    drive: Phase | None
    client: ClientCost
    live_bytes: int | None
    interrupted: bool


def check_stored(report: ClientReport) -> None:
    """Raise TrialError if no item could be stored: the load would measure misses."""
    stored = report.prepare
    if stored is not None and 0 < stored.ops == stored.errors.get("other"):
        raise TrialError(
            f"the server refused all {stored.ops} items" + quoted(stored.refusal),
            "if values are larger than it allows, raise its limit (memcached -I)",
        )


def quoted(refusal: str) -> str:
    """Return the end of a message that quotes the server; empty if it gave no reason."""
    return f"; it answered '{refusal}'" if refusal else ""


def parse_report(text: str, where: str) -> ClientReport:
    """Parse a report. Raises TrialError, which names `where` and the wrong field."""
    try:
        document = json.loads(text)
    except ValueError as error:
        shown = text.strip()[:120] or "no output"
        raise TrialError(f"{where}: the load client printed no JSON ({error}): {shown}") from None
    return report_of(document, where)


def report_of(document: Any, where: str) -> ClientReport:
    """Check a report that is parsed from JSON. Raises TrialError as `parse_report` does."""
    if not isinstance(document, dict):
        raise TrialError(f"{where}: expected a JSON object, got {type(document).__name__}")
    tool, schema = document.get("tool"), document.get("schema")
    if schema != SCHEMA:
        raise TrialError(f"{where}: expected schema {SCHEMA}, got {schema!r} of {tool!r}")
    if tool in ("pillowfight", "sdk", "consistency_checker"):
        prepare, drive = document.get("populate"), document.get("access")
    elif tool == "append":
        prepare, drive = document.get("load"), document.get("update")
    else:
        raise TrialError(f"{where}: unknown load tool {tool!r}")
    reader = _Reader(where)
    return ClientReport(
        tool=tool,
        prepare=None if prepare is None else reader.phase(prepare, "prepare"),
        drive=None if drive is None else reader.phase(drive, "drive"),
        client=reader.cost(reader.mapping(document, "client")),
        live_bytes=reader.optional(document, "live_bytes", int),
        interrupted=bool(document.get("interrupted", False)),
    )


def parse_reports(texts: Mapping[str, str]) -> ClientReport:
    """Parse the reports of the processes of one phase, by file name, and merge them. Raises TrialError."""
    return merge_reports([parse_report(text, name) for name, text in texts.items()])


def merge_reports(reports: Sequence[ClientReport]) -> ClientReport:
    """Merge the reports of the processes of one phase into that of a single client."""
    if not reports:
        raise ValueError("nothing to merge")
    if len(reports) == 1:
        return reports[0]
    tools = {report.tool for report in reports}
    if len(tools) != 1:
        raise ValueError(f"reports of different tools: {sorted(tools)}")
    live = [report.live_bytes for report in reports]
    busy = [
        r.client.busiest_thread_busy for r in reports if r.client.busiest_thread_busy is not None
    ]
    return ClientReport(
        tool=reports[0].tool,
        prepare=_merge_phases([r.prepare for r in reports]),
        drive=_merge_phases([r.drive for r in reports]),
        client=ClientCost(
            cpu_s=sum(r.client.cpu_s for r in reports),
            wall_s=max(r.client.wall_s for r in reports),
            threads=sum(r.client.threads for r in reports),
            busiest_thread_busy=max(busy) if len(busy) == len(reports) else None,
        ),
        live_bytes=None if None in live else sum(value or 0 for value in live),
        interrupted=any(r.interrupted for r in reports),
    )


def _merge_phases(phases: Sequence[Phase | None]) -> Phase | None:
    present = [phase for phase in phases if phase is not None]
    if len(present) != len(phases):
        if present:
            raise ValueError("some of the processes drove the phase and some did not")
        return None
    errors: dict[str, int] = defaultdict(int)
    for phase in present:
        for kind, n in phase.errors.items():
            errors[kind] += n
    kinds = {kind for phase in present for kind in phase.latency}
    return Phase(
        ops=sum(p.ops for p in present),
        gets=sum(p.gets for p in present),
        sets=sum(p.sets for p in present),
        misses=sum(p.misses for p in present),
        errors=dict(errors),
        seconds=max(p.seconds for p in present),
        series=_merge_series([p.series for p in present]),
        latency={
            kind: merge_histograms(p.latency[kind] for p in present if kind in p.latency)
            for kind in sorted(kinds)
        },
        refusal=next((p.refusal for p in present if p.refusal), ""),
    )


def _merge_series(series: Sequence[tuple[Second, ...]]) -> tuple[Second, ...]:
    """Add the n-th intervals, because the processes start within milliseconds of each other.

    The result ends with the shortest series; later sums would lack some processes.
    """
    merged = []
    for points in zip(*series, strict=False):
        width = max(point.width for point in points)
        ops = sum(
            round(point.ops * width / point.width) if point.width else point.ops for point in points
        )
        merged.append(Second(max(point.t for point in points), ops, width))
    return tuple(merged)


class _Reader:
    """A reader of typed values in a document; its errors name the file and the field."""

    def __init__(self, where: str) -> None:
        self.where = where

    def mapping(self, document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = document.get(key)
        if not isinstance(value, dict):
            raise TrialError(f"{self.where}: `{key}` is missing or not an object")
        return value

    def number(self, document: Mapping[str, Any], key: str, kind: Callable[[Any], _T]) -> _T:
        value = document.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TrialError(f"{self.where}: `{key}` is missing or not a number: {value!r}")
        return kind(value)

    def optional(
        self, document: Mapping[str, Any], key: str, kind: Callable[[Any], _T]
    ) -> _T | None:
        return self.number(document, key, kind) if document.get(key) is not None else None

    def cost(self, document: Mapping[str, Any]) -> ClientCost:
        return ClientCost(
            cpu_s=self.number(document, "cpu_user_s", float)
            + self.number(document, "cpu_sys_s", float),
            wall_s=self.number(document, "wall_s", float),
            threads=self.number(document, "threads", int),
            busiest_thread_busy=self.optional(document, "busiest_thread_busy", float),
        )

    def phase(self, document: Mapping[str, Any], name: str) -> Phase:
        if not isinstance(document, dict):
            raise TrialError(f"{self.where}: {name} is not an object")
        gets = self.optional(document, "gets", int) or 0
        sets = self.optional(document, "sets", int) or 0
        # append counts read-modify-writes; the server sees a get and a set for each
        ops = gets + sets if "rmw" in document else self.number(document, "ops", int)
        errors = document.get("errors") or {}
        if not isinstance(errors, dict):
            raise TrialError(f"{self.where}: {name}.errors is not an object")
        return Phase(
            ops=ops,
            gets=gets,
            sets=sets,
            misses=self.optional(document, "misses", int) or 0,
            errors={str(kind): self.number(errors, kind, int) for kind in errors},
            seconds=self.number(document, "seconds", float),
            series=self.series(document.get("series") or []),
            latency={
                str(kind): Histogram.parse(h, f"{self.where}: latency_ns.{kind}")
                for kind, h in sorted((document.get("latency_ns") or {}).items())
            },
            refusal=str(document.get("refusal") or ""),
        )

    def series(self, points: Sequence[Mapping[str, Any]]) -> tuple[Second, ...]:
        seconds, before = [], 0.0
        for point in points:
            t = self.number(point, "t", float)
            if t <= before:
                raise TrialError(f"{self.where}: the series does not advance at t={t}")
            seconds.append(Second(t, self.number(point, "ops", int), t - before))
            before = t
        return tuple(seconds)


@dataclass(frozen=True)
class Histogram:
    """Counts by upper bucket value, ascending."""

    buckets: tuple[tuple[int, int], ...]
    max_ns: int

    @cached_property
    def _running(self) -> tuple[int, ...]:
        """Cumulative counts of the buckets."""
        return tuple(accumulate(n for _, n in self.buckets))

    @property
    def count(self) -> int:
        """The number of values."""
        return self._running[-1] if self._running else 0

    def percentile_ns(self, percent: float) -> int | None:
        """Return the upper value of the bucket that holds the percentile; None for an empty histogram."""
        if not 0 < percent <= 100:
            raise ValueError(f"a percentile is in (0, 100], got {percent}")
        count = self.count
        if not count:
            return None
        # Rounded up: the smallest value that covers `percent` of the counts.
        rank = max(1, -(-count * percent // 100))
        upper = self.buckets[bisect_left(self._running, rank)][0]
        return min(upper, self.max_ns) if self.max_ns else upper

    @staticmethod
    def parse(document: Mapping[str, Any], where: str) -> Histogram:
        """Parse a histogram of a report. Raises TrialError, which names `where`."""
        try:
            buckets = tuple(sorted([(int(upper), int(n)) for upper, n in document["buckets"]]))
            count = int(document["count"])
            highest = int(document["max"])
        except (KeyError, TypeError, ValueError) as error:
            raise TrialError(f"{where}: not a histogram ({error!r})") from None
        counted = sum([n for _, n in buckets])
        if counted != count:
            raise TrialError(f"{where}: the buckets hold {counted} values, but `count` is {count}")
        return Histogram(buckets, highest)


EMPTY = Histogram((), 0)


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Return one histogram of all values; the order of the arguments does not matter."""
    counts: Counter[int] = Counter()
    highest = 0
    for histogram in histograms:
        for upper, n in histogram.buckets:
            counts[upper] += n
        highest = max(highest, histogram.max_ns)
    return Histogram(tuple(sorted(counts.items())), highest)


ALLOWED_SHARE = 0.001  # of the operations; at least the requests in flight are allowed


@dataclass(frozen=True)
class CrossCheck:
    """The operations of the driven phases, counted on both sides."""

    client: int
    server: int
    allowed: int

    @property
    def agrees(self) -> bool:
        """True if the counts differ by no more than is allowed."""
        return abs(self.client - self.server) <= self.allowed

    def __str__(self) -> str:
        return (
            f"the generator counted {self.client} operations, the server {self.server} "
            f"(allowed difference: {self.allowed})"
        )


def cross_check(
    client_ops: int, before: Mapping[str, float], after: Mapping[str, float], in_flight: int
) -> CrossCheck | None:
    """Compare the counts; None if the server has no such counters.

    `before` and `after` are the default STAT group.
    """
    keys = ("cmd_get", "cmd_set")
    if any(key not in group for key in keys for group in (before, after)):
        return None
    server = sum(after[key] - before[key] for key in keys)
    return CrossCheck(client_ops, round(server), max(round(client_ops * ALLOWED_SHARE), in_flight))
