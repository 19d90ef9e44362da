"""`scripts/post-comment` against servers that answer as GitHub and GitLab do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "post-comment"
TOKEN = "s3cret"


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
        elif (found := self.ONE.fullmatch(url.path)) and self.command == (
            "PATCH" if found[1] else "PUT"
        ):
            comment = next(c for c in self.server.comments if c["id"] == int(found[1] or found[2]))
            comment.update(json.loads(body))
            self.answer(200, comment)
        else:
            self.answer(404, {})

    do_GET = do_POST = do_PATCH = do_PUT = handle_any  # noqa: N815


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def post(
    directory: Path, text: str, environment: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    path = directory / "comment.md"
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, SCRIPT, path, *words], capture_output=True, text=True, timeout=600, check=False,
        env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip


def environments(forge: Forge) -> dict[str, dict[str, str]]:
    return {
        "github": {
            "GITHUB_API_URL": forge.url, "GITHUB_REPOSITORY": "me/it", "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_TOKEN": TOKEN,
        },
        "gitlab": {
            "CI_API_V4_URL": forge.url, "CI_PROJECT_ID": "42", "CI_MERGE_REQUEST_IID": "7", "GITLAB_TOKEN": TOKEN,
        },
    }  # fmt: skip


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_one_comment_is_posted_and_then_updated(forge: Forge, tmp_path: Path, name: str) -> None:
    environment = environments(forge)[name]
    first = "<!-- perfrunner: quickstart -->\n## Schnell: Größe ±2 %\n"
    assert post(tmp_path, first, environment).returncode == 0
    other = "<!-- perfrunner: other -->\n## other\n"
    assert post(tmp_path, other, environment).returncode == 0
    second = "<!-- perfrunner: quickstart -->\n## again\n"
    result = post(tmp_path, second, environment)
    assert (result.returncode, result.stdout[:15]) == (0, "updated comment")
    bodies = [str(comment["body"]) for comment in forge.comments]
    assert bodies[:150] == [f"comment {n}" for n in range(1, 151)]
    assert bodies[150:] == [second, other]


def test_a_refusal_is_an_error_without_the_token(forge: Forge, tmp_path: Path) -> None:
    environment = {**environments(forge)["github"], "GITHUB_TOKEN": "wr0ng"}
    result = post(tmp_path, "<!-- perfrunner: q -->\n", environment)
    assert result.returncode == 3
    assert "401" in result.stderr
    assert "wr0ng" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("changes", "text", "message"),
    [
        ({"GITHUB_TOKEN": ""}, "<!-- perfrunner: q -->\n", "GITHUB_TOKEN is not set"),
        ({"GITHUB_REF": "refs/heads/main"}, "<!-- perfrunner: q -->\n", "names no pull request"),
        ({}, "## a report\n", "--format github-comment"),
    ],
)
def test_what_is_missing_is_named(
    forge: Forge, tmp_path: Path, changes: dict[str, str], text: str, message: str
) -> None:
    result = post(tmp_path, text, {**environments(forge)["github"], **changes})
    assert (result.returncode, message in result.stderr) == (3, True)
    assert forge.requests == []
