"""Serve a store to this machine: a page is rendered only on request and after a change of the store."""

from __future__ import annotations

import sys
import tempfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from perfrunner.errors import PerfrunnerError, UsageError
from perfrunner.report.live.page import live_page
from perfrunner.report.redact import redacted

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfrunner.results import ExperimentData, ResultStore

AGAIN_S = 10  # seconds between refreshes while an experiment runs
LOCAL = "127.0.0.1"
NAMES = (LOCAL, "localhost")
REPORT = "/report.html"


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
    from perfrunner.report.build import build_report
    from perfrunner.report.files import write_html

    with tempfile.TemporaryDirectory() as directory:
        return write_html(build_report(data), data, Path(directory) / "report.html").read_bytes()


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
