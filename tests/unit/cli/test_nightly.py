"""Played nights: what is printed, what is kept, and what a night does with a run that was cut off."""

from __future__ import annotations

import errno
import json
import os
import subprocess

import click
import pytest
from click.testing import CliRunner

from perfrunner.children import PERFRUNNER
from perfrunner.cli import main, nightly, output
from tests.support.nights import ONCE, OUT


def test_a_lost_expected_gain_is_mailed_on_one_night_and_never_again(night):
    quiet = [night(0.05) for _ in range(14)]
    assert set(quiet) == {""}
    lost = [night(0.0, None) for _ in range(9)]
    mails = [text for text in lost if text]
    assert len(mails) == 1
    lines = mails[0].splitlines()
    assert len(lines) <= 40
    assert lines[0].startswith(
        "Subject: perfrunner: small: worse: ops_per_s of je against glibc on pf"
    )
    assert lines[2].startswith("- small: worse: ops_per_s of je")
    assert any("✘ worse" in line and "build b0.05 → b0.0" in line for line in lines)


def test_a_background_cost_that_throughput_hides_is_mailed_together_with_it(night, nights):
    """The other variants pay for background work, so the throughput of these nights does not move."""
    nights.cpu = 0.0
    nights.earlier(*[0.05] * 14)
    nights.cpu = 0.03
    mails = [night(0.05), night(0.05), night(0.05, 1)]
    assert mails[:2] == ["", ""]
    text = " ".join(mails[2].split())
    assert "- small: worse: total_cpu_us_per_op of je against glibc on pf" in text
    assert "; its newest run has ops_per_s +" in text


def test_throughput_that_rises_at_a_cost_names_the_cost(night, nights):
    nights.cpu = 0.0
    nights.earlier(*[0.0] * 14)
    nights.cpu = 0.2
    mails = [night(0.05, None) for _ in range(3)]
    (line,) = [line for line in mails[2].splitlines() if line.startswith("- small: better: ops")]
    assert "its newest run has total_cpu_us_per_op +" in line
    assert " %" in line


def test_a_suspicion_without_commits_waits_for_the_nights(night, nights):
    until_the_night_before_the_news(night, nights)
    nights.next = 0.0
    mail = CliRunner().invoke(main, ["nightly", "spec.yaml"]).stdout
    assert "worse: ops_per_s of je against glibc" in mail
    assert nights.compared == []


def test_a_run_that_fails_is_reported_once_and_so_is_its_cure(night):
    assert night(0.0) == ""
    failed = night(3, 3)
    assert (
        failed.splitlines()[0]
        == "Subject: perfrunner: small failed: exit code 3: error: no compiler, block 2"
    )
    assert "    build  glibc ..." in failed
    assert night(3, 3) == ""  # still fails: the exit code says so, no mail
    assert night(0.0).startswith("Subject: perfrunner: small runs again\n")
    assert night(0.0) == ""


def test_a_run_with_a_variant_that_cannot_be_built_tells_what_became_of_the_others(night, nights):
    """Every night is exit code 3, and in the history all the same."""
    nights.earlier(*[0.05] * 12)
    nights.flawed = True
    for _ in range(2):
        night(0.05, 3)
    mails = [text for text in (night(0.0, 3) for _ in range(9)) if text]
    assert len(mails) == 1
    assert mails[0].startswith("Subject: perfrunner: small: worse: ops_per_s of je against glibc")


def test_one_flawed_night_hides_no_news(night, nights):
    until_the_night_before_the_news(night, nights)
    nights.flawed = True
    assert "worse: ops_per_s of je" in night(0.0, 3)  # on the third night it becomes known
    nights.flawed = False
    assert night(0.0).startswith("Subject: perfrunner: small runs again\n")


def until_the_night_before_the_news(night, nights):
    nights.earlier(*[0.05] * 14, 0.0)
    assert night(0.0) == ""


