"""What programs read: real documents are what docs/schemas says, and nothing else is."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest
import synthetic
import synthetic_nights
import synthetic_slices
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from test_published import TABLES

from perfrunner.cli import main
from perfrunner.report import build_report, json_document, model, render
from perfrunner.report import history as history_module
from perfrunner.spec.expectations import PublishedValues

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"


def validator(name):
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def wrong(name, document):
    return [
        f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(document)
    ]


def printed(*words):
    result = CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def document(demo):
    return printed("report", "--format", "json", "--out", demo)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    out = tmp_path_factory.mktemp("nights")
    synthetic_nights.write(out)
    return printed("history", "--spec", "nightly", "--json", "--out", out)


def test_a_report(document):
    assert wrong("report", document) == []
    assert document["facts"]["discarded"]
    assert {row["verdict"] for row in document["results"]} >= {"better", "worse", None}


def test_a_report_of_slices(tmp_path):
    synthetic_slices.write(tmp_path, synthetic_slices.Shape(blocks=6, rounds=60))
    matches = printed("report", "--format", "json", "--out", tmp_path)
    assert wrong("report", matches) == []
    assert matches["facts"]["method"]


def test_a_report_with_published_values(data):
    published = PublishedValues.model_validate(
        {"claim": "c", "source": "s", "why": "w", "not_here": ["elsewhere"], "tables": TABLES}
    )
    matches = json.loads(render(build_report(data, published=published), "json"))
    assert wrong("report", matches) == []
    assert {line["agreement"] for line in matches["published"]} >= {"agrees", "disagrees", None}


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_report_of_next_to_nothing(make, blocks):
    matches = json.loads(render(build_report(make(blocks=blocks, discarded_block=None)), "json"))
    assert wrong("report", matches) == []


def test_a_comparison_of_two_variants_and_of_two_experiments(tmp_path):
    shape = synthetic.Shape(
        blocks=6, discarded_block=None, workloads=("append",), buckets=("ephemeral",)
    )
    for name in ("first-1", "second-2"):
        synthetic.write(tmp_path, shape, name)
    variants = ("compare", "glibc", "jemalloc-5.1.0", "--format", "json", "--out", tmp_path)
    assert wrong("report", printed(*variants)) == []
    runs = ("compare", "first-1", "second-2", "--variant", "glibc", "--format", "json")
    matches = printed(*runs, "--out", tmp_path)
    assert wrong("report", matches) == []
    assert not matches["facts"]["paired"]


def test_a_history(history):
    assert wrong("history", history) == []
    assert history["alarms"]
    for run in (run for series in history["series"] for run in series["runs"]):
        assert run["ci95"][0] < run["value"] < run["ci95"][1]
    assert {level["p"] is None for series in history["series"] for level in series["levels"]} == {
        True,
        False,
    }


def test_the_schemas_are_of_the_versions_that_are_written():
    of_report = validator("report").schema["properties"]["facts"]["properties"]["schema"]
    assert of_report == {"const": model.SCHEMA}
    assert validator("history").schema["properties"]["schema"] == {"const": history_module.SCHEMA}
    assert json_document.SCHEMA == model.SCHEMA


def test_what_the_schemas_do_not_have_is_wrong(document, history):
    for name, matches in (("report", document), ("history", history)):
        rows = "results" if name == "report" else "series"
        more = deepcopy(matches)
        more[rows][0]["surprise"] = 1
        assert wrong(name, more) == [
            f"$.{rows}[0]: Additional properties are not allowed ('surprise' was unexpected)"
        ]
        less = deepcopy(matches)
        del less[rows][0]["unit"]
        assert wrong(name, less) == [f"$.{rows}[0]: 'unit' is a required property"]
        other = deepcopy(matches)
        other[rows][0]["direction"] = "up"
        assert len(wrong(name, other)) == 1
