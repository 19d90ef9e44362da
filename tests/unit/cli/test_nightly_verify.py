"""Nights that look worse: a direct comparison of two commits decides what the mail says."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from perfrunner.cli import main, nightly, nightly_verify
from tests.support.nights import OUT


def test_a_loss_that_a_direct_comparison_confirms_is_reported_at_once_and_once(followed, nights):
    nights.truth = -0.05
    mails = [followed(0.0, 1), *(followed(0.0) for _ in range(8))]
    assert mails[1:] == [""] * 8, "neither the comparison nor the new level is news"
    assert "worse: ops_per_s of je on pf · persistent: \N{MINUS SIGN}" in mails[0]
    assert "in 40 interleaved blocks; commits 000000000005 (exclusive) to 00000000000f" in mails[0]
    assert len(nights.compared) == 1
    (document,) = nights.compared
    assert document["blocks"] == 40
    assert document["baseline"] == "good-000000000005"
    sources = [variant["source"] for variant in document["variants"].values()]
    assert sources == [{"git": "000000000005"}, {"git": "00000000000f"}]
    assert {variant["allocator"]["name"] for variant in document["variants"].values()} == {
        "jemalloc-5.1.0"
    }


def test_a_confirmed_loss_that_could_not_be_mailed_is_reported_the_next_night(followed, nights):
    nights.truth, nights.next = -0.05, 0.0
    failed = CliRunner().invoke(
        main, ["nightly", "spec.yaml", "--notify", "cat >/dev/null; exit 7"]
    )
    assert failed.exit_code == 3
    assert "in 40 interleaved blocks" in " ".join(followed(0.0, 1).split())
    assert followed(0.0) == ""
    assert len(nights.compared) == 1


def test_what_a_direct_comparison_refutes_is_not_reported(followed, nights, cli):
    """The nights moved, the commits did not: the host did."""
    assert [followed(0.0) for _ in range(8)] == [""] * 8
    assert nights.compared
    logs = (cli.directory / OUT / "nightly" / "logs").iterdir()
    assert any("\nnot confirmed: " in f"\n{path.read_text()}" for path in logs)


@pytest.fixture
def two_cases(nights):
    nights.workloads = ("pf", "ap")


@pytest.mark.parametrize("broken", ["pf", "ap"])
def test_a_loss_in_two_cases_is_reported_unless_both_are_refuted(
    two_cases, followed, nights, broken
):
    nights.broken = {broken}
    mails = [text for text in (followed(0.0, None) for _ in range(6)) if text]
    assert len(mails) == 1
    assert "worse: ops_per_s of je against glibc on" in " ".join(mails[0].split())
    compared = [name for document in nights.compared for name in document["workloads"]]
    assert {*compared} == {"pf", "ap"}


def test_a_loss_that_is_refuted_in_both_cases_is_not_reported(two_cases, followed, nights):
    assert [followed(0.0) for _ in range(6)] == [""] * 6
    assert len(nights.compared) > 1


def test_no_more_comparisons_than_the_most_decide_in_a_night(
    two_cases, followed, nights, monkeypatch
):
    """Leave the cases that were not compared to the rules of the nights."""
    monkeypatch.setattr(nightly_verify, "MOST", 1)
    mails = []
    for _ in range(6):
        nights.compared.clear()
        mails.append(followed(0.0, None))
        assert len(nights.compared) <= 1
    assert [bool(text) for text in mails].count(True) == 1


def test_a_loss_in_two_cases_is_bisected_once(two_cases, followed, nights, monkeypatch):
    searched = []
    monkeypatch.setattr(nightly, "_bisected", lambda *given: searched.append(given) or "commit x")
    nights.truth = -0.05
    mails = [text for text in (followed(0.0, None, "--bisect") for _ in range(4)) if text]
    assert len(mails) == 1
    assert [document["workloads"].keys() for document in nights.compared] == [{"pf"}, {"ap"}]
    assert len(searched) == 1


def test_the_mail_names_the_commit_that_a_bisection_finds(followed, nights, monkeypatch):
    nights.truth = -0.05
    monkeypatch.setattr(nightly, "_bisected", lambda *_: "the first bad commit is 00000000000f")
    mail = followed(0.0, 1, "--bisect")
    assert "interleaved blocks; the first bad commit is 00000000000f" in " ".join(mail.split())


@pytest.mark.parametrize("cpu", [None, 0.1])
def test_a_confirmed_loss_names_the_total_cpu_of_the_comparison(followed, nights, cpu):
    nights.truth, nights.cpu = -0.05, cpu
    mail = " ".join(followed(0.0, 1).split())
    assert ("total_cpu_us_per_op +" in mail) == (cpu is not None)
    assert "in 40 interleaved blocks" in mail
