"""The `published:` block: what it may name, and that the five specs hold every published value."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.experiment.session import differences, resolved
from perfrunner.spec.expectations import PublishedValues
from perfrunner.spec.loader import load_spec

EXPERIMENTS = Path(__file__).parents[3] / "specs" / "experiments"
BLOCK = """\
published:
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
    spec = specs.spec(with_published(specs, BLOCK))
    (table,) = spec.published.tables
    (row,) = table.rows
    assert row.metric == ("ops_per_s",)
    assert row.values["glibc"].value == 1000
    assert (row.values["je"].value, row.values["je"].n, row.values["je"].spread) == (
        1100.5,
        3,
        "sd 4",
    )
    assert PublishedValues.model_validate(resolved(spec)["published"]) == spec.published


def test_a_bucket_type_may_be_left_out_of_a_run(specs):
    spec = specs.spec(
        with_published(specs, BLOCK.replace("bucket: persistent", "bucket: ephemeral"))
    )
    assert spec.buckets == ("persistent",)
    assert spec.published.tables[0].bucket == "ephemeral"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("glibc: 1000", "glibd: 1000", "spec.yaml:18: published.tables[0].rows[0].values.glibd: expected a variant: glibc, je; got glibd (did you mean glibc?)"),
        ("ops_per_s", "ops_per_sec", "spec.yaml:17: published.tables[0].rows[0].metric"),
        ("workload: pf", "workload: pillow", "spec.yaml:13: published.tables[0].workload: expected a workload: pf; got pillow"),
        ("bucket: persistent", "bucket: ephemera", "spec.yaml:14: published.tables[0].bucket: expected"),
        ("      bucket: persistent\n", "", "expected a bucket type of pf: persistent or ephemeral; got nothing"),
        ("glibc: 1000", "glibc: many", "expected a number, got 'many'"),
        ("glibc: 1000", "glibc: .nan", "finite number"),
        ("spread: sd 4", "sprad: sd 4", "values.je.sprad: unknown key (did you mean spread?)"),
        ("title: throughput", "titel: throughput", "spec.yaml:12: published.tables[0].titel: unknown key (did you mean title?)"),
        ("  source: a commit message\n", "", "published.source: required key is missing"),
        ("  tables:", "  not_here: [je]\n  tables:", "published.not_here: expected variants that the spec does not have; got je"),
    ],
)  # fmt: skip
def test_what_it_names_must_be_there(specs, old, new, message):
    assert old in BLOCK
    errors = specs.errors(with_published(specs, BLOCK.replace(old, new)))
    assert message in "\n".join(errors)


def test_a_variant_that_the_spec_does_not_run_is_named(specs):
    text = BLOCK.replace("glibc: 1000", "glibc: 1000, tcmalloc: 900")
    assert specs.errors(with_published(specs, text))
    spec = specs.spec(
        with_published(specs, text.replace("  tables:", "  not_here: [tcmalloc]\n  tables:"))
    )
    assert spec.published.tables[0].rows[0].values["tcmalloc"].value == 900


def test_a_part_of_the_spec_keeps_what_it_measures(specs):
    spec = specs.spec(with_published(specs, BLOCK))
    part = spec.restricted(None, ("glibc",))
    assert part.published.not_here == ("je",)
    assert type(spec).model_validate(resolved(part)) == part
    assert spec.against_itself().published is None


def test_a_reference_changes_no_experiment(specs):
    recorded = resolved(specs.spec())
    assert differences(recorded, specs.spec(with_published(specs, BLOCK))) == []


def with_published(specs, block):
    return (specs.directory / "spec.yaml").read_text().partition("published:")[0] + block


def values(name):
    """(title, label) -> variant -> value, of an experiment of ours."""
    spec = load_spec(EXPERIMENTS / f"{name}.yaml", [], None)
    return {
        (table.title, row.label): {v: case.value for v, case in row.values.items()}
        for table in spec.published.tables
        for row in table.rows
    }


def columns(variants, **rows):
    """label -> variant -> value, of values in the order of `variants`; None: not published."""
    return {
        label: {v: x for v, x in zip(variants, row, strict=True) if x is not None}
        for label, row in rows.items()
    }


THP = ("pre-5.1", "jemalloc-5.1", "bg", "auto", "always", "bg-auto", "bg-always")
LAYOUTS = ("single", "llc", "core")
CHAIN = ("start", "before", "transaction", "no-ids", "early-free", "set")
CHANGE = ("before", "transaction")
STEPS = (
    "1 checkpoint",
    "10 checkpoints",
    "100 checkpoints",
    "1000 checkpoints",
    "10 000 checkpoints",
)

