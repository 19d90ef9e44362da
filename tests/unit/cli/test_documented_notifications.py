"""The commands that docs/how-to/nightly.md gives for mail and chat, run against what they lead to."""

from __future__ import annotations

import email
import email.policy
import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from perfrunner.cli.output import deliver
from perfrunner.errors import StoreError
from perfrunner.report.history import SpecNight, mail_text
from perfrunner.text import readable
from tests.support.fakes import ROOT
from tests.support.forge import serving
from tests.support.pages import blocks_of

PAGE = "how-to/nightly.md"
TOKEN = "syt_s3cret"
ROOM = "!kEyAbc123:example.org"
ADDRESS = "performance@example.org"
# Titles of commits come from anybody.
NEWS = (
    'worse: ops_per_s of je \N{MINUS SIGN}2.1 % · <!channel> <b>a & b</b> "quoted" \\n $(id) @all'
)
MAIL = mail_text([SpecNight("small", news=(NEWS,), details=("  ▇█▇▁▁ · 9 runs",))], "/n/trend.html")


class Chat(ThreadingHTTPServer):
    """Answers as an incoming webhook of Slack and as the client-server API of Matrix do."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.messages: list[str] = []
        self.transactions: list[str] = []
        self.notified: list[str] = []
        self.broken = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Chat

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def document(self) -> dict[str, object]:
        assert self.headers["Content-Type"].partition(";")[0] == "application/json"
        data = self.rfile.read(int(self.headers["Content-Length"]))
        document = json.loads(data.decode("utf-8", "strict"))
        assert isinstance(document, dict)
        return document

    def do_POST(self) -> None:
        """https://api.slack.com/messaging/webhooks, and "Formatting text" on escapes and mentions."""
        if self.server.broken:
            return self.answer(500, "rollup_error")
        if self.path != "/services/T0/B0/XYZ":
            return self.answer(404, "no_team")
        text = self.document().get("text")
        if not isinstance(text, str) or not text:
            return self.answer(400, "no_text")
        if len(text) > 40_000:
            return self.answer(400, "msg_too_long")
        self.server.notified += re.findall(r"<([!@#][^>]*)>", text)
        self.server.messages.append(html.unescape(re.sub(r"<([^>]*)>", "", text)))
        return self.answer(200, "ok")

    def do_PUT(self) -> None:
        """The Matrix specification, client-server API, `PUT …/send/{eventType}/{txnId}`."""
        if self.server.broken:
            return self.answer(502, "{}")
        path = urlsplit(self.path).path.split("/")
        if path[:5] != ["", "_matrix", "client", "v3", "rooms"] or len(path) != 9:
            return self.answer(404, '{"errcode": "M_UNRECOGNIZED"}')
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer(401, '{"errcode": "M_UNKNOWN_TOKEN"}')
        if (unquote(path[5]), *path[6:8]) != (ROOM, "send", "m.room.message"):
            return self.answer(403, '{"errcode": "M_FORBIDDEN"}')
        content = self.document()
        if content.keys() != {"msgtype", "body"} or content["msgtype"] != "m.text":
            return self.answer(400, '{"errcode": "M_BAD_JSON"}')
        if path[8] not in self.server.transactions:  # a repeated one is the same message
            self.server.transactions.append(path[8])
            self.server.messages.append(str(content["body"]))
        return self.answer(200, '{"event_id": "$1"}')


@pytest.fixture
def chat() -> Iterator[Chat]:
    server = Chat()
    with serving(server):
        yield server


