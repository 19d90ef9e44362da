"""Servers that answer as GitHub and GitLab do to those who read and write comments."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "s3cret"


@contextlib.contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Let a server answer while the context is open."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


class Forge(ThreadingHTTPServer):
    """The comments of pull request 7, listed by pages and changed by id, with a login."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments = [{"id": n, "body": f"comment {n}"} for n in range(1, 151)]
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Forge

    LISTS = ("/repos/me/it/issues/7/comments", "/projects/42/merge_requests/7/notes")
    ONE = re.compile(
        r"/repos/me/it/issues/comments/(\d+)|/projects/42/merge_requests/7/notes/(\d+)"
    )

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, code: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        self.server.requests.append(f"{self.command} {url.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        login = (self.headers.get("Authorization"), self.headers.get("PRIVATE-TOKEN"))
        if login not in ((f"Bearer {TOKEN}", None), (None, TOKEN)):
            self.answer(401, {"message": "Bad credentials"})
        elif url.path in self.LISTS and self.command == "GET":
            query = {key: int(value[0]) for key, value in parse_qs(url.query).items()}
            first = (query["page"] - 1) * query["per_page"]
            self.answer(200, self.server.comments[first : first + query["per_page"]])
        elif url.path in self.LISTS and self.command == "POST":
            comment = {"id": 1000 + len(self.server.comments), **json.loads(body)}
            self.server.comments.append(comment)
            self.answer(201, comment)
        elif (results := self.ONE.fullmatch(url.path)) and self.command == (
            "PATCH" if results[1] else "PUT"
        ):
            comment = next(
                c for c in self.server.comments if c["id"] == int(results[1] or results[2])
            )
            comment.update(json.loads(body))
            self.answer(200, comment)
        else:
            self.answer(404, {})

    do_GET = do_POST = do_PATCH = do_PUT = handle_any  # noqa: N815
