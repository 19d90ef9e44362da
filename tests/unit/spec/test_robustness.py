"""Whatever a file holds: a Spec, or a SpecError whose every line names a place. Never another exception."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfrunner.errors import SpecError
from perfrunner.spec.loader import load_spec

FULL = yaml.safe_load("""
name: full
description: everything that a spec can hold
cluster: {name: c, transport: ssh, hosts: {h: {address: 10.0.0.1, user: u, key: k}}, engine_nodes: [h], load_clients: [h]}
baseline: glibc
variants:
  glibc: {allocator: {name: system}, options: {ht_stats: 4}, params: {a: 1}, env: {A: b}}
  je: {allocator: {name: jemalloc-5.1.0, options: {narenas: 4}}}
matrix:
  base: {allocator: {name: jemalloc-5.3.1}}
  axes: {allocator.options.metadata_thp: [null, auto], params.p: [1, 2]}
  exclude: [{params.p: 2, allocator.options.metadata_thp: auto}]
engine: {threads: 2, params: {x: y}}
buckets: [persistent, ephemeral]
workloads:
  pf: {type: pillowfight, items: 10k, value_size: [1, 2], duration: 5s}
  ap: {type: append, items: 10, fields: [1, 2]}
blocks: 6
seed: 5
precision: 1%
margins: {ops_per_s: 1%, fragmentation_rss: 1.0}
primary: [ops_per_s]
limits: {misses: 0}
preconditions: [thp_madvise]
""")

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**12),
    st.floats(),
    st.dates(),
    st.sampled_from(
        [
            "",
            "system",
            "pillowfight",
            "append",
            "5s",
            "1%",
            "a.yaml",
            "..",
            "c",
            "1",
            "x y",
            "\u2603",
        ]
    ),
    st.text(max_size=5),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.one_of(st.sampled_from(["name", "type", "use", "allocator", "hosts", "axes"]), st.text(max_size=4), st.integers()),
        inner, max_size=3,
    ),
    max_leaves=5,
)  # fmt: skip


def paths(value, here=()):
    yield here
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in items:
        yield from paths(child, (*here, key))


PATHS = [path for path in paths(FULL) if path]


def loaded(text: bytes, directory: Path, overrides=()):
    path = directory / "spec.yaml"
    path.write_bytes(text)
    try:
        return load_spec(path, overrides)
    except SpecError as error:
        problems = error.problems
    assert problems
    assert all(line.strip() and line.isprintable() for line in problems), problems
    return None


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


quickly = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_the_full_spec_is_valid(directory):
    spec = loaded(yaml.safe_dump(FULL).encode(), directory)
    assert spec is not None
    assert len(spec.variants) == 5


@given(changes=st.lists(st.tuples(st.sampled_from(PATHS), VALUES), min_size=1, max_size=3))
@quickly
def test_any_value_in_any_place(directory, changes):
    spec = copy.deepcopy(FULL)
    for path, value in changes:
        parent = spec
        try:
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    loaded(yaml.safe_dump(spec, allow_unicode=True).encode(), directory)


@given(path=st.sampled_from(PATHS))
@quickly
def test_any_value_left_out(directory, path):
    spec = copy.deepcopy(FULL)
    parent = spec
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    loaded(yaml.safe_dump(spec).encode(), directory)


@given(
    text=st.one_of(
        st.binary(max_size=60), st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace"))
    )
)
@quickly
def test_any_text(directory, text):
    loaded(text, directory)


@given(cut=st.integers(0, 2000), junk=st.text(alphabet="{}[]:&*!|>'\"%@\t\n -a", max_size=6))
@quickly
def test_any_damage_to_the_text(directory, cut, junk):
    text = yaml.safe_dump(FULL)
    cut %= len(text)
    loaded((text[:cut] + junk + text[cut + len(junk) :]).encode(), directory)


@given(override=st.one_of(
    st.text(max_size=20),
    st.builds(lambda p, v: f"{'.'.join(map(str, p))}={v}", st.sampled_from(PATHS), st.text(max_size=8)),
))  # fmt: skip
@quickly
def test_any_override(directory, override):
    loaded(yaml.safe_dump(FULL).encode(), directory, [override])
