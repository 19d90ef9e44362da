"""Serves one store to this machine: a page is made when it is asked for and the store has changed, never besides."""

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

AGAIN_S = 10  # how often a browser asks while an experiment runs
LOCAL = "127.0.0.1"
NAMES = (LOCAL, "localhost")
REPORT = "/report.html"


class LiveServer(ThreadingHTTPServer):
    """`/` is the chosen experiment (or the newest), `/ID` another, `/ID/report.html` its whole page."""

    daemon_threads = True

    def __init__(
        self, opened: Callable[[], ResultStore], experiment: str | None, port: int
    ) -> None:
        """`opened` gives the store anew, in whichever thread. OSError where the port is taken."""
        super().__init__((LOCAL, port), _Handler)
        self.opened, self.experiment = opened, experiment
        self._made: dict[tuple[str, bool], tuple[object, bytes]] = {}
        self._one = Lock()  # a page at a time: measurements may run beside it

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{LOCAL}:{self.server_port}/"

    def page(self, path: str) -> tuple[bytes, bool]:
        """A page, and whether it is of a running experiment. UsageError where there is no such experiment, StoreError
        where the store cannot be read (now).
        """
        whole = path.endswith(REPORT)
        name = path.removesuffix(REPORT).strip("/") or self.experiment
        with self._one, self.opened() as store:
            data = store.load(store.resolve(name).id)
            others = list(reversed(store.list()))
            state = (data.experiment.state, len(data.builds), len(data.trials), len(others))
            place = (data.experiment.id, whole)
            kept = self._made.get(place)
            if kept is None or kept[0] != state:
                shown = redacted(data)
                text = _report(shown) if whole else live_page(shown, others).encode()
                kept = self._made[place] = (state, text)
        return kept[1], data.experiment.state == "running"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A viewer that went away is no fault; another error is a defect, and its traceback is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _report(data: ExperimentData) -> bytes:
    """The page as `report --format html` writes it, without links to raw files: they are not served."""
    from perfrunner.report.build import build_report
    from perfrunner.report.files import write_html

    with tempfile.TemporaryDirectory() as directory:
        return write_html(build_report(data), data, Path(directory) / "report.html").read_bytes()


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = 30  # seconds that a viewer may say nothing, or take nothing

    def do_GET(self) -> None:
        # a page of another site whose name was pointed at this machine is not answered
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
        # the whole page holds what its reader has chosen: it stays until it is asked for anew
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
        """Requests are not of interest."""
