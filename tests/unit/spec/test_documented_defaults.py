"""docs/reference/specs.md has every key of a spec, with the default that it has."""

from __future__ import annotations

import operator
import re
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from perfrunner.spec.model import ClientSpec, EngineSpec, Limits, Spec
from perfrunner.spec.workloads import LatencySpec, MicrobenchSpec, PillowfightSpec, ServerWorkload
from perfrunner.spec.workloads.base import AnyWorkload
from perfrunner.spec.workloads.sdk import SdkSpec

DOCS = (Path(__file__).parents[3] / "docs" / "reference" / "specs.md").read_text(encoding="utf-8")
# By the text that its table follows, and the fields that stand elsewhere on the page.
ANY, SERVER = set(AnyWorkload.model_fields), set(ServerWorkload.model_fields)
TABLES: list[tuple[str, type[BaseModel], set[str]]] = [
    ("## The whole spec", Spec, {"profile"}),
    ("### Engine", EngineSpec, set()),
    ("### Client", ClientSpec, set()),
    ("`type: pillowfight` populates", PillowfightSpec, SERVER),
    ("### `type: sdk`", SdkSpec, SERVER),
    ("### `type: microbench`", MicrobenchSpec, ANY),
    ("### `type: latency`", LatencySpec, ANY),
    ("### Limits", Limits, set()),
]
ONLY_WRITTEN = {"matrix", "profiles"}  # keys that are gone when a spec has been read


def rows(after: str) -> dict[str, str]:
    """Of the first table after a text: key -> default."""
    table = re.search(r"(?:^\|.*\n)+", DOCS[DOCS.index(after) :], re.MULTILINE)
    assert table is not None
    _, _, *lines = table[0].splitlines()
    cases = [[case.strip() for case in line.split("|")[1:3]] for line in lines]
    return {key.strip("`"): default for key, default in cases}


@pytest.mark.parametrize(("after", "model", "elsewhere"), TABLES, ids=[t[0] for t in TABLES])
def test_every_key_is_there_and_no_other(
    after: str, model: type[BaseModel], elsewhere: set[str]
) -> None:
    assert set(rows(after)) - ONLY_WRITTEN == set(model.model_fields) - elsewhere - {"type"}


@pytest.mark.parametrize(
    ("model", "key", "text"),
    [
        (model, key, text)
        for after, model, _ in TABLES
        for key, text in rows(after).items()
        if key not in ONLY_WRITTEN
    ],
)
def test_its_default_is_the_documented_one(model: type[BaseModel], key: str, text: str) -> None:
    field = model.model_fields[key]
    if field.is_required():
        assert text.startswith("required") or not text.strip("\N{EN DASH}")
    elif field.default_factory is not None or field.default in (None, "", (), {}):
        assert not re.match(r"[`\d\[]", text) or text.startswith("80 % of"), "there is none"
    elif isinstance(field.default, BaseModel):
        assert text == "see below"
    else:
        kind = operator.getitem(cast(Any, Annotated), (field.annotation, *field.metadata, None))
        written = yaml.safe_load(text.replace("`", ""))
        strict = ConfigDict(strict=True)
        assert TypeAdapter(kind, config=strict).validate_python(written) == field.default
