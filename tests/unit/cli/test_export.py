"""`perfrunner export`, and the frame."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import perfrunner.results
from perfrunner.cli import main
from perfrunner.export import SCHEMA, TABLES

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic
import synthetic_slices

DOCS = Path(__file__).parents[3] / "docs" / "how-to" / "export.md"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stored")
    shape = synthetic.Shape(
        blocks=2, discarded_block=2, workloads=("pillowfight",), buckets=("ephemeral",)
    )
    synthetic.write(directory, shape)
    return directory


def export(*words, out):
    return CliRunner().invoke(main, ["export", *words, "--out", str(out)], catch_exceptions=False)


def read(text, table):
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == [column.name for column in TABLES[table].columns]
    return rows


def test_trials_are_a_row_a_metric_on_stdout(stored):
    rows = read(export(out=stored).stdout, "trials")
    with perfrunner.results.open(stored) as store:
        data = store.load(store.resolve(None).id)
    assert len(rows) == sum(len(t.metrics) for t in data.trials)
    first = data.trials[0]
    key = ("1", "1", first.workload, first.bucket, first.variant, "rss_bytes")
    columns = ("block", "attempt", "workload", "bucket", "variant", "metric")
    (row,) = [r for r in rows if tuple(r[name] for name in columns) == key]
    assert float(row["value"]) == first.metrics["rss_bytes"]
    assert (row["unit"], row["direction"], row["status"]) == ("B", "lower", "ok")
    assert row["started_at"] == first.started_at.isoformat()
    assert {r["status"] for r in rows} == {"ok", "discarded"}


def test_series_are_points_of_rates_and_memory(stored):
    rows = read(export("--table", "series", out=stored).stdout, "series")
    assert {r["series"] for r in rows} == {"ops_per_s", "RSS", "mem_used", "mapped"}
    assert {(r["series"] == "ops_per_s", r["unit"]) for r in rows} == {
        (True, "ops/s"),
        (False, "B"),
    }


def test_rounds_are_the_slices_of_trials_side_by_side(tmp_path):
    synthetic_slices.write(tmp_path, synthetic_slices.Shape(blocks=2, rounds=30))
    rows = read(export("--table", "rounds", out=tmp_path).stdout, "rounds")
    assert len(rows) == 2 * 3 * 30
    assert [int(r["round"]) for r in rows[:3]] == [1, 2, 3]
    assert {r["group"] for r in rows} == {"1"}, "the baseline has a trial in each group"
    assert all(int(r["wall_ns"]) > 0 for r in rows)


def test_parquet_files_carry_the_schema_and_the_same_values(stored, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    result = export("--format", "parquet", "--to", str(tmp_path), out=stored)
    assert result.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rounds.parquet", "series.parquet", "trials.parquet",
    ]  # fmt: skip
    table = pq.read_table(tmp_path / "trials.parquet")
    assert table.schema.metadata[b"perfrunner.schema"] == str(SCHEMA).encode()
    rows = read(export(out=stored).stdout, "trials")
    assert table.num_rows == len(rows)
    assert table.column("value").to_pylist() == [float(r["value"]) for r in rows]
    assert pq.read_table(tmp_path / "rounds.parquet").num_rows == 0


def test_the_example_of_the_docs_runs_as_it_stands(stored, tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "perfrunner-results").symlink_to(stored)
    monkeypatch.chdir(tmp_path)
    known = {}
    exec(compile(example, str(DOCS), "exec"), known)
    printed = capsys.readouterr().out
    for name in synthetic.VARIANTS:
        assert name in printed
    frame = known["frame"]
    assert list(frame.columns) == [column.name for column in TABLES["trials"].columns]
    ops = frame[(frame.metric == "ops_per_s") & (frame.status == "ok")]
    table = ops.pivot_table("value", ["workload", "bucket", "block"], "variant")
    assert list(table.columns) == sorted(synthetic.VARIANTS)
    assert table.notna().all().all()


def test_the_documented_version_is_the_one_that_is_written():
    assert f"(`perfrunner.schema`, now {SCHEMA})" in " ".join(DOCS.read_text().split())


def test_stdout_takes_one_table_as_csv(stored):
    result = export("--format", "parquet", out=stored)
    assert result.exit_code == 2
    assert "hint: write files to a directory: --to DIR" in result.stderr


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_every_column_is_documented(table):
    text = DOCS.read_text().split(f"## {table.name}\n")[1].split("\n## ")[0]
    matches = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| `")]
    expected = [(f"`{c.name}`", c.kind, c.meaning) for c in table.columns]
    assert [tuple(part.strip() for part in line) for line in matches] == expected


def test_a_run_travels_as_an_archive_and_reports_the_same(stored, tmp_path):
    archive, there = tmp_path / "run.zip", tmp_path / "there"
    exported = export("--archive", str(archive), out=stored)
    assert "not redacted" in exported.stderr
    imported = CliRunner().invoke(main, ["import", str(archive), "--out", str(there)])
    assert imported.exit_code == 0, imported.output
    with perfrunner.results.open(stored) as store:
        assert imported.stdout == f"{store.resolve(None).id}\n"
    for table in ("trials", "series"):
        there_too = export("--table", table, out=there)
        assert there_too.stdout == export("--table", table, out=stored).stdout
        assert there_too.stderr == ""
    report = ["report", "--format", "markdown", "--out"]
    here = CliRunner().invoke(main, [*report, str(stored)]).stdout
    assert CliRunner().invoke(main, [*report, str(there)]).stdout == here
    assert "## quickstart" in here
    again = CliRunner().invoke(main, ["import", str(archive), "--out", str(there)])
    assert (again.exit_code, "is stored already" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("spec_json", "variants", "glibc"), None),
        (("spec_json", "variants"), "x"),
        (("spec_json", "primary"), [["x"]]),
        (("spec_json", "workloads"), "x"),
        (("spec_json", "workloads", "pillowfight", "threads"), "x"),
        (("facts", "hosts"), "x"),
        (("facts", "hosts", "local", "memory_bytes"), True),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_records_that_no_report_can_read_are_not_imported(stored, tmp_path, place, value):
    """They would end `history` and `nightly` of all other runs of that spec in a traceback."""
    archive, changed, there = tmp_path / "run.zip", tmp_path / "changed.zip", tmp_path / "there"
    export("--archive", str(archive), out=stored)
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "run.json":
                document = json.loads(content)
                parent = document["experiment"]
                for key in place[:-1]:
                    parent = parent[key]
                parent[place[-1]] = value
                content = json.dumps(document).encode()
            new.writestr(name, content)
    done = CliRunner().invoke(main, ["import", str(changed), "--out", str(there)])
    assert (done.exit_code, "Traceback" in done.stderr) == (3, False), done.stderr
    assert "run.json: the records cannot be read" in done.stderr
    assert "nothing was imported" in done.stderr
    assert [path.name for path in there.iterdir()] == ["results.sqlite"]
    assert CliRunner().invoke(main, ["import", str(archive), "--out", str(there)]).exit_code == 0


def test_an_archive_is_a_whole_run(stored, tmp_path):
    archive = str(tmp_path / "run.zip")
    for words in (["--table", "trials"], ["--to", str(tmp_path)], ["--format", "parquet"]):
        result = export("--archive", archive, *words, out=stored)
        assert (result.exit_code, "--archive writes a whole run" in result.stderr) == (2, True)


def test_openmetrics_has_a_point_for_each_trial_and_each_change(stored):
    text = export("--format", "openmetrics", out=stored).stdout
    assert text.endswith("# EOF\n")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    trials = [line for line in samples if line.startswith("perfrunner_trial{")]
    with perfrunner.results.open(stored) as store:
        data = store.load(store.resolve(None).id)
    last = [trial for trial in data.trials if trial.block == 1]
    assert len(last) == 3
    for trial in last:
        (line,) = [
            line
            for line in trials
            if f'variant="{trial.variant}"' in line
            and 'metric="ops_per_s"' in line
            and line.endswith(f" {trial.finished_at.timestamp():.3f}")
        ]
        assert f" {trial.metrics['ops_per_s']!r} " in line
        assert 'unit="ops/s"' in line
    discarded = [trial for trial in data.trials if trial.status == "discarded"]
    assert discarded
    assert all(f"{trial.metrics.get('ops_per_s')!r} " not in text for trial in discarded)
    changes = [line for line in samples if line.startswith("perfrunner_change{")]
    assert {'baseline="glibc"' in line for line in changes} == {True}


def test_all_runs_of_a_spec_are_one_series_in_the_order_of_time(tmp_path):
    shape = synthetic.Shape(blocks=1, workloads=("append",), buckets=("ephemeral",))
    for run in ("demo-20261120", "demo-20261121"):
        synthetic.write(tmp_path, shape, run)
    single = export("demo-20261120", "--format", "openmetrics", out=tmp_path).stdout
    every = export("--format", "openmetrics", "--all-runs", out=tmp_path).stdout
    points = [
        line.rsplit(" ", 2) for line in every.splitlines() if line.startswith("perfrunner_tr")
    ]
    assert len(points) == 2 * single.count("perfrunner_trial{")
    times: dict[str, list[float]] = {}
    for labels, _, at in points:
        times.setdefault(labels, []).append(float(at))
    assert all(at == sorted(set(at)) for at in times.values()), "no point hides another"
    assert [labels for labels, _, _ in points] == sorted(labels for labels, _, _ in points)


@pytest.mark.parametrize(
    "words",
    [
        ["--format", "openmetrics", "--to", "tables"],
        ["--format", "openmetrics", "--table", "trials"],
        ["--all-runs"],
    ],
)
def test_options_that_openmetrics_does_not_have_are_refused(stored, words):
    assert export(*words, out=stored).exit_code == 2
