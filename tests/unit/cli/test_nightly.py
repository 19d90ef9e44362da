"""Played nights: what is printed, what is kept, and what a night does with a run that was cut off."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from perfrunner.build.cache import CACHE_TAG
from perfrunner.cli import main, nightly
from perfrunner.results import ExperimentRecord, ResultStore, TrialRecord

START = datetime(2026, 10, 1, 2, 0, tzinfo=timezone.utc)
OUT = "perfrunner-results"
ONCE = ("--again", "0")
SPEC = {
    "name": "small",
    "baseline": "glibc",
    "variants": {
        "glibc": {"allocator": {"name": "system"}},
        "je": {"allocator": {"name": "jemalloc"}},
    },
    "workloads": {"pf": {"items": 10}},
    "buckets": ["persistent"],
    "primary": ["ops_per_s"],
}
ROOT = Path(__file__).parents[3]


def said(log, text):
    with log.open("a") as out:
        out.write(text)


class Nights:
    """Plays `perfrunner run`: a finished run a night, je faster by a gain; or a run that ends badly."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rng = np.random.default_rng(7)
        self.night = 0
        self.next: float | int = 0.0
        self.kernel = "6.1"
        self.flawed = False  # a run that ends, with 3: an arm could not be built
        self.calls: list[bool] = []

    def __call__(self, path, out, cache, log, *, resume):
        self.calls.append(resume)
        if self.flawed:
            self.store(self.next, "done")
            said(log, "$ perfrunner run\nfailed: build of third failed\n")
            return 3
        if isinstance(self.next, int):
            state = "interrupted" if self.next == 130 else "failed"
            self.store(None, state)
            said(
                log, f"$ perfrunner run\nbuild  glibc ...\nerror: no compiler, block {self.night}\n"
            )
            return self.next
        self.store(self.next, "done")
        said(log, "$ perfrunner run\n")
        return 0

    def store(self, gain, state):
        at = START + timedelta(days=self.night)
        name = f"small-{at:%Y%m%d}"
        self.night += 1
        with ResultStore.open(self.directory / OUT) as opened:
            facts = {"hosts": {"h": {"kernel": self.kernel}}}
            opened.create_experiment(
                ExperimentRecord(
                    name, "small", SPEC, "", "s.yaml", 1, at, "0", state=state, facts=facts
                )
            )
            for block in range(1, 7) if gain is not None else ():
                for position, variant in enumerate(SPEC["variants"], 1):
                    rate = 1e6 * float(np.exp(self.rng.normal(0, 0.004)))
                    rate *= 1 + gain if variant == "je" else 1
                    opened.add_trial(name, TrialRecord(
                        block, 1, position, "pf", "persistent", variant, f"b{gain}", "ok", "", at, at,
                        {"ops_per_s": rate}, {}, "raw",
                    ))  # fmt: skip
        page = self.directory / OUT / name / "report.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"<p>{name}</p>")


@pytest.fixture
def nights(cli, monkeypatch):
    played = Nights(cli.directory)
    spec = cli.directory / "spec.yaml"  # nothing of this machine's own host directory
    spec.write_text(spec.read_text().replace("h: {}", f"h: {{work_dir: {cli.directory}/work}}"))
    monkeypatch.setattr(nightly, "run_spec", played)
    return played


@pytest.fixture
def one(nights):
    """one(gain or exit code, code): what the night printed. Without a code it is 1 where something is worse."""

    def play(what, code=0, *words):
        nights.next = what
        result = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE, *words])
        expected = (1 if "worse" in result.stdout else 0) if code is None else code
        assert result.exit_code == expected, result.output
        return result.stdout

    return play


def test_a_lost_gain_is_mailed_on_one_night_and_never_again(one):
    quiet = [one(0.05) for _ in range(14)]
    assert set(quiet) == {""}
    lost = [one(0.0, None) for _ in range(9)]
    told = [text for text in lost if text]
    assert len(told) == 1
    lines = told[0].splitlines()
    assert len(lines) <= 40
    assert lines[0].startswith(
        "Subject: perfrunner: small: worse: ops_per_s of je against glibc on pf"
    )
    assert lines[2].startswith("- small: worse: ops_per_s of je")
    assert any("✘ worse" in line and "build b0.05 → b0.0" in line for line in lines)


