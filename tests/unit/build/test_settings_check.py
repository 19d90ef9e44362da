"""The settings check against programs that play engine and kvctl: start, questions, stop and failures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from perfrunner.build import settings_check
from perfrunner.build.settings_check import check, check_tunables
from perfrunner.domain import unchecked
from perfrunner.errors import SettingsCheckError
from perfrunner.hosts import Host, open_host
from perfrunner.spec.cluster import HostSpec
from perfrunner.spec.model import EngineSpec
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.variant import SettingsCheckSpec, Variant
from tests.support.tiny_engine import variant

ENGINE = """#!{python}
import json, os, signal, sys, time
arguments = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:])
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/started.json", "w") as out:
    json.dump([sys.argv[1:], dict(os.environ)], out)
{extra}
signal.signal(signal.SIGTERM, lambda *a: sys.exit({stop}))
with open(arguments["port-file"], "w") as out:
    out.write("4711\\n")
while True:
    time.sleep(0.05)
"""
KVCTL = """#!/bin/sh
echo "$*" >"$(dirname "$0")/asked"
cat "$(dirname "$0")/answer"
exit {status}
"""
ANSWER = {
    "allocator": {"name": "jemalloc-5.1.0", "version": "5.1.0-0-gx", "opt.metadata_thp": "always"},
    "config": {"build.ht_stats": "llc", "ht_size": "47", "threads": "2"},
}
VARIANT = variant(
    "jemalloc-5.1.0",
    name="thp",
    allocator_options={"metadata_thp": "always"},
    options={"ht_stats": "llc"},
    params={"ht_size": "47"},
    env={"EXTRA": "a b"},
)


@pytest.fixture
def host(tmp_path: Path):
    with open_host(HostSpec(work_dir=str(tmp_path / "work")), "local", run_id="r") as opened:
        yield opened
        assert opened.processes() == [], "the settings check leaves no process"
        assert not (tmp_path / "work" / "settings_check").exists(), "nor files"


def play(
    tmp_path: Path, answer: object = ANSWER, extra: str = "", stop: int = 0, status: int = 0
) -> str:
    bin_dir = tmp_path / "artifact" / "bin"
    bin_dir.mkdir(parents=True)
    for name, text in (
        ("kv_engine", ENGINE.format(python=sys.executable, extra=extra, stop=stop)),
        ("kvctl", KVCTL.format(status=status)),
    ):
        (bin_dir / name).write_text(text)
        (bin_dir / name).chmod(0o755)
    (bin_dir / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    return str(tmp_path / "artifact")


def test_a_variant_is_checked(host: Host, tmp_path: Path) -> None:
    path = play(tmp_path)
    result = check(host, path, VARIANT, EngineSpec(threads=3, vbuckets=64))
    assert result.settings == {
        "allocator.name": "jemalloc-5.1.0",
        "allocator.options.metadata_thp": "always",
        "options.ht_stats": "llc",
        "params.ht_size": "47",
    }
    assert result.stats == ANSWER
    arguments, environment = json.loads((tmp_path / "artifact/bin/started.json").read_text())
    assert {"--host=127.0.0.1", "--port=0", "--threads=3", "--vbuckets=64"} <= set(arguments)
    assert {"--bucket-type=ephemeral", "--param=ht_size=47"} <= set(arguments)
    assert environment["_RJEM_MALLOC_CONF"] == "metadata_thp:always"
    assert environment["EXTRA"] == "a b"
    asked = (tmp_path / "artifact/bin/asked").read_text().strip()
    assert asked == "--host=127.0.0.1 --port=4711 stat allocator config"


def test_the_specs_params_are_asked_too(host: Host, tmp_path: Path) -> None:
    with pytest.raises(
        SettingsCheckError, match=r"variant thp: params\.shard_size = 9 cannot be read back"
    ):
        check(host, play(tmp_path), VARIANT, EngineSpec(), params={"shard_size": "9"})


def test_a_setting_that_reads_back_otherwise(host: Host, tmp_path: Path) -> None:
    answer = {**ANSWER, "config": {"build.ht_stats": "core", "ht_size": "47"}}
    with pytest.raises(
        SettingsCheckError, match=r"variant thp: options\.ht_stats: asked for llc, .* has core"
    ):
        check(host, play(tmp_path, answer), VARIANT, EngineSpec())


def test_an_option_that_the_allocator_rejects(host: Host, tmp_path: Path) -> None:
    """It reads back as asked, and yet the allocator complained."""
    extra = (
        "print('<jemalloc>: Invalid conf pair: metadata_thp:always', file=sys.stderr, flush=True)"
    )
    with pytest.raises(
        SettingsCheckError, match=r"rejects its options .metadata_thp:always.: <jemalloc>"
    ):
        check(host, play(tmp_path, extra=extra), VARIANT, EngineSpec())


def test_an_engine_that_refuses_its_arguments(host: Host, tmp_path: Path) -> None:
    extra = (
        "print('unknown parameter ht_sise; did you mean ht_size?', file=sys.stderr); sys.exit(2)"
    )
    with pytest.raises(
        SettingsCheckError,
        match=r"the engine does not start on local \(exit 2\): unknown parameter ht_sise",
    ):
        check(host, play(tmp_path, extra=extra), VARIANT, EngineSpec())


def test_an_old_engine_is_not_asked_for_what_it_need_not_check(host: Host, tmp_path: Path) -> None:
    old = VARIANT.model_copy(update={"source": SourceSpec(git="v0.9")})
    path = play(tmp_path, "unknown group: config", status=1)
    with pytest.raises(SettingsCheckError, match=r"unknown group: config") as refused:
        check(host, path, old, EngineSpec())
    assert "engine of v0.9 may not have STAT allocator and config" in str(refused.value.hint)
    assert "settings_check.skip" in str(refused.value.hint)

    (tmp_path / "artifact/bin/asked").unlink()
    skip = SettingsCheckSpec(skip=("allocator", "options", "params"))
    checked = check(host, path, old.model_copy(update={"settings_check": skip}), EngineSpec())
    assert unchecked(checked.settings) == {
        name: f"asked for {value}, not reported"
        for name, value in {
            "allocator.name": "jemalloc-5.1.0",
            "allocator.options.metadata_thp": "always",
            "allocator.version": "5.1.0",
            "options.ht_stats": "llc",
            "params.ht_size": "47",
        }.items()
    }
    assert not (tmp_path / "artifact/bin/asked").exists()


def test_the_environment_is_checked_whatever_is_skipped(host: Host, tmp_path: Path) -> None:
    skip = SettingsCheckSpec(skip=("allocator", "options", "params"))
    env = {"GLIBC_TUNABLES": "glibc.malloc.arenamax=1"}
    variant = glibc().model_copy(update={"env": env, "settings_check": skip})
    with pytest.raises(SettingsCheckError, match=r"has no tunable glibc\.malloc\.arenamax"):
        check(host, play(tmp_path, GLIBC), variant, EngineSpec())


def test_an_old_engine_that_refuses_todays_flags(host: Host, tmp_path: Path) -> None:
    old = VARIANT.model_copy(update={"source": SourceSpec(git="v0.9")})
    extra = "print('unknown option --shards', file=sys.stderr); sys.exit(2)"
    with pytest.raises(SettingsCheckError, match="unknown option --shards") as caught:
        check(host, play(tmp_path, extra=extra), old, EngineSpec())
    assert "the engine of v0.9 may lack a flag" in str(caught.value.hint)


def test_an_engine_that_crashes(host: Host, tmp_path: Path) -> None:
    with pytest.raises(SettingsCheckError, match=r"does not start on local \(killed by SIGSEGV\)"):
        check(host, play(tmp_path, extra="os.kill(os.getpid(), 11)"), VARIANT, EngineSpec())


def test_an_engine_that_is_never_ready(host: Host, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(settings_check, "READY_TIMEOUT_S", 0.3)
    extra = "print('warming', file=sys.stderr, flush=True); time.sleep(60)"
    with pytest.raises(SettingsCheckError, match=r"not ready within 0\.3 s: warming"):
        check(host, play(tmp_path, extra=extra), VARIANT, EngineSpec())


def test_an_engine_that_stops_badly(host: Host, tmp_path: Path) -> None:
    with pytest.raises(SettingsCheckError, match=r"did not stop cleanly \(exit 6\)"):
        check(host, play(tmp_path, stop=6), VARIANT, EngineSpec())


@pytest.mark.parametrize(
    "answer", ["", "no json", "[]", '{"allocator": {}}', '{"allocator": 1, "config": 2}']
)
def test_answers_that_are_none(host: Host, tmp_path: Path, answer: str) -> None:
    with pytest.raises(
        SettingsCheckError, match="kvctl stat ended with status 0: no JSON of allocator and config"
    ):
        check(host, play(tmp_path, answer), VARIANT, EngineSpec())


def test_a_kvctl_that_fails(host: Host, tmp_path: Path) -> None:
    with pytest.raises(SettingsCheckError, match="kvctl stat ended with status 1: cannot connect"):
        check(host, play(tmp_path, "cannot connect", status=1), VARIANT, EngineSpec())


def test_no_such_artifact(host: Host, tmp_path: Path) -> None:
    with pytest.raises(
        SettingsCheckError, match=r"does not start on local \(exit 127\): .*No such file"
    ):
        check(host, str(tmp_path / "absent"), VARIANT, EngineSpec())


FOREIGN = {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.arena_max=1", "TMPDIR": "/x"}


def test_the_callers_environment_does_not_reach_the_engine(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    check(host, play(tmp_path), VARIANT, EngineSpec())
    environment = json.loads((tmp_path / "artifact/bin/started.json").read_text())[1]
    assert not FOREIGN.keys() & environment.keys()


GLIBC = {**ANSWER, "allocator": {"name": "system", "version": "glibc"}}


def glibc(**env: str):
    return variant("system", name="glibc", env=env)


@pytest.mark.parametrize(
    ("env", "read"),
    [
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=3"}, {"env.glibc.malloc.arena_max": "0x3"}),
        ({"MALLOC_ARENA_MAX": "2"}, {"env.glibc.malloc.arena_max": "0x2"}),
        ({"GLIBC_TUNABLES": ""}, {}),
    ],
)
def test_tunables_are_read_back(
    host: Host, tmp_path: Path, env: dict[str, str], read: dict[str, str]
) -> None:
    results = check(host, play(tmp_path, GLIBC), glibc(**env), EngineSpec()).settings
    assert {key: value for key, value in results.items() if key.startswith("env.")} == read


@pytest.mark.parametrize(
    ("tunables", "output"),
    [
        (
            "glibc.malloc.arenamax=1",
            r"has no tunable glibc\.malloc\.arenamax.*glibc\.malloc\.arena_max",
        ),
        ("glibc.malloc.check=99", r"glibc\.malloc\.check: asked for 99, glibc has 0"),
        ("glibc.malloc.check=3", r"glibc\.malloc\.check has no effect since glibc 2\.34"),
        ("glibc.pthread.rseq=many", r"glibc\.pthread\.rseq: asked for many, glibc has"),
    ],
)
def test_a_tunable_that_glibc_ignores(
    host: Host, tmp_path: Path, tunables: str, output: str
) -> None:
    variant = glibc().model_copy(update={"env": {"GLIBC_TUNABLES": tunables}})
    with pytest.raises(SettingsCheckError, match=output):
        check(host, play(tmp_path, GLIBC), variant, EngineSpec())


def test_malloc_check_is_for_the_library_that_has_it() -> None:
    env = {"MALLOC_CHECK_": "3"}
    listing = "glibc.malloc.check: 3 (min: 0, max: 3)\n"
    library = {"preload": "/lib/x86_64-linux-gnu/libc_malloc_debug.so.0"}
    server = {"name": "a", "server": {"command": ["/bin/x", "{port}"]}, "env": env}
    debugged = Variant.model_validate({**server, "allocator": library})
    assert check_tunables(debugged, listing) == {"env.glibc.malloc.check": "3"}
    with pytest.raises(SettingsCheckError, match="unless libc_malloc_debug"):
        check_tunables(Variant.model_validate(server), listing)
    off = Variant.model_validate({**server, "env": {"MALLOC_CHECK_": "0"}})
    assert check_tunables(off, "glibc.malloc.check: 0 (min: 0, max: 3)\n")


def test_the_hosts_own_allocator_settings_do_not_leak_in(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "narenas:1")
    plain = variant("jemalloc-5.1.0")
    check(host, play(tmp_path), plain, EngineSpec())
    environment = json.loads((tmp_path / "artifact/bin/started.json").read_text())[1]
    assert environment["_RJEM_MALLOC_CONF"] == ""
