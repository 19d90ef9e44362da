"""`settings_check:` of a variant: what is read, what is refused and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfrunner.domain import not_checked, unchecked
from perfrunner.errors import SpecError
from perfrunner.spec.loader import load_spec
from perfrunner.spec.model import Spec

SPEC = """\
name: small
cluster: {{name: c, transport: local, hosts: {{h: {{}}}}, engine_nodes: [h], load_clients: [h]}}
baseline: now
variants:
  now: {{allocator: {{name: system}}}}
  old:
    allocator: {{name: jemalloc-5.1.0, options: {{narenas: 1}}}}
    options: {{ht_stats: llc}}
    settings_check: {settings_check}
workloads:
  pf: {{type: pillowfight, items: 10k, duration: 5s}}
"""


def read(directory: Path, settings_check: str) -> Spec:
    path = directory / "spec.yaml"
    path.write_text(SPEC.format(settings_check=settings_check))
    return load_spec(path)


@pytest.mark.parametrize(
    ("skip", "skipped", "checked"),
    [
        ("options", ["options.ht_stats"], ["params.ht_size", "allocator.options.narenas"]),
        ("options.ht_stats", ["options.ht_stats"], ["options.ht_stats_padded", "allocator.name"]),
        ("allocator", ["allocator.name", "allocator.version", "allocator.options.narenas"], []),
        ("allocator.options", ["allocator.options.narenas"], ["allocator.version"]),
        ("params.ht_size", ["params.ht_size"], ["params.ht_locks"]),
    ],
)
def test_what_is_left_out(
    tmp_path: Path, skip: str, skipped: list[str], checked: list[str]
) -> None:
    old = read(tmp_path, f"{{skip: [{skip}]}}").variants["old"]
    assert [name for name in [*skipped, *checked] if old.skips(name)] == skipped
    assert old.model_dump(mode="json")["settings_check"] == {"skip": [skip]}


def test_a_variant_that_leaves_nothing_out_is_recorded_as_ever(tmp_path: Path) -> None:
    now = read(tmp_path, "{skip: [params]}").variants["now"]
    assert "settings_check" not in now.model_dump()
    assert not now.skips("params.ht_size")


@pytest.mark.parametrize(
    ("settings_check", "output"),
    [
        ("{skip: []}", "skip"),
        ("{}", "skip"),
        ("{leave: [options]}", "leave"),
        ("{skip: [env]}", "expected a setting as the settings check names it"),
        ("{skip: [option.ht_stats]}", "expected a setting as the settings check names it"),
        ("{skip: [options.ht_status]}", "got options.ht_status, which it does not set"),
        ("{skip: [allocator.options.dirty_decay_ms]}", "got allocator.options.dirty"),
    ],
)
def test_what_is_refused_and_where(tmp_path: Path, settings_check: str, output: str) -> None:
    with pytest.raises(SpecError) as refused:
        read(tmp_path, settings_check)
    assert "spec.yaml:9" in str(refused.value)
    assert output in str(refused.value)


def test_what_is_kept_is_found_again() -> None:
    kept = {"options.ht_stats": not_checked("llc", None), "allocator.name": "jemalloc-5.1.0"}
    assert unchecked(kept) == {"options.ht_stats": "asked for llc, not reported"}
