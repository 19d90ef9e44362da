"""`proof:` of a variant: what is read, what is refused and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.errors import SpecError
from perfrunner.spec import Spec, load_spec
from perfrunner.spec.unproved import not_proved, unproved

SPEC = """\
name: small
cluster: {{name: c, transport: local, hosts: {{h: {{}}}}, engine_nodes: [h], load_clients: [h]}}
baseline: now
variants:
  now: {{allocator: {{name: system}}}}
  old:
    allocator: {{name: jemalloc-5.1.0, options: {{narenas: 1}}}}
    options: {{ht_stats: llc}}
    proof: {proof}
workloads:
  pf: {{type: pillowfight, items: 10k, duration: 5s}}
"""


def read(directory: Path, proof: str) -> Spec:
    path = directory / "spec.yaml"
    path.write_text(SPEC.format(proof=proof))
    return load_spec(path)


@pytest.mark.parametrize(
    ("skip", "skipped", "proved"),
    [
        ("options", ["options.ht_stats"], ["params.ht_size", "allocator.options.narenas"]),
        ("options.ht_stats", ["options.ht_stats"], ["options.ht_stats_padded", "allocator.name"]),
        ("allocator", ["allocator.name", "allocator.version", "allocator.options.narenas"], []),
        ("allocator.options", ["allocator.options.narenas"], ["allocator.version"]),
        ("params.ht_size", ["params.ht_size"], ["params.ht_locks"]),
    ],
)
def test_what_is_left_out(tmp_path: Path, skip: str, skipped: list[str], proved: list[str]) -> None:
    old = read(tmp_path, f"{{skip: [{skip}]}}").variants["old"]
    assert [name for name in [*skipped, *proved] if old.skips(name)] == skipped
    assert old.model_dump(mode="json")["proof"] == {"skip": [skip]}


def test_a_variant_that_leaves_nothing_out_is_recorded_as_ever(tmp_path: Path) -> None:
    now = read(tmp_path, "{skip: [params]}").variants["now"]
    assert "proof" not in now.model_dump()
    assert not now.skips("params.ht_size")


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        ("{skip: []}", "skip"),
        ("{}", "skip"),
        ("{leave: [options]}", "leave"),
        ("{skip: [env]}", "expected a setting as the proof names it"),
        ("{skip: [option.ht_stats]}", "expected a setting as the proof names it"),
        ("{skip: [options.ht_status]}", "it does not set options.ht_status"),
        ("{skip: [allocator.options.dirty_decay_ms]}", "it does not set allocator.options.dirty"),
    ],
)
def test_what_is_refused_and_where(tmp_path: Path, proof: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        read(tmp_path, proof)
    assert "spec.yaml:9" in str(refused.value)
    assert said in str(refused.value)


def test_what_is_kept_is_found_again() -> None:
    kept = {"options.ht_stats": not_proved("llc", None), "allocator.name": "jemalloc-5.1.0"}
    assert unproved(kept) == {"options.ht_stats": "asked for llc, the engine does not tell"}
