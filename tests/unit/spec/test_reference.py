"""The `reference:` block: what it may name, and that the five specs hold every published value."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.run.opening import differences, resolved
from perfrunner.spec import load_spec
from perfrunner.spec.reference import Reference

EXPERIMENTS = Path(__file__).parents[3] / "specs" / "experiments"
BLOCK = """\
reference:
  source: a commit message
  tables:
    - title: throughput
      workload: pf
      bucket: persistent
      n: 10
      rows:
        - metric: ops_per_s
          values: {glibc: 1000, je: {value: 1100.5, n: 3, spread: sd 4}}
"""


def test_values_alone_and_with_what_was_stated(specs):
    spec = specs.spec(with_reference(specs, BLOCK))
    (table,) = spec.reference.tables
    (row,) = table.rows
    assert row.metric == ("ops_per_s",)
    assert row.values["glibc"].value == 1000
    assert (row.values["je"].value, row.values["je"].n, row.values["je"].spread) == (
        1100.5,
        3,
        "sd 4",
    )
    assert Reference.model_validate(resolved(spec)["reference"]) == spec.reference


def test_a_bucket_type_may_be_left_out_of_a_run(specs):
    spec = specs.spec(
        with_reference(specs, BLOCK.replace("bucket: persistent", "bucket: ephemeral"))
    )
    assert spec.buckets == ("persistent",)
    assert spec.reference.tables[0].bucket == "ephemeral"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("glibc: 1000", "glibd: 1000", "spec.yaml:18: reference.tables[0].rows[0].values.glibd: expected a variant: glibc, je; got glibd (did you mean glibc?)"),
        ("ops_per_s", "ops_per_sec", "spec.yaml:17: reference.tables[0].rows[0].metric"),
        ("workload: pf", "workload: pillow", "spec.yaml:13: reference.tables[0].workload: expected a workload: pf; got pillow"),
        ("bucket: persistent", "bucket: ephemera", "spec.yaml:14: reference.tables[0].bucket: expected"),
        ("      bucket: persistent\n", "", "expected a bucket type of pf: persistent or ephemeral; got nothing"),
        ("glibc: 1000", "glibc: many", "expected a number, got the text 'many'"),
        ("glibc: 1000", "glibc: .nan", "finite number"),
        ("spread: sd 4", "sprad: sd 4", "values.je.sprad: unknown key (did you mean spread?)"),
        ("title: throughput", "titel: throughput", "spec.yaml:12: reference.tables[0].titel: unknown key (did you mean title?)"),
        ("  source: a commit message\n", "", "reference.source: expected a value, got nothing"),
        ("  tables:", "  not_here: [je]\n  tables:", "reference.not_here: expected variants that the spec lacks; got je"),
    ],
)  # fmt: skip
def test_what_it_names_must_be_there(specs, old, new, message):
    assert old in BLOCK
    errors = specs.errors(with_reference(specs, BLOCK.replace(old, new)))
    assert message in "\n".join(errors)


def test_a_variant_that_the_spec_does_not_run_is_named(specs):
    text = BLOCK.replace("glibc: 1000", "glibc: 1000, tcmalloc: 900")
    assert specs.errors(with_reference(specs, text))
    spec = specs.spec(
        with_reference(specs, text.replace("  tables:", "  not_here: [tcmalloc]\n  tables:"))
    )
    assert spec.reference.tables[0].rows[0].values["tcmalloc"].value == 900


def test_a_part_of_the_spec_keeps_what_it_measures(specs):
    spec = specs.spec(with_reference(specs, BLOCK))
    part = spec.restricted(None, ("glibc",))
    assert part.reference.not_here == ("je",)
    assert type(spec).model_validate(resolved(part)) == part
    assert spec.against_itself().reference is None


def test_a_reference_changes_no_experiment(specs):
    recorded = resolved(specs.spec())
    assert differences(recorded, specs.spec(with_reference(specs, BLOCK))) == []


def with_reference(specs, block):
    return (specs.directory / "spec.yaml").read_text().partition("reference:")[0] + block


def values(name):
    """(title, label) -> variant -> value, of an experiment of ours."""
    spec = load_spec(EXPERIMENTS / f"{name}.yaml", [], None)
    return {
        (table.title, row.label): {v: cell.value for v, cell in row.values.items()}
        for table in spec.reference.tables
        for row in table.rows
    }


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("jemalloc-metadata-thp", [4, 14, 11]),
        ("jemalloc-metadata-thp-matrix", [4, 14, 11]),
        ("hashtable-stats-striping", [3, 6, 6]),
        ("dcp-ready-queue", [32, 4]),
        ("flush-persistence-callback", [6, 19]),
        ("cursors-to-drop", [12, 11]),
    ],
)
def test_every_published_table_is_whole(name, counts):
    cells: dict[str, int] = {}
    for (title, _), row in values(name).items():
        cells[title] = cells.get(title, 0) + len(row)
    assert list(cells.values()) == counts


def test_published_values_as_they_were_published():
    thp = values("jemalloc-metadata-thp")
    assert thp["pillowfight, operations a second", "ops/s"] == {
        "jemalloc-5.1": 1_831_406, "bg": 1_832_381, "auto": 1_841_475, "always": 1_852_863,
    }  # fmt: skip
    assert thp["fragmentation by RSS", "ephemeral"] == {
        "pre-5.1": 43, "jemalloc-5.1": 39, "bg": 40, "auto": 36, "always": 35, "bg-auto": 36, "bg-always": 35,
    }  # fmt: skip
    assert thp["fragmentation by mapped memory", "persistent"]["auto"] == 31.3
    table = values("hashtable-stats-striping")
    assert list(table["time of an Insert, 24 threads", "Insert"].values()) == [689, 565, 472]
    assert list(table["the counters alone, 24 threads", "HTStatsEpilogue"].values()) == [
        346,
        199,
        14,
    ]
    dcp = values("dcp-ready-queue")
    busy = "beside a client that busy-waits"
    assert dcp[busy, "Add, median"] == {"onelock": 16.337, "readyqueue": 3.996}
    assert dcp[busy, "Delete, standard deviation"] == {"onelock": 7.408, "readyqueue": 3.350}
    flush = values("flush-persistence-callback")
    chain = flush["the chain, 10 000 inserts", "PeakBytesPerItem"]
    assert list(chain.values()) == [818, 786, 738, 721, 708, 633]
    one = "a callback for each item, or one for the transaction"
    assert flush[one, "1 000 000 inserts, CPU"] == {"before": 7.32e9, "transaction": 7.03e9}
    cursors = values("cursors-to-drop")
    assert cursors["GetCursorsToDrop", "10 000 checkpoints"] == {"before": 2545368, "after": 12714}
    assert cursors["ExtractClosedUnrefCheckpoints", "100 000 checkpoints"] == {"after": 14685}
    cpu = [
        cursors["GetCursorsToDrop", f"{n}, CPU"]["after"]
        for n in ("10 000 checkpoints", "1 checkpoint")
    ]
    assert round(cpu[0] / cpu[1], 2) == 1.54
