"""Allocators that are preloaded into real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.servers.conftest import ServerLab, library, memcached, script, settings_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_preloaded_library_is_found_in_the_process(servers: ServerLab, tmp_path: Path):
    empty = library(tmp_path / "libempty.so", "int perfrunner_nothing;\n")
    variants = {"plain": memcached(), "preloaded": {**memcached(), "allocator": {"preload": empty}}}
    servers.write(variants)
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert settings_of(driver, "preloaded")["allocator.preload"] == empty
    warned = [event["message"] for event in driver.of("Warned")]
    assert f"preloaded: {empty} defines no malloc: the server keeps its own allocator" in warned
    builds = {build.variant: build.build_id for build in servers.data().builds}
    assert builds["plain"] != builds["preloaded"]


def test_a_preload_that_the_loader_ignores_fails_the_run(servers: ServerLab, tmp_path: Path):
    """A wrapper that drops the variable stands for a program that ignores it."""
    real = memcached()["server"]["command"][0]
    empty = library(tmp_path / "libempty.so", "int perfrunner_nothing;\n")
    wrapper = script(
        tmp_path / "memcached",
        f"import os, sys\nos.execve({real!r}, [{real!r}, *sys.argv[1:]], {{}})\n",
    )
    servers.write(
        {
            "one": memcached(),
            "two": {
                "server": {"command": [wrapper, "-p", "{port}"]},
                "allocator": {"preload": empty},
            },
        }
    )
    code, driver = servers.measure()
    assert code == 3
    assert "runs without the preloaded" in driver.stderr()


@pytest.mark.parametrize(
    ("preloads", "other"),
    [("{other} {own}", "preloads {other} first"), (None, "does not preload")],
    ids=["behind another", "only linked"],
)
def test_a_mapped_library_that_is_not_preloaded_first_fails_the_run(
    servers: ServerLab, tmp_path: Path, preloads: str | None, other: str
):
    """The library is mapped in both cases; the second stands for a program that is linked with it."""
    real = memcached()["server"]["command"][0]
    libc = next(
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith("/libc.so.6")
    )
    names = {"other": library(tmp_path / "libempty.so", "int perfrunner_nothing;\n"), "own": libc}
    env = {} if preloads is None else {"LD_PRELOAD": preloads.format(**names)}
    wrapper = script(
        tmp_path / "memcached",
        f"import os, sys\nos.execve({real!r}, [{real!r}, *sys.argv[1:]], {env!r})\n",
    )
    two = {"server": {"command": [wrapper, "-p", "{port}"]}, "allocator": {"preload": "glibc"}}
    servers.write({"one": memcached(), "two": two})
    code, driver = servers.measure()
    assert (code, driver.of("TrialStarted")) == (3, [])
    assert other.format(**names) in driver.stderr()


def test_a_wrapper_of_a_server_with_an_allocator_of_its_own_is_refused(
    servers: ServerLab, tmp_path: Path
):
    """The library is loaded, but the server does not call it."""
    linked = tmp_path / "linked"
    real = Path(memcached()["server"]["command"][0])
    linked.write_bytes(real.read_bytes() + b"<jemalloc>: ")
    linked.chmod(0o755)
    text = f"import os, sys\nos.execv({str(linked)!r}, [{str(linked)!r}, *sys.argv[1:]])\n"
    wrapper = script(tmp_path / "memcached", text)
    two = {
        "server": {"command": [wrapper, "-p", "{port}"]},
        "allocator": {"preload": library(tmp_path / "libempty.so", "int perfrunner_nothing;\n")},
    }
    servers.write({"one": memcached(), "two": two})
    code, driver = servers.measure()
    assert (code, driver.of("TrialStarted")) == (3, [])
    message = "expected a program without an allocator of its own; jemalloc is linked into"
    assert f"variant two: allocator.preload: {message} {linked}" in driver.stderr()


@pytest.mark.long
def test_options_of_mimalloc_are_read_back(servers: ServerLab):
    allocator = {"preload": "mimalloc", "options": {"decommit_delay": 33}}
    servers.write({"plain": memcached(), "lazy": {**memcached(), "allocator": allocator}})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert settings_of(driver, "lazy")["env.MIMALLOC_DECOMMIT_DELAY"] == "33"
    allocator["options"] = {"decomit_delay": 33}
    servers.write({"plain": memcached(), "lazy": {**memcached(), "allocator": allocator}})
    code, driver = servers.measure()
    assert (code, driver.of("TrialStarted")) == (3, [])
    assert "this mimalloc has no option decomit_delay" in driver.stderr()


@pytest.mark.long
def test_pinned_allocators_are_built_and_preloaded(servers: ServerLab):
    """They are built once, and each server has the one that its variant names."""
    options = {
        "mimalloc-2.3.2": {"purge_delay": 33},
        "mimalloc-3.3.2": {"purge_delay": 44},
        "jemalloc-5.3.1": {"narenas": 1},
        "snmalloc-0.7.6": {},
    }
    variants = {
        name: {**memcached(), "allocator": {"preload": name, "options": chosen}}
        for name, chosen in options.items()
    }
    servers.write({"plain": memcached(), **variants})
    code, driver = servers.measure()
    assert code == 0, driver.stderr()
    assert {trial.status for trial in servers.data().trials} == {"ok"}
    settings = {name: settings_of(driver, name) for name in variants}
    assert settings["mimalloc-2.3.2"]["env.MIMALLOC_PURGE_DELAY"] == "33"
    assert settings["mimalloc-3.3.2"]["env.MIMALLOC_PURGE_DELAY"] == "44"
    assert "not checked" in settings["jemalloc-5.3.1"]["env._RJEM_MALLOC_CONF"]
    assert len({settings[name]["allocator.preload"] for name in variants}) == len(variants)
    variants["jemalloc-5.3.1"]["allocator"]["options"] = {"narenass": 1}
    servers.write({"plain": memcached(), **variants})
    code, driver = servers.measure()
    assert (code, driver.of("TrialStarted")) == (3, [])
    assert "jemalloc does not take narenass:1" in driver.stderr()