def test_a_night_that_leaves_a_suspicion_is_measured_again_and_told_sooner(one, nights):
    for _ in range(14):
        one(0.05)
    played = len(nights.calls)
    assert "worse: ops_per_s of je" in one(0.0, None, "--again", "2")
    assert len(nights.calls) == played + 3
    assert nights.calls[-2:] == [False, False], "they are runs of their own"
    logs = nights.directory / OUT / "nightly" / "logs"
    (log,) = (p for p in logs.iterdir() if "once more" in p.read_text())
    assert (
        "ops_per_s of je against glibc on pf · persistent leans to worse (p = " in log.read_text()
    )
    assert one(0.0, 0, "--again", "2") == "", "what was told is suspected no more"
    assert len(nights.calls) == played + 4


def test_a_suspicion_that_a_failed_run_cannot_settle_is_left(one, nights):
    for _ in range(14):
        one(0.05)
    nights.flawed = True
    played = len(nights.calls)
    one(0.0, 3, "--again", "2")
    assert len(nights.calls) == played + 1


def test_a_run_that_fails_is_told_once_and_so_is_its_cure(one):
    assert one(0.0) == ""
    failed = one(3, 3)
    assert (
        failed.splitlines()[0]
        == "Subject: perfrunner: small failed: exit code 3: error: no compiler, block 2"
    )
    assert "    build  glibc ..." in failed
    assert one(3, 3) == ""  # still fails: the exit code says so, no mail
    assert one(0.0).startswith("Subject: perfrunner: small runs again\n")
    assert one(0.0) == ""


def test_a_run_with_an_arm_that_cannot_be_built_tells_what_became_of_the_others(one, nights):
    """Every night is exit code 3, and in the history all the same."""
    nights.flawed = True
    for _ in range(14):
        one(0.05, 3)
    told = [text for text in (one(0.0, 3) for _ in range(9)) if text]
    assert len(told) == 1
    assert told[0].startswith("Subject: perfrunner: small: worse: ops_per_s of je against glibc")


def test_one_flawed_night_hides_no_news(one, nights):
    for _ in range(14):
        one(0.05)
    for _ in range(2):
        assert one(0.0) == ""
    nights.flawed = True
    assert "worse: ops_per_s of je" in one(0.0, 3)  # on the third night it becomes known
    nights.flawed = False
    assert one(0.0).startswith("Subject: perfrunner: small runs again\n")


def until_the_night_before_the_news(one):
    for gain in [0.05] * 14 + [0.0] * 2:
        assert one(gain) == ""


def test_news_of_a_night_that_was_interrupted_are_told_the_next_night(one, nights, cli):
    until_the_night_before_the_news(one)
    other = (cli.directory / "spec.yaml").read_text().replace("name: small", "name: other")
    (cli.directory / "other.yaml").write_text(other)
    played = nights.__call__

    def stopped(path, out, cache, log, *, resume):
        return 130 if path.name == "other.yaml" else played(path, out, cache, log, resume=resume)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nightly, "run_spec", stopped)
        cut = CliRunner().invoke(main, ["nightly", "spec.yaml", "other.yaml", *ONCE])
    assert cut.exit_code == 130
    assert "worse: ops_per_s of je" in one(0.0, None)
    assert one(0.0) == ""


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left")])
def test_news_that_could_not_be_printed_are_told_the_next_night(one, nights, error):
    """A mail that nobody got is no silent success either."""
    until_the_night_before_the_news(one)
    said = click.echo

    def broken(message=None, *words, err=False, **more):
        if not err:
            raise error
        said(message, *words, err=err, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(click, "echo", broken)
        nights.next = 0.0
        assert CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE]).exit_code == 3
    assert "worse: ops_per_s of je" in one(0.0, None)
    assert one(0.0) == ""


