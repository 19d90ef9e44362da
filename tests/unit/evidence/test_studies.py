"""What the studies run: valid specs that do what their study says; and docs/statistics.md is what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfrunner.errors import StoreError
from perfrunner.evidence import kept, studies, tables
from perfrunner.evidence.__main__ import main
from perfrunner.evidence.studies import Base, Load
from perfrunner.run.plan.ensembles import layouts
from perfrunner.spec import load_spec

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "specs" / "experiments" / "quickstart.yaml"
BASE = Base.read(QUICKSTART)
LOAD = Load(0.5)


def spec_of(planned, tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(json.dumps(planned.document))
    return load_spec(path)


def aa(comparisons, arms=6):
    return list(studies.aa(BASE, bucket="ephemeral", comparisons=comparisons, arms=arms, load=LOAD))


def test_a_a_comparisons_share_no_arm(tmp_path):
    planned = aa(8)
    assert [len(one.pairs) for one in planned] == [3, 3, 2]
    for one in planned:
        arms = [arm for pair in one.pairs for arm in pair]
        assert len(arms) == len(set(arms))
        assert set(arms) <= set(one.document["variants"])
        spec = spec_of(one, tmp_path)
        first, *others = ({**v.model_dump(), "name": ""} for v in spec.variants.values())
        assert all(first == other for other in others)
        assert layouts(spec, None)["pillowfight"].arms == 6, "all alive side by side"
    assert len({one.document["seed"] for one in planned}) == 3
    assert [one.name for one in aa(8)] == [one.name for one in planned], "or it could not resume"


def test_the_workload_is_the_quickstarts_but_for_its_length(tmp_path):
    theirs = load_spec(QUICKSTART)
    ours = spec_of(aa(1)[0], tmp_path)
    assert ours.engine == theirs.engine
    changed = {
        name
        for name, value in ours.workloads["pillowfight"].model_dump().items()
        if value != theirs.workloads["pillowfight"].model_dump()[name]
    }
    assert changed == {"duration", "ramp", "schedule", "settle"}
    assert ours.workloads["pillowfight"].duration == 0.7


def test_the_other_studies_are_valid_specs(tmp_path):
    planned = [
        *studies.slices(BASE, bucket="ephemeral", sweep=(0.0002, 0.02), load=LOAD, relink="auto"),
        *studies.relink(BASE, bucket="ephemeral", comparisons=3, arms=6, load=LOAD),
        *studies.memory(BASE, load=Load(2, 1, 8)),
        *studies.planted(BASE, bucket="ephemeral", experiments=2, load=LOAD, relink="never"),
        *studies.planted_memory(BASE, bucket="ephemeral", load=Load(8), relink="never"),
    ]
    specs = [spec_of(one, tmp_path) for one in planned]
    assert [spec.workloads["pillowfight"].slice for spec in specs[:2]] == [0.0002, 0.02]
    assert [spec.relink for spec in specs[2:4]] == ["never", "shuffle"]
    beside, alone = specs[4:6]
    assert beside.seed == alone.seed, "the same keys in both"
    assert alone.schedule_of("append") == alone.schedule_of("pillowfight") == "sequential"
    faults = [variant.options["planted"] for variant in specs[6].variants.values()]
    assert faults == ["none", "share1", "share2", "stall"]
    assert specs[-1].workloads["pillowfight"].items == 10_000
    assert all(one.metrics and one.study in tables.STUDIES for one in planned)


def test_the_commands_plan_without_running_anything(tmp_path):
    out = tmp_path / "out"
    for study in tables.STUDIES:
        result = CliRunner().invoke(main, [study, "--dry-run", "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert "of load" in result.output
    assert not out.exists()


def test_a_length_of_nothing_leaves_the_experiment_on_memory_out():
    words = ["planted", "--dry-run", "--experiments", "1", "--memory-load"]
    lines = [CliRunner().invoke(main, [*words, load]).output for load in ("0", "8s")]
    assert ["memory" in text for text in lines] == [False, True]


def test_a_pair_needs_two_arms():
    result = CliRunner().invoke(main, ["aa", "--dry-run", "--arms", "5"])
    assert result.exit_code == 2
    assert "an even number" in result.output


def test_the_document_says_what_is_kept(tmp_path):
    """Fails when results were kept and `scripts/evidence report` was forgotten."""
    for name, sections in (("statistics.md", tables.STUDIES), ("ci.md", (tables.GATE,))):
        document = tmp_path / name
        document.write_text((ROOT / "docs" / name).read_text())
        changed = tables.update(document, ROOT / "docs" / "statistics", sections)
        assert not changed, "run scripts/evidence report"


def sample(study, arms, **facts):
    def series(n):
        return {
            metric: [(1 + 0.01 * n) * (100 + (3 * block + n) % 5) for block in range(8)]
            for metric in (*studies.PRIMARY, *studies.RARE, *studies.MEMORY)
        }

    values = {arm: series(n) for n, arm in enumerate(arms)}
    return kept.Comparison(f"e-{study}", "pillowfight", "ephemeral", values, tuple(studies.PRIMARY), facts)  # fmt: skip


SAMPLES = {
    "aa": [sample("aa", ("a1", "b1"), load_s=0.5)],
    "relink": [sample("relink", ("a1", "b1"), relink="shuffle", load_s=0.5)],
    "slices": [sample("slices", ("glibc", "je"), slice_s=0.0002)],
    "memory": [
        sample("memory-1", ("glibc", "je"), schedule="side-by-side"),
        sample("memory-2", ("glibc", "je"), schedule="sequential"),
    ],
    "planted": [
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
            "a table's rows have as many cells as its head"
        )


def test_a_document_without_a_place_for_a_study_is_refused(tmp_path):
    document = tmp_path / "d.md"
    document.write_text("<!-- evidence: aa -->\n<!-- end of evidence: aa -->\n")
    with pytest.raises(StoreError, match="no place for planted"):
        tables.update(document, tmp_path)
    assert "Nothing is kept" not in document.read_text()