def written(text: str, path: Path) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(params=["SLACK_WEBHOOK", "MATRIX_ROOM"])
def script(
    request: pytest.FixtureRequest, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The script of the page for one service, in a file, with the environment that it asks for."""
    monkeypatch.setenv("SLACK_WEBHOOK", f"{chat.url}/services/T0/B0/XYZ")
    monkeypatch.setenv("MATRIX_TOKEN", TOKEN)
    monkeypatch.setenv("MATRIX_ROOM", ROOM)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (text,) = [b for b in blocks_of(PAGE, "Chat and other commands") if request.param in b]
    text = text.replace("https://matrix.example.org", chat.url)
    assert text.startswith("#!/bin/sh\n")
    assert "https://" not in text, "it would leave this machine"
    return str(written(text, tmp_path / "notify"))


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_a_message_arrives_as_it_was_written(
    script: str, chat: Chat, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    deliver(MAIL, script)
    deliver(MAIL, script)
    assert [message.rstrip("\n") for message in chat.messages] == [MAIL.rstrip("\n")] * 2
    assert chat.notified == []


def test_a_message_that_is_refused_fails_the_night(script: str, chat: Chat) -> None:
    chat.broken = True
    with pytest.raises(StoreError, match="ended with"):
        deliver(MAIL, script)


def as_cron_runs(line: str, environment: dict[str, str]) -> None:
    """Run a line of a crontab: crontab(5) ends the command at the first `%` without a backslash."""
    command = line.split(None, 5)[5]
    command, *rest = re.split(r"(?<!\\)%", command)
    subprocess.run(
        ["/bin/sh", "-c", command.replace("\\%", "%")], env=environment, input="\n".join(rest), text=True,
        check=True, timeout=300,
    )  # fmt: skip


@pytest.fixture
def sendmail(tmp_path: Path) -> Path:
    """A program that writes its arguments and its input to files next to it."""
    text = f'#!/bin/sh\nprintf "%s\\n" "$*" >{tmp_path}/words\ncat >{tmp_path}/mail\n'
    return written(text, tmp_path / "sendmail")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script `nightly` with a perfrunner that has news."""
    directory = tmp_path / "checkout"
    for name in ("nightly", "lib/install.sh"):
        (directory / "scripts" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "scripts" / name, directory / "scripts" / name)
    (directory / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "news").write_text(MAIL, encoding="utf-8")
    program = f"""\
#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from perfrunner.cli.output import deliver
words = sys.argv + [None, None]
command = words[words.index("--notify") + 1] if "--notify" in words else None
deliver(open({str(tmp_path / "news")!r}, encoding="utf-8").read(), command)
"""
    written(program, directory / ".venv" / "bin" / "perfrunner")
    return directory


@pytest.mark.parametrize("locale", [{}, {"LANG": "C.UTF-8"}], ids=["none", "UTF-8"])
def test_cron_mails_with_the_subject(
    tmp_path: Path, checkout: Path, sendmail: Path, locale: dict[str, str]
) -> None:
    blocks = [
        block.replace("/srv/perfrunner/scripts", f"{checkout}/scripts")
        .replace("/srv/perfrunner", str(tmp_path))
        .replace("/usr/sbin/sendmail", str(sendmail))
        for block in blocks_of(PAGE, "cron")
    ]
    (line,) = [b for b in blocks if b.startswith("0 2 * * *") and "MAILTO" not in b]
    for block in blocks:
        if block.startswith("#!"):
            written(block, tmp_path / "mail-it")
    as_cron_runs(line.strip(), {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **locale})
    data = (tmp_path / "mail").read_bytes()
    got = email.message_from_bytes(data, policy=email.policy.default)
    assert data.partition(b"\n\n")[0].isascii(), "other bytes in a header are no mail"
    assert got["Subject"] == MAIL.partition("\n")[0].removeprefix("Subject: ")
    assert ADDRESS in (got["To"] or (tmp_path / "words").read_text())
    assert got.get_content().strip("\n") == MAIL.partition("\n\n")[2].strip("\n")


def test_the_mail_command(tmp_path: Path, sendmail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = [b for b in blocks_of(PAGE, "Chat and other commands") if "--notify" in b]
    words = shlex.split(line)
    (tmp_path / "bin").mkdir()
    sendmail.rename(tmp_path / "bin" / "mail")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    deliver(MAIL, words[words.index("--notify") + 1])
    subject = MAIL.partition("\n")[0].removeprefix("Subject: ")
    assert (tmp_path / "words").read_text() == f"-s {subject} {ADDRESS}\n"
    assert (tmp_path / "mail").read_text(encoding="utf-8") == MAIL


@pytest.mark.parametrize("encoding", ["UTF-8", "ASCII"])
def test_a_mail_is_given_in_every_locale(tmp_path: Path, encoding: str) -> None:
    """The directory of results may have a name that is not UTF-8."""
    mail = MAIL.replace("/n/trend.html", "/caf\udce9/trend.html")
    command = f'printf %s "$PERFRUNNER_SUBJECT" >{tmp_path}/subject; cat >{tmp_path}/mail'
    program = f"from perfrunner.cli.output import deliver; deliver({mail!a}, {command!r})"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, timeout=300,
        env=os.environ | (locale if encoding == "ASCII" else {"PYTHONUTF8": "1"}),
    )  # fmt: skip
    assert (tmp_path / "mail").read_text(encoding="utf-8") == readable(mail)
    assert f"Subject: {(tmp_path / 'subject').read_text(encoding='utf-8')}\n" in MAIL