def test_news_of_a_night_that_was_interrupted_are_reported_the_next_night(night, nights, cli):
    until_the_night_before_the_news(night, nights)
    other = (cli.directory / "spec.yaml").read_text().replace("name: small", "name: other")
    (cli.directory / "other.yaml").write_text(other)
    played = nights.__call__

    def stopped(path, out, cache, log, *, resume):
        return 130 if path.name == "other.yaml" else played(path, out, cache, log, resume=resume)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nightly, "run_spec", stopped)
        cut = CliRunner().invoke(main, ["nightly", "spec.yaml", "other.yaml", *ONCE])
    assert cut.exit_code == 130
    assert "worse: ops_per_s of je" in night(0.0, None)
    assert night(0.0) == ""


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left")])
def test_news_that_could_not_be_printed_are_reported_the_next_night(night, nights, error):
    """A mail that nobody got is no silent success either."""
    until_the_night_before_the_news(night, nights)
    report_text = click.echo

    def broken(message=None, *words, err=False, **more):
        if not err:
            raise error
        report_text(message, *words, err=err, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(click, "echo", broken)
        nights.next = 0.0
        assert CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE]).exit_code == 3
    assert "worse: ops_per_s of je" in night(0.0, None)
    assert night(0.0) == ""


def test_a_command_gets_the_mail_on_its_input_and_nothing_is_printed(night, nights, cli):
    """The words of a mail are quoted from logs: they are never a part of the command."""
    until_the_night_before_the_news(night, nights)
    notify = "--notify", 'printf "%s\\n" "$PERFRUNNER_SUBJECT" >subject; cat >mail; echo sent'
    assert night(0.0, 1, *notify) == ""
    mail = (cli.directory / "mail").read_text()
    assert mail.startswith("Subject: perfrunner: small: worse: ops_per_s of je")
    assert mail.splitlines()[0] == f"Subject: {(cli.directory / 'subject').read_text().rstrip()}"
    (cli.directory / "mail").unlink()
    assert night(0.0, 0, *notify) == ""
    assert not (cli.directory / "mail").exists(), "nothing is new"


@pytest.mark.parametrize(
    "command", ["cat >/dev/null; exit 7", pytest.param("exec sleep 1000", marks=pytest.mark.long)]
)
def test_news_whose_command_fails_are_repeated_the_next_night(night, nights, monkeypatch, command):
    until_the_night_before_the_news(night, nights)
    monkeypatch.setattr(output, "NOTIFY_S", 1.0)
    nights.next = 0.0
    failed = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE, "--notify", command])
    assert (failed.exit_code, "the --notify command" in failed.stderr) == (3, True)
    assert "worse: ops_per_s of je" in night(0.0, None)


def test_a_trend_page_that_cannot_be_written_takes_no_news_with_it(night, nights, cli):
    until_the_night_before_the_news(night, nights)
    page = cli.directory / OUT / "nightly" / "trend.html"
    page.unlink()
    page.mkdir()
    nights.next = 0.0
    result = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE])
    assert "worse: ops_per_s of je" in result.stdout
    assert result.exit_code == 3
    assert f"error: cannot write {page}" in result.stderr
    page.rmdir()
    assert night(0.0) == ""


@pytest.mark.parametrize("torn", ["", "{", '{"small": {"failed": "", "told": "2026-1', "[]"])
def test_news_are_reported_although_the_state_of_the_last_night_is_torn(night, nights, cli, torn):
    until_the_night_before_the_news(night, nights)
    (cli.directory / OUT / "nightly" / "state.json").write_text(torn)
    assert "worse: ops_per_s of je" in night(0.0, None)
    assert night(0.0) == ""


def test_a_torn_state_repeats_news_rather_than_lose_them(night, nights, cli):
    """Whether they were reported is what the file no longer says."""
    until_the_night_before_the_news(night, nights)
    assert "worse: ops_per_s of je" in night(0.0, None)
    (cli.directory / OUT / "nightly" / "state.json").write_text("{")
    nights.next = 0.0
    again = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE])
    assert "worse: ops_per_s of je" in again.stdout
    assert "state.json cannot be read" in again.stderr


