"""Test the simulations on few draws, and that the documents show the figures of the present analysis."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tools.evidence import simulated, tables
from tools.evidence.__main__ import main
from tools.evidence.choices import choices
from tools.evidence.looks import looks, precision

DOCS = Path(__file__).parents[3] / "docs"


def cells(text, row):
    """The cells of a row of the table, without its name."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_intervals_cover_less_where_blocks_are_not_alike():
    text = simulated.coverage(300)
    usual, stalls = (
        [int(cell.split()[0]) for cell in cells(text, row)]
        for row in ("Student's t with 3 degrees of freedom", [*simulated.BLOCKS_LIKE][2])
    )
    assert min(usual) >= 91
    assert max(stalls[:3]) <= 85


def test_alternatives_alarm_more_often_than_blocks_with_t_intervals():
    rows = [line.split("|")[4:6] for line in choices(300).splitlines()[2:]]
    theirs, ours = ([int(cell.split()[0]) for cell in column] for column in zip(*rows, strict=True))
    assert max(ours) <= 12
    assert all(bad > good for bad, good in zip(theirs, ours, strict=True))


def test_users_alarm_more_often_if_looks_are_not_charged_for():
    rows = [line.split("|")[4].split()[0] for line in looks(150, times=1).splitlines()[2:]]
    *charged, watching, _ = map(float, rows)
    assert max(charged) <= 10 < watching


def test_precision_ends_most_cases_of_a_small_spread():
    ended = [int(line.split("|")[2].split()[0]) for line in precision(60).splitlines()[2:]]
    assert ended[0] >= 95 > ended[-1]


def test_a_plan_is_for_a_larger_run_and_mostly_finds_what_it_names():
    rows = [line.split("|")[1:-1] for line in simulated.plans(60).splitlines()[2:]]
    for first, _, size, *shares in rows:
        assert float(size) > float(first)
        named, *_ = (int(share.split()[0]) for share in shares)
        assert named >= 50
    assert len(rows) == 6


def test_a_bisection_finds_a_plain_loss_and_none_without_one():
    text = simulated.bisections(12)
    assert cells(text, "2 %") == ["12", "0", "0", "0"]
    assert sum(map(int, cells(text, "1 %"))) == 12
    assert cells(text, "0 %")[2] == "12"


def test_a_loss_of_the_nights_is_reported_with_a_commit_before_it():
    text = simulated.beginnings(12)
    assert "12 of 12" in text or "11 of 12" in text
    assert "0.0 % the good commit" in text


def test_simulate_writes_the_chosen_section_only(tmp_path, monkeypatch):
    for document in {document for document, _ in simulated.SIMULATIONS.values()}:
        (tmp_path / document).parent.mkdir(exist_ok=True)
        (tmp_path / document).write_text((DOCS / document).read_text())
    before = (tmp_path / simulated.STATISTICS).read_text()
    monkeypatch.setitem(
        simulated.SIMULATIONS, "bisections", (simulated.CI, lambda: "in 7 of 8 searches")
    )
    result = CliRunner().invoke(main, ["simulate", "--only", "bisections", "--docs", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "\n\nin 7 of 8 searches\n\n" in (tmp_path / simulated.CI).read_text()
    assert (tmp_path / simulated.STATISTICS).read_text() == before


@pytest.mark.long
@pytest.mark.parametrize("name", simulated.SIMULATIONS)
def test_the_documents_state_what_the_simulations_find(name, tmp_path):
    """Fails when the analysis was changed and `scripts/evidence simulate` was forgotten."""
    document, simulation = simulated.SIMULATIONS[name]
    copy = tmp_path / "copy.md"
    copy.write_text((DOCS / document).read_text())
    assert not tables.write(copy, {name: tables.wrapped(simulation())}), (
        "run scripts/evidence simulate"
    )
