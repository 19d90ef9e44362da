"""Choose, name and draw the charts of an experiment.

They are drawn on several CPUs: matplotlib needs a tenth of a second or two of CPU time for a chart. The processes are
forked, so they share the data; their results come back through pipes. This process draws all charts itself if a fork
is not safe (with running threads, or not on Linux) or if there is one CPU. The results are the same.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perfrunner.analysis.cases import clean_blocks
from perfrunner.errors import PerfrunnerError
from perfrunner.report.charts.comparison import compared_metrics, comparison_chart, forest_chart
from perfrunner.report.charts.dots import dots_chart, order_chart
from perfrunner.report.charts.latency import latency_chart
from perfrunner.report.charts.memory import fragmentation_chart, heap_chart
from perfrunner.report.charts.published import published_chart
from perfrunner.report.charts.rounds import rounds_chart
from perfrunner.report.charts.series import churn_chart, memory_chart, rate_chart
from perfrunner.report.charts.style import drawing, entitle, inline_svg, png_bytes, svg_bytes
from perfrunner.report.model import primary_rows
from perfrunner.report.sentences import noun, question
from perfrunner.spec.metrics import OF_CHURN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from matplotlib.figure import Figure

    from perfrunner.analysis.model import Comparison
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData
    from perfrunner.results.raw import RawSeries


def main_charts(report: Report) -> tuple[str, ...]:
    """Return the names of the charts that summarize the report, without suffixes; none without effects.

    These are the comparison, or the forest plot of the first primary metric if nothing has an interval yet, and the
    course of memory if items were deleted and stored again.
    """
    churn = any(row.metric.id in OF_CHURN for row in report.comparison.rows)
    course = ("series-churn",) if churn and report.comparison.paired else ()
    if compared_metrics(report.comparison):
        return ("comparison", *course)
    return (*(f"forest-{_slug(metric)}" for metric in list(primary_rows(report))[:1]), *course)


MOST_OTHERS = 5  # changed exploratory metrics that get a separate chart


@dataclass(frozen=True)
class Chart:
    """A drawn chart. `label` describes it in a sentence; `main` charts are drawn by default."""

    name: str
    title: str
    label: str
    svg: bytes
    png: bytes | None
    main: bool

    def inline(self) -> str:
        """Return the SVG element for a page."""
        return inline_svg(self.svg, self.name, self.label)


class _Wanted(NamedTuple):
    """A chart to draw: `title` is its question; `draw` returns None if there is nothing to draw."""

    name: str
    title: str
    label: str
    main: bool
    draw: Callable[[], Figure | None]


def draw_charts(
    report: Report,
    data: ExperimentData,
    raw: RawSeries,
    *,
    png: bool | Collection[str] = False,
    names: Collection[str] = (),
    only: Collection[str] | None = None,
    every: bool = True,
) -> list[Chart]:
    """Draw the charts of a report; without `every` only the main ones.

    `names` selects charts by the part of their name before the first hyphen, `only` by whole names. `png`:
    all charts, none, or a collection of names.
    """
    wanted = [
        chart
        for chart in _wanted(report, data, raw)
        if (every or chart.main)
        and (only is None or chart.name in only)
        and (not names or (chart.main and chart.name.split("-", maxsplit=1)[0] in names))
    ]
    with drawing():
        pictured = {chart.name for chart in wanted} if png is True else set(png or ())
        drawn = share_out([partial(_drawn, chart, png=chart.name in pictured) for chart in wanted])
    return [chart for chart in drawn if chart is not None]


def _drawn(wanted: _Wanted, *, png: bool) -> Chart | None:
    figure = wanted.draw()
    if figure is None:
        return None
    if wanted.name != "comparison":  # each of its panels has its own question
        entitle(figure, wanted.title)
    image = png_bytes(figure) if png else None
    return Chart(wanted.name, wanted.title, wanted.label, svg_bytes(figure), image, wanted.main)


def _wanted(report: Report, data: ExperimentData, raw: RawSeries) -> Iterable[_Wanted]:
    comparison = report.comparison
    primary, others = _metrics(report)
    yield _Wanted("comparison", f"Is any variant better than {comparison.baseline}?",
           f"The change of the primary metrics against {comparison.baseline}, throughput and fragmentation among them,"
           " of all variants over all cases, with 95 % intervals and margins",
           True, partial(comparison_chart, report))  # fmt: skip
    kinds = {row.metric.id: row.metric for row in comparison.rows}
    names = {metric: noun(kind) for metric, kind in kinds.items()}
    for metric in primary:
        asked = question(kinds[metric], comparison.variants)
        yield _Wanted(f"forest-{_slug(metric)}", f"{asked} {metric} against {comparison.baseline}",
               f"Forest plot of the change of {metric} against {comparison.baseline} with 95 % intervals",
               True, partial(forest_chart, comparison, metric))  # fmt: skip
        yield _trials(comparison, metric, names[metric], main=True)
    yield _Wanted("fragmentation", "How much memory is held but unused, by each formula?",
           "Memory that each variant holds but does not use, by mapped memory and by RSS, with 95 % intervals",
           True, lambda: fragmentation_chart(comparison))  # fmt: skip
    yield _Wanted("heap", "What is memory used for?",
           "Requested memory and other memory held by the allocator, by cause, with RSS and mapped memory, by variant",
           True, lambda: heap_chart(comparison))  # fmt: skip
    yield _Wanted("published", "Do the published and the measured changes agree?",
           "Published changes, and the measured ones with 95 % intervals, line by line",
           True, partial(published_chart, report))  # fmt: skip
    if not comparison.paired:
        return  # two experiments: the raw series of one would mislead
    clean = clean_blocks(data.trials)
    cases = [clean[case] for case in comparison.cases if case in clean]
    for metric in primary:
        yield _Wanted(f"order-{_slug(metric)}", f"Did the machine drift? {names[metric]} in order of time",
               f"{metric} of each trial over the time it ran: shows drift of the machine",
               metric == primary[0], partial(order_chart, comparison, cases, metric))  # fmt: skip
    for blocks in cases:
        yield _Wanted(f"rounds-{_slug(str(blocks.case))}",
               f"Does the change hold from round to round? {blocks.case}",
               f"Each variant's operations per second in {blocks.case} against {comparison.baseline} in the same round",
               True, partial(rounds_chart, raw.trial_slices, blocks.case, comparison.variants))  # fmt: skip
    yield _Wanted("series-ops", "Is throughput steady inside the trials?",
           "Operations per second over the seconds of every trial",
           True, lambda: rate_chart(raw, comparison.variants))  # fmt: skip
    yield _Wanted("series-memory", "Where does memory go inside the trials?",
           "RSS, mapped memory and mem_used over the seconds of every trial",
           True, lambda: memory_chart(raw, comparison.variants))  # fmt: skip
    yield _Wanted("series-churn", "How much memory comes back when items are deleted?",
           "Resident memory over the seconds in which items are stored, deleted and stored again, by variant",
           True, lambda: churn_chart(cases, comparison.variants))  # fmt: skip
    for blocks in cases:
        yield _Wanted(f"latency-{_slug(str(blocks.case))}",
               f"How long do operations take? {blocks.case}",
               f"Latencies of the operations in {blocks.case} by percentile, and their histogram, by variant",
               True, partial(latency_chart, raw.inside, blocks.case, comparison.variants))  # fmt: skip
    for metric in others:
        yield _trials(comparison, metric, names[metric], main=False)


def _trials(comparison: Comparison, metric: str, name: str, *, main: bool) -> _Wanted:
    return _Wanted(f"trials-{_slug(metric)}", f"How far do trials spread? {name} of every trial",
               f"Every trial of {metric} by variant, paired by block, with means and 95 % intervals",
               main, partial(dots_chart, comparison, metric))  # fmt: skip


def _metrics(report: Report) -> tuple[list[str], list[str]]:
    """Return the primary metrics, and the exploratory ones with the most significant changes."""
    rows = report.comparison.rows
    primary = list(dict.fromkeys(row.metric.id for row in rows if row.primary))
    if not primary:
        primary = list(dict.fromkeys(row.metric.id for row in rows))[:3]
    clarity: dict[str, float] = {}
    for row in rows:
        if row.metric.id in primary or row.verdict not in ("better", "worse") or row.effect is None:
            continue
        t = 1e9 if row.effect.t is None else abs(row.effect.t)
        clarity[row.metric.id] = max(t, clarity.get(row.metric.id, 0.0))
    others: list[str] = []
    for metric in sorted(clarity, key=lambda metric: clarity[metric], reverse=True):
        if not any(_another_moment(metric, shown) for shown in (*primary, *others)):
            others.append(metric)
    return primary, others[:MOST_OTHERS]


def _another_moment(metric: str, shown: str) -> bool:
    """Return whether one metric is a variation of the other, such as `fragmentation_rss_now`."""
    return metric.startswith(f"{shown}_") or shown.startswith(f"{metric}_")


def _slug(metric: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", metric).strip("-").lower()


T = TypeVar("T")
MOST = 8  # processes; more would wait for the process that collects
OBJECTS = 200_000  # new objects before garbage collection
LEAST_TASKS = 3  # tasks of each process; fewer are not worth a fork
PR_SET_PDEATHSIG = 1  # prctl(2)

# In a forked process: its tasks. A task is data of a report, and its copy by pickle would cost more than its chart.
_inherited: Sequence[Callable[[], Any]] = ()


def share_out(tasks: Sequence[Callable[[], T]], processes: int | None = None) -> list[T]:
    """Run the tasks and return their results in order.

    Results and exceptions must be picklable. An exception, or Ctrl-C, ends the tasks that have not begun, and is raised
    when the others have ended. `processes` is for tests; the default is as many as are useful.
    """
    if processes is None:
        processes = _of_use(len(tasks))
    if processes < 2:
        with _old_set_apart():
            return [task() for task in tasks]
    with ProcessPoolExecutor(
        processes, get_context("fork"), _inherit, (tasks, os.getpid())
    ) as pool:
        try:
            return list(pool.map(_run, range(len(tasks))))
        except BrokenProcessPool as error:
            raise PerfrunnerError(
                "a chart process died",
                "memory may have run out: taskset -c 0 perfrunner ... draws them one after the other",
            ) from error


def _of_use(tasks: int) -> int:
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    try:
        get_context("fork").Lock()
    except OSError:  # without a writable /dev/shm there are no semaphores
        return 1
    return min(len(os.sched_getaffinity(0)), MOST, tasks // LEAST_TASKS)


def _inherit(tasks: Sequence[Callable[[], Any]], parent: int) -> None:
    """Prepare a forked process: it leaves Ctrl-C to its parent, and ends with it however that ends."""
    global _inherited  # noqa: PLW0603 - a fork is the only way to pass the tasks without a copy
    _inherited = tasks
    for signum in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all processes
        signal.signal(signum, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)
    _set_old_apart()


def _run(index: int) -> Any:
    return _inherited[index]()


@contextmanager
def _old_set_apart() -> Iterator[None]:
    """Run a block with garbage collection as a chart process has it."""
    enabled, pace = gc.isenabled(), gc.get_threshold()
    _set_old_apart()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*pace)
        if not enabled:
            gc.disable()


def _set_old_apart() -> None:
    """Exclude existing objects from garbage collection and collect less often.

    A figure creates tens of thousands of objects at once; the default rate of collection costs a tenth of the time.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()