def test_a_trend_page_that_cannot_be_written_takes_no_news_with_it(one, nights, cli):
    until_the_night_before_the_news(one)
    page = cli.directory / OUT / "nightly" / "trend.html"
    page.unlink()
    page.mkdir()
    nights.next = 0.0
    result = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE])
    assert "worse: ops_per_s of je" in result.stdout
    assert result.exit_code == 3
    assert f"error: cannot write {page}" in result.stderr
    page.rmdir()
    assert one(0.0) == ""


def test_a_history_that_begins_anew_is_told_once(one, nights, cli):
    for _ in range(5):
        assert one(0.0) == ""
    nights.kernel = "6.5"
    told = one(0.0)
    reason = "small: its history begins anew: host h kernel: 6.1 or 6.5"
    assert told.startswith(f"Subject: perfrunner: {reason}\n\n- {reason}\n")
    assert one(0.0) == ""
    trend = (cli.directory / OUT / "nightly" / "trend.html").read_text()
    assert "left out: 5 runs, small-20261001 to small-20261005: host h kernel: 6.1 or 6.5" in trend
    nights.kernel = "6.1"
    assert one(0.0) == "", "one odd night ends nothing"


def test_what_was_known_before_the_first_night_is_no_news(one, nights):
    """Of a spec that was run by hand until then."""
    for gain in [0.05] * 14 + [0.0] * 6:
        nights.store(gain, "done")
    assert one(0.0) == ""


def test_a_state_of_an_older_perfrunner_is_read(one, cli):
    assert one(3, 3)
    state = cli.directory / OUT / "nightly" / "state.json"
    state.write_text('{"small": "exit code 3: no compiler"}')
    assert one(3, 3) == "", "it was told"
    assert one(0.0).startswith("Subject: perfrunner: small runs again")


def test_a_spec_that_is_gone_costs_its_own_night_only(one, nights):
    """As after a pull that renamed it."""
    words = ["nightly", "gone.yaml", "spec.yaml"]
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 3, told.output
    assert told.stdout.startswith("Subject: perfrunner: gone failed: exit code 2: gone.yaml: ")
    assert len(nights.calls) == 1, "the other one ran"
    assert CliRunner().invoke(main, words).stdout == "", "it is told once"


def test_a_run_that_was_cut_off_is_gone_on_with(one, nights):
    one(0.0)
    one(130, 130)
    one(0.0)
    one(3, 3)
    one(0.0)  # by then the source may be mended: not the failed run again
    assert nights.calls == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("gain", "end", "resumed"),
    [
        (0.0, {"event": "failed", "error": "kv1 does not answer", "host": True}, True),
        (None, {"event": "failed", "error": "kv1 does not answer", "host": True}, False),
        (0.0, {"event": "failed", "error": "no compiler", "host": False}, False),
        (0.0, {"event": "finished", "exit": 3}, False),
        (0.0, None, False),
    ],
    ids=["host", "nothing measured", "build", "stopped", "no journal"],
)
def test_a_run_whose_host_went_away_is_gone_on_with(one, nights, cli, gain, end, resumed):
    """What it had measured is most of a night."""
    nights.store(gain, "failed")
    (run,) = (path for path in (cli.directory / OUT).iterdir() if path.name.startswith("small-"))
    if end is not None:
        (run / "journal.jsonl").write_text('{"event": "begun"}\n' + json.dumps(end) + "\n")
    one(0.0)
    assert nights.calls == [resumed]


def test_a_spec_that_cannot_be_read_costs_its_own_night_only(one, nights, cli):
    """As after a pull that broke it."""
    broken = cli.directory / "broken.yaml"
    broken.write_text("name: broken\nnonsense: 1\n")
    words = ["nightly", "broken.yaml", "spec.yaml"]
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 3, told.output
    assert told.stdout.startswith(
        "Subject: perfrunner: broken failed: exit code 2: broken.yaml:1: "
    )
    assert "    broken.yaml:2: nonsense: unknown key" in told.stdout
    assert len(nights.calls) == 1, "the other one ran"
    again = CliRunner().invoke(main, words)
    assert (again.exit_code, again.stdout) == (3, ""), "it is told once"
    assert len(nights.calls) == 2
    broken.write_text(
        (cli.directory / "spec.yaml").read_text().replace("name: small", "name: broken")
    )
    assert "broken runs again" in CliRunner().invoke(main, words).stdout


