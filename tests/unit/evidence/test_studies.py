"""Test that the studies run valid specs, and that docs/explanation/accuracy.md shows what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.analysis.account import PARTS
from perfrunner.errors import StoreError
from perfrunner.experiment.plan import groupings
from perfrunner.spec.loader import load_spec
from tools.evidence import between, kept, studies, tables
from tools.evidence.__main__ import main
from tools.evidence.studies import Base, Load

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "specs" / "experiments" / "quickstart.yaml"
BASE = Base.read(QUICKSTART)
LOAD = Load(0.5)


def spec_of(planned, tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(json.dumps(planned.document))
    return load_spec(path)


def aa(comparisons, variants=6):
    return list(
        studies.aa(BASE, bucket="ephemeral", comparisons=comparisons, variants=variants, load=LOAD)
    )


def test_a_a_comparisons_share_no_variant(tmp_path):
    planned = aa(8)
    assert [len(single.pairs) for single in planned] == [3, 3, 2]
    for single in planned:
        variants = [variant for pair in single.pairs for variant in pair]
        assert len(variants) == len(set(variants))
        assert set(variants) <= set(single.document["variants"])
        spec = spec_of(single, tmp_path)
        first, *others = ({**v.model_dump(), "name": ""} for v in spec.variants.values())
        assert all(first == other for other in others)
        assert groupings(spec, None)["pillowfight"].group_size == 6, "all alive side by side"
    assert len({single.document["seed"] for single in planned}) == 3
    assert [single.name for single in aa(8)] == [single.name for single in planned], (
        "or it could not resume"
    )


def test_the_workload_is_the_quickstarts_but_for_its_length(tmp_path):
    theirs = load_spec(QUICKSTART)
    ours = spec_of(aa(1)[0], tmp_path)
    assert ours.engine == theirs.engine
    changed = {
        name
        for name, value in ours.workloads["pillowfight"].model_dump().items()
        if value != theirs.workloads["pillowfight"].model_dump()[name]
    }
    assert changed <= {"duration", "ramp", "schedule", "settle"}
    assert ours.workloads["pillowfight"].duration == 0.7


def test_the_other_studies_are_valid_specs(tmp_path):
    planned = [
        *studies.slices(BASE, bucket="ephemeral", sweep=(0.0002, 0.02), load=LOAD, relink="auto"),
        *studies.relink(BASE, bucket="ephemeral", comparisons=3, variants=6, load=LOAD),
        *studies.memory(BASE, load=Load(2, 1, 8)),
        *studies.injected(BASE, bucket="ephemeral", experiments=2, load=LOAD, relink="never"),
        *studies.injected_memory(BASE, bucket="ephemeral", load=Load(8), relink="never"),
    ]
    planned += studies.explain(BASE, bucket="ephemeral", experiments=1, load=Load(2), relink="auto")
    planned[-2:-2] = studies.account(
        BASE,
        bucket="ephemeral",
        faults=("burst", "burst5s"),
        sweep=(0.002,),
        load=LOAD,
        relink="auto",
    )
    specs = [spec_of(single, tmp_path) for single in planned]
    burst, slow = specs[-4:-2]
    assert [v.env.get("KV_INJECTED_PERMILLE") for v in burst.variants.values()] == [
        None, "5", "10", "20", "40", "80"
    ]  # fmt: skip
    assert {v.options["injected"] for v in list(burst.variants.values())[1:]} == {"burst"}
    assert slow.workloads["pillowfight"].duration > 3, "a burst every 5 s needs time to come"
    assert [spec.workloads["pillowfight"].slice for spec in specs[:2]] == [0.0002, 0.02]
    assert [spec.relink for spec in specs[2:4]] == ["never", "shuffle"]
    beside, alone = specs[4:6]
    assert beside.seed == alone.seed, "the same keys in both"
    assert alone.schedule_of("append") == alone.schedule_of("pillowfight") == "sequential"
    faults = [variant.options["injected"] for variant in specs[6].variants.values()]
    assert faults == ["none", "share1", "share2", "stall"]
    assert specs[-2].workloads["pillowfight"].items == 10_000
    assert specs[-1].workloads["pillowfight"].profile == "perf"
    assert all(single.metrics and single.study in tables.STUDIES for single in planned)


def test_the_commands_plan_without_running_anything(tmp_path):
    out = tmp_path / "out"
    for study in tables.STUDIES:
        result = CliRunner().invoke(main, [study, "--dry-run", "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert "of load" in result.output
    assert not out.exists()


def test_the_account_has_an_experiment_for_each_length_of_slices():
    planned = list(
        studies.account(
            BASE, bucket="ephemeral", faults=["share"], sweep=(0.002, 0.1), load=LOAD, relink="auto"
        )
    )
    assert len({item.name for item in planned}) == 2
    loads = [item.document["workloads"]["pillowfight"] for item in planned]
    assert [(load["slice"], load["ramp"]) for load in loads] == [(0.002, 0.2), (0.1, 0.4)]
    assert [load["duration"] - load["ramp"] for load in loads] == pytest.approx([LOAD.seconds] * 2)


def test_a_length_of_nothing_leaves_the_experiment_on_memory_out():
    words = ["injected", "--dry-run", "--experiments", "1", "--memory-load"]
    lines = [CliRunner().invoke(main, [*words, load]).output for load in ("0", "8s")]
    assert ["memory" in text for text in lines] == [False, True]


def test_each_run_visits_every_environment(tmp_path):
    repeats = between.Repeats(2, (0.0002, 0.002), between.NEIGHBOURS)
    planned = list(
        between.between(BASE, bucket="ephemeral", repeats=repeats, load=LOAD, relink="auto")
    )
    assert [(single.facts["neighbour"], single.facts["slice_s"]) for single in planned] == 2 * [
        ("none", 0.0002), ("none", 0.002), ("memory", 0.0002), ("memory", 0.002)
    ]  # fmt: skip
    assert len({single.document["seed"] for single in planned}) == 8, "keys and orders of their own"
    assert spec_of(planned[1], tmp_path).workloads["pillowfight"].slice == 0.002


def test_a_pair_needs_two_variants():
    result = CliRunner().invoke(main, ["aa", "--dry-run", "--variants", "5"])
    assert result.exit_code == 2
    assert "an even number" in result.output


def test_the_document_says_what_is_kept(tmp_path):
    """Fails when results were kept and `scripts/evidence report` was forgotten."""
    for name, sections in (
        ("explanation/accuracy.md", tables.STUDIES),
        ("how-to/ci.md", (tables.GATE,)),
    ):
        document = tmp_path / Path(name).name
        document.write_text((ROOT / "docs" / name).read_text())
        changed = tables.update(document, ROOT / "docs" / "statistics", sections)
        assert not changed, "run scripts/evidence report"


ALL = (
    *studies.PRIMARY,
    *studies.RARE,
    *studies.MEMORY,
    *PARTS,
    "total_cpu_us_per_op",
    *studies.COUNTED,
)


def sample(study, variants, shift=1, **facts):
    def series(n):
        return {
            metric: [(1 + 0.01 * n) * (100 + (3 * block + shift * n) % 5) for block in range(8)]
            for metric in ALL
        }

    values = {variant: series(n) for n, variant in enumerate(variants)}
    return kept.Comparison(f"e-{study}", "pillowfight", "ephemeral", values, tuple(studies.PRIMARY), facts)  # fmt: skip


SAMPLES = {
    "aa": [sample("aa", ("a1", "b1"), load_s=0.5)],
    "relink": [sample("relink", ("a1", "b1"), relink="shuffle", load_s=0.5)],
    "slices": [sample("slices", ("glibc", "je"), slice_s=0.0002)],
    "between": [
        sample(f"between-{n}", ("glibc", "je"), shift=n, slice_s=0.002, neighbour=neighbour)
        for n, neighbour in enumerate(["none", "none", "memory", "memory"])
    ],
    "memory": [
        sample("memory-1", ("glibc", "je"), schedule="interleaved"),
        sample("memory-2", ("glibc", "je"), schedule="sequential"),
    ],
    "explain": [
        sample(
            f"explain-{n}",
            ("none", "again", "share2"),
            load_s=2.0,
            explained={
                "again": {"samples": 9000, "functions": 70, "changed": 0, "first": None},
                "share2": {
                    "samples": 9100,
                    "functions": 71,
                    "changed": 1,
                    "first": ["front-end", function, 0.021],
                },
            },
        )
        for n, function in enumerate(["__vdso_clock_gettime", "[vdso]", "malloc"])
    ],
    "account": [
        sample("burst", ("none", "burst-5", "burst-10", "burst-20"), fault="burst", slice_s=0.002)
    ],
    "injected": [
        sample("shares", ("none", "share1", "share2", "stall"), load_s=1.0, relink="never"),
        sample("bytes", ("none", "bytes16", "leak"), items=10_000, ops=8e6),
    ],
}


@pytest.mark.parametrize("study", tables.STUDIES)
def test_every_study_has_its_tables(tmp_path, study):
    assert tables.section(tmp_path, study) == tables.NOTHING.format(study=study)
    kept.write(tmp_path, kept.Kept(study).having(SAMPLES[study], {"cpu_model": "a CPU", "cpus": 2}))
    text = tables.section(tmp_path, study)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) >= 3
    assert "a CPU, 2 CPUs" in text
    assert "nan" not in text
    widths = [line.count("|") for line in rows]
    heads = [i for i, line in enumerate(rows) if line.startswith("| ---")]
    for begin, end in zip(heads, [*(i - 1 for i in heads[1:]), len(rows)], strict=True):
        assert len(set(widths[begin - 1 : end])) == 1, (
            "a table's rows have as many cases as its head"
        )


def test_only_the_faulty_function_counts_as_found(tmp_path):
    kept.write(tmp_path, kept.Kept("explain").having(SAMPLES["explain"], {"cpu_model": "a CPU"}))
    again, fault = tables.section(tmp_path, "explain").splitlines()[2:4]
    assert again.count("| 0 of 3") == 2
    assert "| 3 of 3" in fault
    assert "| 2 of 3" in fault


def test_a_document_without_a_place_for_a_study_is_refused(tmp_path):
    document = tmp_path / "d.md"
    document.write_text("<!-- evidence: aa -->\n<!-- end of evidence: aa -->\n")
    with pytest.raises(StoreError, match="no place for injected"):
        tables.update(document, tmp_path)
    assert "Nothing is kept" not in document.read_text()
