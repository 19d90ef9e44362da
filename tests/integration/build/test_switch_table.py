"""The table of build switches (engine_src/options/switches.json) through CMake, the compiler, and back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perfrunner.build.builder import request_of
from perfrunner.build.identity import tree_files
from perfrunner.build.settings_check import check_readback
from perfrunner.sources.switches import SwitchTables
from perfrunner.spec.loader import load_spec
from perfrunner.spec.switches import FILE, table_of
from tools.switch_docs import BEGIN, END, with_switches

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
ENGINE = ROOT / "engine_src"
ONLY_SWITCHES = """\
cmake_minimum_required(VERSION 3.25)
project(switches NONE)
include(${ENGINE}/options/Options.cmake)
"""
PROGRAM = """\
cmake_minimum_required(VERSION 3.25)
project(switches CXX)
set(CMAKE_CXX_STANDARD 20)
include(${ENGINE}/options/Options.cmake)
configure_file(${ENGINE}/options/selected/build.h.in generated/options/selected/build.h @ONLY)
add_executable(read_back main.cc ${ENGINE}/options/build_info.cc)
target_include_directories(read_back PRIVATE ${ENGINE} ${PROJECT_BINARY_DIR}/generated)
"""
PAGER_H = """\
#pragma once
#include <string_view>
namespace kv::options {
struct ScanPager { static constexpr std::string_view kName = "scan"; };
struct ClockPager { static constexpr std::string_view kName = "clock"; };
}
"""
MAIN = """\
#include <iostream>
#include "options/build_info.h"
#include "options/selected/pager.h"
int main() {
    for (const auto& [name, value] : kv::options::buildInfo()) {
        std::cout << "build." << name << " " << value << "\\n";
    }
    std::cout << "user " << kv::options::SelectedPager::kName << "\\n";
}
"""
SPEC = """\
name: pager
cluster: local
baseline: scan
variants:
  scan: {allocator: {name: system}, options: {pager: scan}}
  clock: {allocator: {name: system}, options: {pager: clock, cursor_drop: walk}}
workloads:
  pf: {type: pillowfight, items: 10k, duration: 5s}
"""


class Tree:
    """A CMake project around the switches of an engine's source."""

    def __init__(self, directory: Path, engine: Path, project: str, **files: str) -> None:
        self.engine = engine
        self.source, self.build = directory / "project", directory / "build"
        self.source.mkdir(parents=True)
        for name, text in {"CMakeLists.txt": project, **files}.items():
            (self.source / name).write_text(text)

    def configure(self, *settings: str) -> subprocess.CompletedProcess[str]:
        return self.run("cmake", "-S", str(self.source), "-B", str(self.build), "-G", "Ninja", "-UENGINE_*",
                        f"-DENGINE={self.engine}", *(f"-D{setting}" for setting in settings))  # fmt: skip

    def make(self) -> None:
        done = self.run("cmake", "--build", str(self.build))
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)

    def selected(self, name: str) -> Path:
        return self.build / "generated" / "options" / "selected" / f"{name}.h"

    def policy(self, name: str) -> str:
        results = re.search(r"using Selected\w+ = (.*);", self.selected(name).read_text())
        assert results is not None
        return results.group(1)


@pytest.fixture
def switches(tmp_path: Path) -> Tree:
    return Tree(tmp_path, ENGINE, ONLY_SWITCHES)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A copy of the engine's source."""
    copy = tmp_path / "engine_src"
    shutil.copytree(ENGINE, copy, ignore=shutil.ignore_patterns("build", "target"))
    return copy


def contents(engine: Path) -> dict[str, bytes]:
    return {path.relative_to(engine).as_posix(): path.read_bytes() for path in tree_files(engine)}


def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ENGINE / FILE).read_text())
    return loaded


def test_the_defaults_are_the_tables(switches: Tree) -> None:
    assert switches.configure().returncode == 0
    for switch in document()["switches"]:
        known = {value["value"]: value["policy"] for value in switch["values"]}
        default = switch["default"]
        number = switch.get("number", {}).get("policy", "").replace("NUMBER", default)
        assert switches.policy(switch["name"]) == known.get(default, number), switch["name"]
        help_text = switch["about"]
        cache = (switches.build / "CMakeCache.txt").read_text()
        assert f"//{help_text[:40]}" in cache
        assert f"ENGINE_{switch['name'].upper()}:STRING={default}\n" in cache


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("ENGINE_CURSOR_DROP=wlk", "ENGINE_CURSOR_DROP=wlk: expected one of walk, compare"),
        ("ENGINE_HT_STATS=0", "expected one of single, llc, core, a whole number from 1 to 9999"),
        ("ENGINE_HT_STATS=10000", "ENGINE_HT_STATS=10000: expected one of single,"),
        ("ENGINE_HT_STATS=07", "ENGINE_HT_STATS=07: expected one of single,"),
        ("ENGINE_DCP_SNAPSHOT_YIELD=", "YIELD=: expected a whole number from 1 to 9999"),
        ("ENGINE_CURSORDROP=walk", "ENGINE_CURSORDROP: expected one of ENGINE_ALLOCATOR,"),
        ("ENGINE_CURSORDROP=walk", "(-UENGINE_CURSORDROP forgets it)"),
    ],
)
def test_what_the_table_lacks_is_refused(switches: Tree, setting: str, message: str) -> None:
    done = switches.configure(setting)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("setting", "name", "policy"),
    [
        ("ENGINE_CURSOR_DROP=walk", "cursor_drop", "WalkCursorDrop"),
        ("ENGINE_HT_STATS_PADDED=ON", "ht_stats_padded", "PaddedStripes"),
        ("ENGINE_HT_STATS_PADDED=off", "ht_stats_padded", "PackedStripes"),
        ("ENGINE_HT_STATS=12", "ht_stats", "FixedHtStats<12, SelectedHtStatsPadded::kPadded>"),
        ("ENGINE_DCP_SNAPSHOT_YIELD=9999", "dcp_snapshot_yield", "SnapshotYield<9999>"),
    ],
)
def test_a_value_selects_its_policy(switches: Tree, setting: str, name: str, policy: str) -> None:
    assert switches.configure(setting).returncode == 0
    assert switches.policy(name) == policy