def test_the_site_is_renewed_where_it_is_asked_for(one, cli):
    one(0.0)
    assert list(cli.directory.rglob("index.html")) == []
    for nights in (2, 3):
        one(0.0, 0, "--site", "public")
        index = (cli.directory / "public" / "index.html").read_text()
        assert index.count('/report.html">small-') == nights
    assert (cli.directory / "public" / "spec-small.html").is_file()
    assert (cli.directory / OUT / "nightly" / "trend.html").is_file()


def test_a_site_that_cannot_be_written_takes_no_news_with_it(nights, cli):
    (cli.directory / "public").write_text("a file")
    nights.next = 3
    result = CliRunner().invoke(main, ["nightly", "spec.yaml", "--site", "public/s"])
    assert result.exit_code == 3
    assert result.stdout.startswith("Subject: perfrunner: small failed")
    assert result.stderr.startswith("error: cannot write")


def test_so_many_reports_and_logs_are_kept_and_the_trend_page_is_renewed(one, cli):
    for _ in range(4):
        one(0.0, 0, "--keep", "2")
    place = cli.directory / OUT / "nightly"
    assert len(list((place / "logs").iterdir())) == 2
    reports = sorted(path.read_text() for path in (place / "reports").iterdir())
    assert reports[-1] == "<p>small-20261004</p>"
    trend = (place / "trend.html").read_text()
    assert trend.count("<circle") == 8  # four runs of two series
    assert "ops_per_s, pf · persistent: je against glibc" in trend
    state = json.loads((place / "state.json").read_text())
    assert state == {"small": {"failed": "", "told": "2026-10-04T02:00:00+00:00"}}


def artifacts(directory, count):
    for number in range(count):
        artifact = directory / "artifacts" / f"b{number}"
        artifact.mkdir(parents=True)
        os.utime(artifact, (1e9 + number, 1e9 + number))
    return directory / "artifacts"


@pytest.mark.parametrize(("keep", "stay"), [("5", 5), ("1", 4)], ids=["5", "all of one night"])
def test_so_many_builds_are_kept_here_and_on_the_hosts(one, cli, keep, stay):
    """Each night with a new source adds one for each arm, of tens of megabytes."""
    places = [artifacts(cli.directory / name, 7) for name in ("cache", "work")]
    (cli.directory / "cache" / CACHE_TAG).touch()
    one(3, 3, "--keep", keep)
    assert {len(list(place.iterdir())) for place in places} == {7}, "nothing ran there"
    one(0.0, None, "--keep", keep)
    for place in places:
        assert sorted(path.name for path in place.iterdir()) == [f"b{n}" for n in range(7)][-stay:]


