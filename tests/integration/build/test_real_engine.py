"""The settings check against the real kv_engine and kvctl: what was built is checked, what was not is refused."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfrunner.build.layout import relink
from perfrunner.build.ninja import build_commands, parse_commands
from perfrunner.build.settings_check import check
from perfrunner.build.tools import build_environment, find_toolchain
from perfrunner.errors import SettingsCheckError
from perfrunner.hosts import Host, open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.model import EngineSpec
from tests.support.built import build_defaults, built
from tests.support.tiny_engine import variant

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
ENGINE = EngineSpec(vbuckets=16, quota_mb=64)


@pytest.fixture(scope="module")
def artifact() -> str:
    """A build of the defaults with the system's allocator (scripts/test makes it)."""
    return str(built("kv_engine", "kvctl"))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as opened:
        yield opened
        assert opened.processes() == []


def test_the_defaults_are_checked(host: Host, artifact: str) -> None:
    chosen = variant(options={"cursor_drop": "compare"}, params={"ht_size": "97"})
    settings_check = check(host, artifact, chosen, ENGINE)
    assert settings_check.settings == {
        "allocator.name": "system",
        "options.cursor_drop": "compare",
        "params.ht_size": "97",
    }
    assert settings_check.stats["allocator"]["version"].startswith("glibc")
    assert settings_check.stats["config"]["vbuckets"] == "16"


def test_another_allocator_is_refused(host: Host, artifact: str) -> None:
    with pytest.raises(
        SettingsCheckError, match=r"asked for jemalloc-5\.1\.0, the engine has system"
    ):
        check(host, artifact, variant("jemalloc-5.1.0"), ENGINE)


def test_another_switch_is_refused(host: Host, artifact: str) -> None:
    chosen = variant(name="walk", options={"cursor_drop": "walk"})
    with pytest.raises(
        SettingsCheckError,
        match=r"variant walk: options\.cursor_drop: asked for walk, the engine has compare",
    ):
        check(host, artifact, chosen, ENGINE)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"no_such": "1"}, "unknown parameter 'no_such'"),
        ({"ht_size": "99999999999999999"}, "ht_size"),
    ],
)
def test_a_parameter_that_the_engine_refuses(
    host: Host, artifact: str, params: dict[str, str], message: str
) -> None:
    with pytest.raises(
        SettingsCheckError, match=rf"does not start on local \(exit 2\): .*{message}"
    ):
        check(host, artifact, variant(params=params), ENGINE)


@pytest.mark.slow
def test_the_same_engine_in_other_orders(host: Host) -> None:
    """Linked again, the functions lie elsewhere, and the engine is the same."""
    first = build_defaults()
    variants = [first, *(relink(first, seed) for seed in (1, 2))]
    orders = [_functions(chosen.path / "bin" / "kv_engine") for chosen in variants]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert sum(name.startswith("_ZN2kv") for name in orders[0]) > 500
    hot = [[name for name in order if not name.endswith(".cold")] for order in orders]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        in_place = sum(x == y for x, y in zip(hot[a], hot[b], strict=True))
        assert in_place < len(hot[0]) / 10, "hardly a function stands where it stood"
    cold = [[name for name in order if name.endswith(".cold")] for order in orders]
    assert cold[0], "the engine has cold code"
    assert cold[0] == cold[1] == cold[2], "which stays in its order"

    settings_checks = [check(host, str(chosen.path), variant(), ENGINE) for chosen in variants]
    assert settings_checks[0].settings == settings_checks[1].settings == settings_checks[2].settings
    configs = [settings_check.stats["config"] for settings_check in settings_checks]
    assert configs[0] == configs[1] == configs[2]
    assert configs[0]["build.ht_stats"] == "core"


def _functions(program: Path) -> list[str]:
    """The names of its functions by address."""
    nm = subprocess.check_output(["nm", "-n", program], text=True)
    return [line.split()[2] for line in nm.splitlines() if line.split()[-2] in {"t", "T", "W"}]


@pytest.mark.long
@pytest.mark.parametrize(
    ("programs", "rooms"),
    [
        (["kv_engine"], {"load", "benchmarks", "slices"}),
        (["append", "consistency_checker", "kvctl", "pillowfight"],
         {"server", "bucket", "dcp", "checkpoint", "persistence", "benchmarks", "slices"}),
        (["hash_table_bench", "kv_engine"], {"load"}),
    ],
)  # fmt: skip
def test_a_part_of_the_programs_takes_a_part_of_the_rooms(
    programs: list[str], rooms: set[str], tmp_path: Path
) -> None:
    """`rooms`: of which nothing is compiled then."""
    env = build_environment()
    tools = find_toolchain(env)
    settings = {"KV_TESTS": "OFF", "KV_PROGRAMS": ";".join(programs)}
    asked = [f"-D{name}={value}" for name, value in settings.items()]
    argv = [tools.cmake, "-S", ROOT / "engine_src", "-B", tmp_path, "-G", "Ninja", *asked]
    subprocess.run(argv, env=env, check=True, capture_output=True)
    commands = build_commands(tmp_path, tools.ninja, env)
    compiled = {name.split("/")[0] for name in re.findall(r" -o (\S+\.o) ", commands)}
    assert compiled
    assert not compiled & rooms
    assert sorted(parse_commands(commands)) == programs