def test_another_value_changes_only_what_sees_it(switches: Tree) -> None:
    assert switches.configure().returncode == 0
    before = {path: path.stat().st_mtime_ns for path in switches.selected("x").parent.iterdir()}
    assert switches.configure("ENGINE_INJECTED=stall").returncode == 0
    changed = {path.stem for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert changed == {"injected"}, "of a fault that items do not see"
    assert switches.configure("ENGINE_INJECTED=bytes16").returncode == 0
    assert switches.policy("injected_item") == "SixteenBytesMore"


def test_a_change_of_the_table_configures_again(tmp_path: Path, scratch: Path) -> None:
    tree = Tree(tmp_path, scratch, ONLY_SWITCHES)
    assert tree.configure("ENGINE_CURSOR_DROP=walk").returncode == 0
    text = (scratch / FILE).read_text()
    assert text.count('"policy": "WalkCursorDrop"') == 1
    (scratch / FILE).write_text(text.replace("WalkCursorDrop", "StrollCursorDrop"))
    tree.make()
    assert tree.policy("cursor_drop") == "StrollCursorDrop"


def test_every_value_names_a_policy_that_calls_itself_so(switches: Tree) -> None:
    """Also those that no build of the tests selects."""
    assert switches.configure().returncode == 0
    lines = ['#include "options/selected/switches.h"', '#include "options/injected_item.h"']
    for switch in document()["switches"]:
        policies = {value["value"]: value["policy"] for value in switch["values"]}
        if "number" in switch:
            number = switch["number"]
            policies |= {
                str(n): number["policy"].replace("NUMBER", str(n))
                for n in (number["least"], 10, number["most"])
            }
        lines += [
            f'static_assert({p}::kName == "{value}");' for value, p in sorted(policies.items())
        ]
        for part in switch.get("parts", []):
            names = [part["otherwise"], *(value["policy"] for value in part["values"])]
            lines += [f"static_assert(sizeof({name}) > 0);" for name in names]
    lines.insert(2, "namespace kv::options {")
    unit = switches.source / "policies.cc"
    unit.write_text("\n".join([*lines, "}", ""]))
    done = switches.run("c++", "-std=c++20", "-fsyntax-only", f"-I{ENGINE}",
                        f"-I{switches.build}/generated", str(unit))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(lines) > 35


@pytest.mark.long
@pytest.mark.slow
def test_a_sixth_experiment_needs_its_policies_and_an_entry(tmp_path: Path, scratch: Path) -> None:
    """The steps of docs/how-to/add-a-variant.md, with its own entry; the program is the switch's user."""
    page = (ROOT / "docs" / "how-to" / "add-a-variant.md").read_text(encoding="utf-8")
    (entry,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    table = document()
    table["switches"].append(json.loads(entry))
    (scratch / FILE).write_text(json.dumps(table, indent=2))
    (scratch / "options" / "pager.h").write_text(PAGER_H)
    before, after = contents(ENGINE), contents(scratch)
    assert {name for name in after if after[name] != before.get(name)} == {FILE, "options/pager.h"}
    assert before.keys() <= after.keys()

    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    spec = load_spec(path, switches=SwitchTables(scratch))
    tree = Tree(tmp_path, scratch, PROGRAM, **{"main.cc": MAIN})
    for variant in spec.variants.values():
        settings = request_of(variant, scratch).options
        assert settings["ENGINE_PAGER"] == variant.name
        done = tree.configure(*(f"{name}={value}" for name, value in settings.items()))
        assert done.returncode == 0, done.stderr
        tree.make()
        lines = tree.run(str(tree.build / "read_back")).stdout.splitlines()
        config = dict(line.split(" ", 1) for line in lines)
        assert config["user"] == variant.name
        read = check_readback(variant, {}, {"allocator": {"name": "system"}, "config": config})
        assert read["options.pager"] == variant.name

    messages = with_switches(f"{BEGIN}\n{END}", table_of(scratch))
    assert (
        "| `pager` | how the pager chooses what to evict | `scan`: every item in turn" in messages
    )