@pytest.mark.long
def test_a_night_yields_to_one_that_still_runs_and_says_so_once(night, nights, cli):
    assert night(0.05) == ""
    later: list[subprocess.CompletedProcess[str]] = []
    played, run = nights.__call__, subprocess.run

    def while_it_runs(path, out, cache, log, *, resume):
        words = [*PERFRUNNER, "nightly", "spec.yaml"]
        later.extend(
            run(words, cwd=cli.directory, capture_output=True, text=True, check=False)
            for _ in range(2)
        )
        return played(path, out, cache, log, resume=resume)

    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nightly, "run_spec", while_it_runs)
            assert night(0.05) == ""
    assert [(night.returncode, night.stdout) for night in later] == [(0, "")] * 4
    report_text = [night.stderr for night in later]
    assert f"still running (pid {os.getpid()}" in report_text[0]
    assert report_text[1] == "", "once for each night that still runs"
    assert "still running" in report_text[2]
    assert report_text[3] == ""


def test_a_run_dated_in_the_future_is_named_and_hides_no_change_once_it_is_removed(
    night, nights, cli
):
    nights.earlier(*[0.05] * 12)
    tonight, nights.night = nights.night, 100_000
    nights.earlier(0.05)
    (run,) = [
        path.name for path in (cli.directory / OUT).glob("small-2*") if path.name > "small-21"
    ]
    nights.night, nights.next = tonight, 0.05
    result = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE])
    assert f"perfrunner clean --results {run}" in result.stderr
    cli("clean", "--results", run, "--yes")
    assert [bool(night(0.0, None)) for _ in range(3)] == [False, False, True]


def test_a_state_with_a_time_without_a_zone_is_read(night, cli):
    night(0.0)
    state = cli.directory / OUT / "nightly" / "state.json"
    state.write_text(json.dumps({"small": {"failed": "", "reported_at": "2026-10-01T02:00:00"}}))
    assert night(0.0) == ""


def test_a_history_that_begins_again_is_reported_once(night, nights, cli):
    for _ in range(5):
        assert night(0.0) == ""
    nights.kernel = "6.5"
    mail = night(0.0)
    reason = "small: a new history starts: host h kernel: 6.1 or 6.5"
    assert mail.startswith(f"Subject: perfrunner: {reason}\n\n- {reason}\n")
    assert night(0.0) == ""
    trend = (cli.directory / OUT / "nightly" / "trend.html").read_text()
    assert "left out: 5 runs, small-20261001 to small-20261005: host h kernel: 6.1 or 6.5" in trend
    nights.kernel = "6.1"
    assert night(0.0) == "", "one odd night ends nothing"


def test_what_was_known_before_the_first_night_is_no_news(night, nights):
    """Of a spec that was run by hand until then."""
    for expected_gain in [0.05] * 14 + [0.0] * 6:
        nights.store(expected_gain, "done")
    assert night(0.0) == ""


def test_a_state_of_an_older_perfrunner_is_read(night, cli):
    assert night(3, 3)
    state = cli.directory / OUT / "nightly" / "state.json"
    state.write_text('{"small": "exit code 3: no compiler"}')
    assert night(3, 3) == "", "it was reported"
    before = json.loads(state.read_text())["small"]
    state.write_text(json.dumps({"small": {"failed": before["failed"], "told": None}}))
    assert night(3, 3) == "", "the key of an older perfrunner"
    assert night(0.0).startswith("Subject: perfrunner: small runs again")


def test_a_spec_that_is_gone_costs_its_own_night_only(night, nights):
    """As after a pull that renamed it."""
    words = ["nightly", "gone.yaml", "spec.yaml"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("Subject: perfrunner: gone failed: exit code 2: gone.yaml: ")
    assert len(nights.calls) == 1, "the other one ran"
    assert CliRunner().invoke(main, words).stdout == "", "it is told once"


def test_a_run_that_was_cut_off_is_gone_on_with(night, nights):
    night(0.0)
    night(130, 130)
    night(0.0)
    night(3, 3)
    night(0.0)  # by then the source may be mended: not the failed run again
    assert nights.calls == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("expected_gain", "end", "resumed"),
    [
        (0.0, {"event": "failed", "error": "kv1 does not answer", "host": True}, True),
        (None, {"event": "failed", "error": "kv1 does not answer", "host": True}, False),
        (0.0, {"event": "failed", "error": "no compiler", "host": False}, False),
        (0.0, {"event": "finished", "exit": 3}, False),
        (0.0, None, False),
    ],
    ids=["host", "nothing measured", "build", "stopped", "no journal"],
)
def test_a_run_whose_host_went_away_is_gone_on_with(
    night, nights, cli, expected_gain, end, resumed
):
    """What it had measured is most of a night."""
    nights.store(expected_gain, "failed")
    (run,) = (path for path in (cli.directory / OUT).iterdir() if path.name.startswith("small-"))
    if end is not None:
        (run / "journal.jsonl").write_text('{"event": "begun"}\n' + json.dumps(end) + "\n")
    night(0.0)
    assert nights.calls == [resumed]


