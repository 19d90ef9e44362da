"""The table of build switches: the engine's own, what is wrong with one, and what it says of options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfrunner.errors import SpecError, UsageError
from perfrunner.spec.loader import load_spec
from perfrunner.spec.switches import (
    FILE,
    Switch,
    checked_options,
    cmake_setting,
    own_table,
    parse_table,
    stat_key,
    table_of,
)
from tools.switch_docs import BEGIN, END, with_switches

ROOT = Path(__file__).resolve().parents[3]
PAGER = {
    "name": "pager",
    "about": "how the pager chooses",
    "default": "clock",
    "values": [
        {"value": "scan", "policy": "ScanPager"},
        {"value": "clock", "policy": "ClockPager"},
    ],
}


def a_table(*switches: object) -> str:
    return json.dumps({"schema": 1, "switches": switches})


def engine_with(directory: Path, *switches: object) -> Path:
    (directory / "options").mkdir(parents=True)
    (directory / "CMakeLists.txt").write_text("project(kv)\n")
    if switches:
        (directory / FILE).write_text(a_table(*switches))
    return directory


@pytest.mark.parametrize("switch", own_table().values(), ids=lambda s: s.name)
def test_every_switch_of_the_engine_can_be_compared_and_is_explained(switch: Switch) -> None:
    assert switch.about
    assert len(switch.values) > 1 or switch.number is not None, "nothing to compare"
    assert (ROOT / "engine_src" / "options" / f"{switch.name}.h").is_file(), "one header each"


def test_the_documentation_has_the_table() -> None:
    text = (ROOT / "docs" / "reference" / "specs.md").read_text(encoding="utf-8")
    assert with_switches(text, own_table()) == text, "scripts/lint --fix writes it"


def test_every_injected_fault_is_explained() -> None:
    text = (ROOT / "docs" / "reference" / "specs.md").read_text(encoding="utf-8")
    section = text[text.index("#### Injected faults") :].split("\n#### ")[0]
    rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert rows == [value for value in own_table()["injected"].values if value != "none"]


def test_a_document_without_the_place_is_refused() -> None:
    table = parse_table(a_table(PAGER), "t")
    assert with_switches(f"a\n{BEGIN}\nold\n{END}\nb\n", table).splitlines() == [
        "a",
        BEGIN,
        "",
        "| switch | meaning | values (the default is bold) |",
        "|---|---|---|",
        "| `pager` | how the pager chooses | `scan`; **`clock`** |",
        "",
        END,
        "b",
    ]
    with pytest.raises(UsageError, match="no markers for the table of switches"):
        with_switches("nothing here\n", table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "t: Invalid JSON"),
        (json.dumps({"schema": 2, "switches": []}), "t: schema: "),
        (a_table({**PAGER, "default": "lru"}), "t: switches.0: expected a default among one of scan, clock; got lru"),
        (a_table({**PAGER, "name": "Pager"}), "t: switches.0.name: "),
        (a_table({**PAGER, "values": [{"value": "true"}]}), "t: switches.0.values.0.value: expected a word"),
        (a_table({**PAGER, "values": [{"value": "Clock"}]}), "t: switches.0.values.0.value: expected a word"),
        (a_table({**PAGER, "values": [{"value": "clock"}] * 2}), "expected each value once"),
        (a_table({**PAGER, "values": []}), "t: switches.0: expected values, or number"),
        (a_table(PAGER, PAGER), "t: switches: expected each switch once; got pager 2 times"),
        (a_table({**PAGER, "number": {"least": 0, "most": 9}}), "t: switches.0.number.least: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_table(text, "t")
    assert message in caught.value.message


def test_a_newer_table_needs_a_newer_perfrunner() -> None:
    with pytest.raises(UsageError) as caught:
        parse_table(json.dumps({"schema": 2, "switches": []}), "t")
    assert caught.value.hint == "this version of perfrunner reads schema 1"


def test_a_source_has_its_own_table_and_an_older_one_perfrunners(tmp_path: Path) -> None:
    assert list(table_of(engine_with(tmp_path / "new", PAGER))) == ["pager"]
    assert table_of(engine_with(tmp_path / "old")) is own_table()


@pytest.mark.parametrize(
    ("given", "normal", "wrong"),
    [
        ({"ht_stats_padded": "true"}, {"ht_stats_padded": "on"}, {}),
        ({"ht_stats_padded": "OFF"}, {"ht_stats_padded": "off"}, {}),
        ({"ht_stats": "9999"}, {"ht_stats": "9999"}, {}),
        ({"ht_stats": "10000"}, {}, {"ht_stats": "expected one of single, llc, core, a whole number from 1 to 9999; got 10000"}),
        ({"ht_stats": "007"}, {}, {"ht_stats": "expected one of single, llc, core, a whole number from 1 to 9999; got 007"}),
        ({"dcp_snapshot_yield": "many"}, {}, {"dcp_snapshot_yield": "expected a whole number from 1 to 9999; got many"}),
        ({"cursor_drop": "true"}, {}, {"cursor_drop": "expected one of walk, compare; got true"}),
        ({"cursor_drop": "compre"}, {}, {"cursor_drop": "expected one of walk, compare; got compre (did you mean compare?)"}),
    ],
)  # fmt: skip
def test_options_by_a_table(
    given: dict[str, str], normal: dict[str, str], wrong: dict[str, str]
) -> None:
    assert checked_options(given, own_table()) == (normal, wrong)


def test_options_without_a_table() -> None:
    given = {"pager": "clock", "verbose": "true", "no name": "x", "size": "a b", "Pager": "scan"}
    normal, wrong = checked_options(given, None)
    assert normal == {"pager": "clock", "verbose": "on"}
    assert set(wrong) == {"no name", "size", "Pager"}


def test_what_follows_from_a_name() -> None:
    assert cmake_setting("ht_stats", "llc") == ("ENGINE_HT_STATS", "llc")
    assert cmake_setting("ht_stats_padded", "on") == ("ENGINE_HT_STATS_PADDED", "ON")
    assert stat_key("ht_stats") == "build.ht_stats"


SPEC = """\
name: small
cluster: local
baseline: a
variants:
  a: {{allocator: {{name: system}}, source: {{dir: {0}}}, options: {{{1}}}}}
workloads:
  pf: {{type: pillowfight, items: 10k, duration: 5s}}
"""


def test_a_directory_of_a_spec_has_the_switches_of_its_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    engine_with(tmp_path / "other", PAGER)
    path = Path("spec.yaml")
    path.write_text(SPEC.format("other", "pager: scan"))
    assert load_spec(path).variants["a"].options == {"pager": "scan"}
    path.write_text(SPEC.format("other", "cursor_drop: walk, pager: scann"))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert list(caught.value.problems) == [
        "spec.yaml:5: variants.a.options.cursor_drop: expected a build option: pager; got cursor_drop",
        "spec.yaml:5: variants.a.options.pager: expected one of scan, clock; got scann (did you mean scan?)",
    ]


def test_a_recorded_spec_keeps_the_switches_of_engines_that_are_gone(specs) -> None:
    spec = specs.spec()
    recorded = spec.model_dump(mode="json")
    recorded["variants"]["glibc"]["options"] = {"pager": "scan"}
    assert type(spec).model_validate(recorded).variants["glibc"].options == {"pager": "scan"}