# Every value, in the order in which it was published, typed here apart from the YAML.
PUBLISHED = {
    "jemalloc-metadata-thp": {
        "pillowfight, operations a second": columns(
            THP[1:5], **{"ops/s": (1831406, 1832381, 1841475, 1852863)}
        ),
        "fragmentation by RSS": columns(
            THP,
            persistent=(22.7, 21.2, 21.4, 26.2, 24.5, 25.9, 26),
            ephemeral=(43, 39, 40, 36, 35, 36, 35),
        ),
        "fragmentation by mapped memory": columns(
            THP,
            persistent=(23.9, 21.8, 22, 31.3, 31.6, 31.3, 31.3),
            ephemeral=(43, 39, None, 36, 36, None, None),
        ),
    },
    "hashtable-stats-striping": {
        "time of an Insert, 24 threads": columns(LAYOUTS, Insert=(689, 565, 472)),
        "time of an operation, 24 threads": columns(
            LAYOUTS, Replace=(456, 430, 414), Delete=(36, 27, 22)
        ),
        "the counters alone, 24 threads": columns(
            LAYOUTS,
            **{"HTStatsEpilogue": (346, 199, 14), "bytes a vBucket": (144, 2 * 144, 24 * 144)},
        ),
    },
    "dcp-ready-queue": {
        "with a client that busy-waits": columns(
            ("onelock", "readyqueue"),
            **{
                "Add, median": (16.337, 3.996),
                "Add, p95": (34.894, 12.159),
                "Add, p99": (45.241, 20.724),
                "Add, standard deviation": (25.627, 11.376),
                "Get, median": (1.226, 1.299),
                "Get, p95": (1.524, 1.629),
                "Get, p99": (1.745, 1.730),
                "Get, standard deviation": (0.435, 0.634),
                "Replace, median": (16.311, 4.274),
                "Replace, p95": (34.386, 12.831),
                "Replace, p99": (42.097, 22.988),
                "Replace, standard deviation": (8.435, 4.523),
                "Delete, median": (15.636, 3.142),
                "Delete, p95": (32.915, 10.302),
                "Delete, p99": (41.999, 14.292),
                "Delete, standard deviation": (7.408, 3.350),
            },
        ),
        "without a client": columns(
            ("unstated",),
            **{
                "Add, median": (1.377,),
                "Get, median": (0.445,),
                "Replace, median": (1.547,),
                "Delete, median": (1.180,),
            },
        ),
    },
    "flush-persistence-callback": {
        "the chain, 10 000 inserts": columns(CHAIN, PeakBytesPerItem=(818, 786, 738, 721, 708, 633)),
        "a callback for each item, or one for the transaction": columns(
            CHANGE,
            **{
                "1 insert, PeakBytesPerItem": (169.625 * 1024, 169.625 * 1024),
                "100 inserts, PeakBytesPerItem": (2431, 2383),
                "10 000 inserts, PeakBytesPerItem": (786, 738),
                "10 000 inserts, PeakFlushBytes": (round(7.49782 * 1024**2), None),
                "10 000 inserts, CPU": (46.91e6, 44.79e6),
                "10 000 replaces, PeakBytesPerItem": (809, 761),
                "1 000 000 inserts, PeakBytesPerItem": (807, 759),
                "1 000 000 inserts, PeakFlushBytes": (
                    round(769.7 * 1024**2),
                    round(724.0 * 1024**2),
                ),
                "1 000 000 inserts, CPU": (7.32e9, 7.03e9),
                "1 000 000 replaces, PeakBytesPerItem": (812, 764),
            },
        ),
    },
    "cursors-to-drop": {
        "GetCursorsToDrop": {
            **columns(
                STEPS,
                before=(9552, 8997, 29474, 204150, 2545368),
                after=(6322, 6411, 6426, 7190, 12714),
            ),
            "CPU": {"1 checkpoint": 4947, "10 000 checkpoints": 7620},
        },
        "ExtractClosedUnrefCheckpoints": columns(
            (*STEPS, "100 000 checkpoints"),
            before=(5908, 7369, 8408, 40237, 734348, None),
            after=(5830, 6210, 7179, 8166, 13649, 14685),
        ),
    },
}  # fmt: skip
PUBLISHED["jemalloc-metadata-thp-matrix"] = PUBLISHED["jemalloc-metadata-thp"]


def turned(name, tables):
    """The cursors' tables were published with a column a size: (title, label) -> variant -> value."""
    results = {}
    for title, rows in tables.items():
        for label, row in rows.items():
            if name != "cursors-to-drop":
                results[title, label] = row
                continue
            for size, value in row.items():
                cpu = label == "CPU"
                line = results.setdefault((title, f"{size}, CPU" if cpu else size), {})
                line["after" if cpu else label] = value
    return results


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_value_as_it_was_published(name):
    assert values(name) == turned(name, PUBLISHED[name])