def test_builds_that_cannot_be_removed_take_no_news_with_it(one, nights, cli):
    artifacts(cli.directory / "cache", 7)  # not marked as a cache of ours
    nights.next = 0.0
    result = CliRunner().invoke(main, ["nightly", "spec.yaml", "--keep", "5"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "old builds stay: " in result.stderr


def test_what_cannot_be_gone_on_with_is_begun_anew(tmp_path, monkeypatch):
    codes, commands = iter([2, 0]), []

    def run(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, next(codes))

    monkeypatch.setattr(nightly.subprocess, "run", run)
    log = tmp_path / "x.log"
    assert nightly.run_spec(tmp_path / "s.yaml", tmp_path, tmp_path, log, resume=True) == 0
    assert ["--resume" in command for command in commands] == [True, False]


@pytest.mark.parametrize("words", [["--help"], ["--nonsense"]])
def test_the_script_works_from_anywhere_with_nothing_in_its_environment(tmp_path, words):
    script = ROOT / "scripts" / "nightly"
    found = subprocess.run(
        ["env", "-i", "bash", str(script), *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    if words == ["--help"]:
        assert found.returncode == 0
        assert "--pull" in found.stdout
    else:
        assert (found.returncode, found.stdout) == (3, "")
        assert "unknown option --nonsense" in found.stderr


def copy_of_the_script(directory):
    for name in ("nightly", "lib/install.sh"):
        copy = directory / "scripts" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / "scripts" / name).read_bytes())


def perfrunner_that_says_how_it_was_called(directory):
    tool = directory / ".venv" / "bin" / "perfrunner"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$HOME" "$@"\n')
    tool.chmod(0o755)


def test_the_script_hands_on_what_it_was_given_and_installs_nothing(tmp_path):
    """In a copy of the checkout's scripts, with a perfrunner that only says how it was called."""
    copy_of_the_script(tmp_path)
    (tmp_path / "s.yaml").write_text("name: s\n")
    script = ["env", "-i", "bash", str(tmp_path / "scripts" / "nightly"), "--keep", "3", "s.yaml"]
    missing = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert missing.returncode == 3
    assert missing.stdout.startswith("Subject: perfrunner: nightly could not begin\n")
    assert "--install" in missing.stdout
    perfrunner_that_says_how_it_was_called(tmp_path)
    gone = [*script, "gone/away.yaml"]  # perfrunner tells of it, after the others have run
    said = subprocess.run(gone, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    home, *given = said.splitlines()
    assert home.startswith("/")
    assert given == [
        "nightly", "--keep", "3", "--out", f"{tmp_path}/perfrunner-results", f"{tmp_path}/s.yaml",
        f"{tmp_path}/gone/away.yaml",
    ]  # fmt: skip


@pytest.fixture
def origin(tmp_path):
    """A repository with the script, and checkout/, a clone of it."""
    copy_of_the_script(tmp_path / "origin")
    git(tmp_path / "origin", "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path / "origin", "first")
    git(tmp_path, "clone", "--quiet", "origin", "checkout")
    perfrunner_that_says_how_it_was_called(tmp_path / "checkout")
    return tmp_path / "origin"


def git(directory, *words):
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True)


def commit(directory, text):
    (directory / "source").write_text(text)
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "--message", text)


def pulled(checkout):
    """What the script hands on of the pull: (the option's value, the checkout's source afterwards)."""
    script = ["env", "-i", "bash", str(checkout / "scripts" / "nightly"), "--pull"]
    said = subprocess.run(
        script, cwd=checkout.parent, capture_output=True, text=True, check=True
    ).stdout
    unready = said.partition("--unready\n")[2].partition("\n--out\n")[0]
    return unready, (checkout / "source").read_text()


def test_the_script_pulls_what_is_new(origin):
    checkout = origin.parent / "checkout"
    assert pulled(checkout) == ("", "first")
    commit(origin, "second")
    assert pulled(checkout) == ("", "second")


def test_what_cannot_be_pulled_is_said_and_the_checkout_is_measured_as_it_is(origin):
    checkout = origin.parent / "checkout"
    commit(origin, "second")
    commit(checkout, "of its own")
    unready, source = pulled(checkout)
    assert source == "of its own"
    assert unready.startswith("git pull: ")
    assert "fast-forward" in unready
    origin.rename(origin.parent / "gone")
    assert "does not appear to be a git repository" in pulled(checkout)[0]


def test_a_checkout_that_is_not_up_to_date_is_told_once_and_so_is_its_cure(one, nights):
    why = "git pull: fatal: Not possible to fast-forward, aborting.\nhint: a line\n"
    told = one(0.0, 3, "--unready", why)
    assert told.startswith(
        "Subject: perfrunner: checkout failed: git pull: fatal: Not possible to fast-forward, aborting.\n"
    )
    assert "    hint: a line\n" in told
    assert one(0.0, 3, "--unready", "git pull: fatal: said otherwise\n") == ""
    assert len(nights.calls) == 2, "what there is was measured"
    assert one(0.0, 0) == "", "nobody asked for it, and nothing is known of it"
    assert one(0.0, 0, "--unready", "").startswith(
        "Subject: perfrunner: checkout is up to date again\n"
    )
    assert one(0.0, 0, "--unready", "") == ""