def test_a_spec_that_cannot_be_read_costs_its_own_night_only(night, nights, cli):
    """As after a pull that broke it."""
    broken = cli.directory / "broken.yaml"
    broken.write_text("name: broken\nnonsense: 1\n")
    words = ["nightly", "broken.yaml", "spec.yaml"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith(
        "Subject: perfrunner: broken failed: exit code 2: broken.yaml:1: "
    )
    assert "    broken.yaml:2: nonsense: unknown key" in result.stdout
    assert len(nights.calls) == 1, "the other one ran"
    again = CliRunner().invoke(main, words)
    assert (again.exit_code, again.stdout) == (3, ""), "it is told once"
    assert len(nights.calls) == 2
    broken.write_text(
        (cli.directory / "spec.yaml").read_text().replace("name: small", "name: broken")
    )
    assert "broken runs again" in CliRunner().invoke(main, words).stdout


def test_a_spec_that_breaks_again_is_reported_again(nights, cli):
    """Its file need not have its name."""
    good = (cli.directory / "spec.yaml").read_text()
    file = cli.directory / "other.yaml"
    for _ in range(2):
        file.write_text("nonsense: 1\n")
        broken = CliRunner().invoke(main, ["nightly", "other.yaml"]).stdout
        assert broken.startswith("Subject: perfrunner: other failed: ")
        file.write_text(good)
        assert "small runs again" in CliRunner().invoke(main, ["nightly", "other.yaml"]).stdout


def test_the_report_of_an_earlier_night_is_not_that_of_tonight(night, cli, monkeypatch):
    night(0.0)

    def refused(_path, _out, _cache, log, *, resume):
        log.write_text("error: no such revision\n")
        return 2

    monkeypatch.setattr(nightly, "run_spec", refused)
    mail = CliRunner().invoke(main, ["nightly", "spec.yaml", *ONCE]).stdout
    assert "small failed: exit code 2" in mail
    assert "Report of" not in mail
    assert len(list((cli.directory / OUT / "nightly" / "reports").iterdir())) == 1


@pytest.mark.parametrize("name", ["nights", os.fsdecode(b"n\xe9chts")])
def test_what_cannot_be_gone_on_with_is_begun_again(tmp_path, monkeypatch, name):
    codes, commands = iter([2, 0]), []

    def run(command, **_):
        commands.append(command)
        return next(codes)

    monkeypatch.setattr(nightly, "run_child", run)
    (tmp_path / name).mkdir()
    log = tmp_path / name / "x.log"
    assert nightly.run_spec(tmp_path / name / "s.yaml", tmp_path, tmp_path, log, resume=True) == 0
    assert ["--resume" in command for command in commands] == [True, False]


def test_a_checkout_that_is_not_up_to_date_is_reported_once_and_so_is_its_cure(night, nights):
    why = "git pull: fatal: Not possible to fast-forward, aborting.\nhint: a line\n"
    mail = night(0.0, 3, "--unready", why)
    assert mail.startswith(
        "Subject: perfrunner: checkout failed: git pull: fatal: Not possible to fast-forward, aborting.\n"
    )
    assert "    hint: a line\n" in mail
    assert night(0.0, 3, "--unready", "git pull: fatal: said otherwise\n") == ""
    assert len(nights.calls) == 2, "what there is was measured"
    assert night(0.0, 0) == "", "nobody asked for it, and nothing is known of it"
    assert night(0.0, 0, "--unready", "").startswith(
        "Subject: perfrunner: checkout is up to date again\n"
    )
    assert night(0.0, 0, "--unready", "") == ""
