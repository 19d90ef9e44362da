"""`scripts/post-comment` against servers that answer as GitHub and GitLab do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fakes import ROOT
from tests.support.forge import TOKEN, Forge, serving
from tests.support.nights import OUT, Nights
from tests.support.pages import blocks_of

SCRIPT = ROOT / "scripts" / "post-comment"


@pytest.fixture
def forge() -> Iterator[Forge]:
    server = Forge()
    with serving(server):
        yield server


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
        ({"GITHUB_TOKEN": f"{TOKEN}\n"}, "<!-- perfrunner: q -->\n", "GITHUB_TOKEN has a"),
        ({"GITHUB_REPOSITORY": "me/i t"}, "<!-- perfrunner: q -->\n", "GITHUB_REPOSITORY has a"),
        ({"GITHUB_REF": "refs/heads/main"}, "<!-- perfrunner: q -->\n", "names no pull request"),
        ({}, "## a report\n", "--format github-comment"),
    ],
)
def test_what_is_missing_is_named(
    forge: Forge, tmp_path: Path, changes: dict[str, str], text: str, message: str
) -> None:
    result = post(tmp_path, text, {**environments(forge)["github"], **changes})
    assert (result.returncode, message in result.stderr) == (3, True)
    assert TOKEN not in result.stderr
    assert forge.requests == []


@pytest.mark.parametrize("answer", ["{}", '"x"', "[1]", "null", "<html>", ""])
def test_an_answer_that_is_no_list_of_comments_is_an_error(tmp_path: Path, answer: str) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    with serving(server):
        environment = {
            "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}", "GITHUB_REPOSITORY": "me/it",
            "GITHUB_REF": "refs/pull/7/merge", "GITHUB_TOKEN": TOKEN,
        }  # fmt: skip
        result = post(tmp_path, "<!-- perfrunner: q -->\n", environment)
    assert (result.returncode, result.stderr[:11]) == (3, "error: GET ")


@pytest.mark.parametrize(
    ("code", "answer"),
    [*((code, "[]") for code in (301, 302, 303, 307, 308)), (200, "[]"), (200, "{}")],
)
def test_what_is_not_posted_is_an_error(
    forge: Forge, tmp_path: Path, code: int, answer: str
) -> None:
    """A redirect, and an answer of something else than the API."""
    environment = environments(forge)["github"]

    class Moved(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(code)
            self.send_header("Location", f"{forge.url}/new")
            self.end_headers()
            self.wfile.write(answer.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Moved)
    with serving(server):
        old = {"GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}"}
        result = post(tmp_path, "<!-- perfrunner: q -->\n", {**environment, **old})
    assert (result.returncode, result.stdout, result.stderr[:12]) == (3, "", "error: POST ")
    assert (f"{forge.url}/new" in result.stderr) == (code != 200)
    assert forge.requests == []


def github_job(job: dict[str, Any]) -> str:
    """Return the program of the step that posts, which `bash -e` runs."""
    (step,) = [step for step in job["jobs"]["performance"]["steps"] if "post-comment" in str(step)]
    assert step["env"] == {"GITHUB_TOKEN": "${{ github.token }}"}
    assert job["jobs"]["performance"]["permissions"]["pull-requests"] == "write"
    return str(step["run"])


def gitlab_job(job: dict[str, Any]) -> str:
    return "\n".join(job["performance"]["after_script"])


@pytest.mark.parametrize(
    ("name", "heading", "program"),
    [
        ("github", "GitHub Actions", github_job),
        pytest.param("gitlab", "GitLab", gitlab_job, marks=pytest.mark.long),
    ],
)
def test_the_documented_jobs_post_a_report_and_update_it(
    nights: Nights, forge: Forge, name: str, heading: str, program: Callable[[dict[str, Any]], str]
) -> None:
    """The steps of docs/how-to/ci.md, as they are, with the image's place replaced by this checkout's."""
    (page,) = blocks_of("how-to/ci.md", heading)
    text = program(yaml.safe_load(page)).replace("/opt/perfrunner", str(ROOT))
    nights.store(0.05, "done")
    (nights.directory / OUT).rename(nights.directory / "results")
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-e", "-c", text], cwd=nights.directory, capture_output=True, text=True, check=False, timeout=600,
            env={
                **environments(forge)[name],
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(nights.directory),
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("updated comment")
    (body,) = [str(comment["body"]) for comment in forge.comments[150:]]
    assert body.startswith("<!-- perfrunner: small -->\n")
    assert "ops_per_s" in body
