"""Show a running experiment in a browser on this machine, read-only, with the standard library's server.

A page is rendered only on request and after a change of the store. It shows the progress of an experiment and
estimates, which are provisional until it is done.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from perfrunner.domain import MIN_BLOCKS
from perfrunner.errors import PerfrunnerError, UsageError
from perfrunner.paths import PAGE
from perfrunner.report.build import build_report
from perfrunner.report.html import render_page
from perfrunner.report.model import primary_rows
from perfrunner.report.page.tables import panels
from perfrunner.report.redact import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfrunner.results import ExperimentData, ExperimentSummary, ResultStore, TrialRecord


@dataclass(frozen=True)
class Progress:
    """The progress of a run in planned trials; `left_s` extrapolates the pace so far, None if unknown."""

    state: str
    done: int
    planned: int
    discarded: int
    blocks: int  # blocks that every variant of some case has finished
    planned_blocks: int
    left_s: float | None
    built: tuple[int, int] | None = None  # (built, all) variants, before the first trial

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def text(self) -> str:
        """Return the progress in words."""
        share = 100 * self.done // self.planned if self.planned else 0
        parts = [f"{self.built[0]} of {self.built[1]} variants built"] if self.built else []
        parts.append(f"{self.done} of {self.planned} trials ({share} %)")
        parts.append(f"{self.blocks} of {self.planned_blocks} blocks")
        if self.discarded:
            parts.append(f"{self.discarded} discarded or failed")
        if self.running and self.left_s is not None:
            parts.append(f"about {max(1, round(self.left_s / 60))} min left")
        return ", ".join(parts)


def progress(data: ExperimentData, blocks: int) -> Progress:
    """Return the progress of a run. `blocks`: number of blocks that the report compares so far."""
    record, spec = data.experiment, data.experiment.spec_json
    wanted = record.extended_to or int(spec.get("blocks") or 0)
    cases = _cases(data)
    ok = {(t.block, t.workload, t.bucket, t.variant) for t in data.trials if t.status == "ok"}
    variants = len(spec.get("variants") or ())
    planned = max(len(ok), wanted * cases * variants)
    pace = _seconds_of_a_block(data)
    left = pace * (planned - len(ok)) / variants if pace is not None and variants else None
    discarded = sum(t.status != "ok" for t in data.trials)
    built = None
    if record.state == "running" and not data.trials:
        built = (len({build.variant for build in data.builds}), variants)
    return Progress(record.state, len(ok), planned, discarded, blocks, wanted, left, built)


def _cases(data: ExperimentData) -> int:
    """Return the number of planned cases; for a finished run, of measured cases."""
    if data.experiment.state != "running":
        return len({(t.workload, t.bucket) for t in data.trials if t.block == 1})
    from perfrunner.spec.workloads import WORKLOAD_TYPES, ToolWorkload  # slow to import

    spec = data.experiment.spec_json
    tools = {name for name, model in WORKLOAD_TYPES.items() if issubclass(model, ToolWorkload)}
    buckets = len(spec.get("buckets") or ("persistent",))
    workloads = (spec.get("workloads") or {}).values()
    return sum(1 if workload.get("type") in tools else buckets for workload in workloads)


def _seconds_of_a_block(data: ExperimentData) -> float | None:
    """Return the average seconds of a case per block, as medians over blocks to ignore interruptions."""
    spans: dict[tuple[str, str], dict[int, list[TrialRecord]]] = {}
    for trial in data.trials:
        if trial.status == "ok":
            case = spans.setdefault((trial.workload, trial.bucket), {})
            case.setdefault(trial.block, []).append(trial)
    medians = [
        median(
            (max(t.finished_at for t in ran) - min(t.started_at for t in ran)).total_seconds()
            for ran in blocks.values()
        )
        for blocks in spans.values()
    ]
    return sum(medians) / len(medians) if medians else None


def live_page(data: ExperimentData, others: Sequence[ExperimentSummary]) -> str:
    """Return the page of one experiment, with links to `others`."""
    from perfrunner.report.page.assemble import chart_data_colours

    report = build_report(data)
    return render_page(
        "live.html.j2", record=data.experiment, report=report, comparison=report.comparison,
        progress=progress(data, report.comparison.blocks), needed=MIN_BLOCKS,
        colours=chart_data_colours(report), panels=panels(report, primary_rows(report)), others=others,
    )  # fmt: skip


AGAIN_S = 10  # seconds between refreshes while an experiment runs
LOCAL = "127.0.0.1"
NAMES = (LOCAL, "localhost")
REPORT = f"/{PAGE}"


class LiveServer(ThreadingHTTPServer):
    """A server of live pages: `/` is the chosen or newest experiment, `/ID` another, `/ID/report.html` its report."""

    daemon_threads = True

    def __init__(
        self, opened: Callable[[], ResultStore], experiment: str | None, port: int
    ) -> None:
        """Listen on `port`. `opened` opens the store in any thread. Raises OSError if the port is in use."""
        super().__init__((LOCAL, port), _Handler)
        self.opened, self.experiment = opened, experiment
        self._made: dict[tuple[str, bool], tuple[object, bytes]] = {}
        self._lock = Lock()  # one page at a time, because measurements may be running

    @property
    def address(self) -> str:
        """Return the URL of the server."""
        return f"http://{LOCAL}:{self.server_port}/"

    def page(self, path: str) -> tuple[bytes, bool]:
        """Return a page, and whether its experiment is running.

        Raises UsageError for an unknown experiment, StoreError if the store cannot be read at the moment.
        """
        whole = path.endswith(REPORT)
        name = path.removesuffix(REPORT).strip("/") or self.experiment
        with self._lock, self.opened() as store:
            data = store.load(store.resolve(name).id)
            others = list(reversed(store.list()))
            state = (data.experiment.state, len(data.builds), len(data.trials), len(others))
            place = (data.experiment.id, whole)
            cached = self._made.get(place)
            if cached is None or cached[0] != state:
                shown = redacted(data)
                text = _report(shown) if whole else live_page(shown, others).encode()
                cached = self._made[place] = (state, text)
        return cached[1], data.experiment.state == "running"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections; print the traceback of any other error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _report(data: ExperimentData) -> bytes:
    """Return the HTML report without links to raw files, which are not served."""
    from perfrunner.report.render import write_html

    with tempfile.TemporaryDirectory() as directory:
        return write_html(build_report(data), data, Path(directory) / PAGE).read_bytes()


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = 30  # seconds before an idle connection is closed

    def do_GET(self) -> None:
        # reject other host names, which protects from DNS rebinding
        if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in NAMES:
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        try:
            path = unquote(urlsplit(self.path).path)
            body, running = self.server.page(path)
        except UsageError as error:
            self.send_error(HTTPStatus.NOT_FOUND, "not found", str(error))
            return
        except PerfrunnerError as error:
            self._send(
                HTTPStatus.SERVICE_UNAVAILABLE, str(error).encode(), "text/plain", again=True
            )
            return
        # the full report is not refreshed, which would reset the selections of its reader
        self._send(HTTPStatus.OK, body, "text/html", again=running and not path.endswith(REPORT))

    def _send(self, status: HTTPStatus, body: bytes, kind: str, *, again: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if again:
            self.send_header("Refresh", str(AGAIN_S))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Discard the log of requests."""
