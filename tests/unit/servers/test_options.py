"""What preloaded allocators print about their options."""

from __future__ import annotations

import pytest

from perfrunner.servers.preload import asking, how_to_install, read_back
from perfrunner.spec.allocator import AllocatorSpec

MIMALLOC = """\
mimalloc: option 'large_os_pages': 1
mimalloc: warning: environment option "mimalloc_reset_delay" is deprecated -- use "mimalloc_decommit_delay" instead.
mimalloc: option 'decommit_delay': 77
mimalloc: option 'reserve_os_memory': 1048576
"""


def preloaded(preload: str, **options: object) -> AllocatorSpec:
    return AllocatorSpec.model_validate({"preload": preload, "options": options})


@pytest.mark.parametrize("size", ["1GiB", "1g", "1048576K", 1 << 30, (1 << 30) - 1023])
def test_mimalloc_prints_all_of_them(size: object):
    asked = preloaded("mimalloc", large_os_pages="yes", reset_delay=77, reserve_os_memory=size)
    assert asking(asked) == {"MIMALLOC_VERBOSE": "1"}
    assert read_back(asked, {}, MIMALLOC) == {
        "env.MIMALLOC_LARGE_OS_PAGES": "1",
        "env.MIMALLOC_RESET_DELAY": "77",
        "env.MIMALLOC_RESERVE_OS_MEMORY": "1048576",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"large_os_page": 1}, "this mimalloc has no option large_os_page; it has large_os_pages"),
        ({"large_os_pages": 0}, "mimalloc has large_os_pages 1, not 0"),
        ({"reset_delay": "abc"}, "mimalloc has reset_delay 77, not abc"),
        ({"reset_delay": "10x"}, "mimalloc has reset_delay 77, not 10x"),
        ({"reserve_os_memory": "2GiB"}, "mimalloc has reserve_os_memory 1048576, not 2GiB"),
        ({"reserve_os_memory": (1 << 30) + 1}, "mimalloc has reserve_os_memory 1048576, not 1073"),
        ({"reset_delay": "1.5"}, "mimalloc has reset_delay 77, not 1.5"),
    ],
)
def test_what_mimalloc_does_not_take(options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        read_back(preloaded("mimalloc", **options), {}, MIMALLOC)


def test_a_value_that_mimalloc_itself_calls_invalid():
    """Among them are sizes, which not all options take."""
    printed = (
        "mimalloc: warning: environment option mimalloc_decommit_delay has an invalid value.\n"
    )
    with pytest.raises(ValueError, match="mimalloc does not take the value of decommit_delay"):
        read_back(preloaded("mimalloc", reset_delay="4k"), {}, MIMALLOC + printed)


def test_variables_of_mimalloc_are_compared_as_its_options():
    """`ab` has no other place for them."""
    preload = preloaded("mimalloc")
    assert read_back(preload, {"MIMALLOC_LARGE_OS_PAGES": "on", "A": "b"}, MIMALLOC) == {
        "env.MIMALLOC_LARGE_OS_PAGES": "1"
    }
    with pytest.raises(ValueError, match="this mimalloc has no option large_os_pagez"):
        read_back(preload, {"MIMALLOC_LARGE_OS_PAGEZ": "1"}, MIMALLOC)
    with pytest.raises(ValueError, match="mimalloc has large_os_pages 1, not 0"):
        read_back(preload, {"MIMALLOC_LARGE_OS_PAGES": "0"}, MIMALLOC)
    glibc = read_back(preloaded("glibc"), {"MIMALLOC_LARGE_OS_PAGES": "0"}, MIMALLOC)
    assert "not checked" in glibc["env.MIMALLOC_LARGE_OS_PAGES"], "of a mimalloc that is linked"


def test_a_server_that_hides_the_output_is_not_checked():
    settings = read_back(preloaded("mimalloc", large_os_pages=1), {}, "")
    assert "not checked" in settings["env.MIMALLOC_LARGE_OS_PAGES"]


def test_jemalloc_prints_those_that_it_refuses():
    asked = preloaded("jemalloc", narenass=1)
    assert asking(asked) == {}
    with pytest.raises(ValueError, match="jemalloc does not take narenass:1"):
        read_back(asked, {}, "<jemalloc>: Invalid conf pair: narenass:1\n")
    assert "not checked" in read_back(asked, {}, "ready\n")["env.MALLOC_CONF"]
    with pytest.raises(ValueError, match="jemalloc does not take narenas:0"):
        read_back(asked, {}, "<jemalloc>: Out-of-range conf value: narenas:0\n")
    with pytest.raises(ValueError, match="jemalloc does not take slab_sizes:1-2"):
        read_back(asked, {}, "<jemalloc>: Invalid settings for slab_sizes: slab_sizes:1-2\n")


def test_an_allocator_that_perfrunner_builds_has_the_options_of_its_family():
    assert preloaded("jemalloc-5.3.1", narenas=1).preload_environment == {
        "_RJEM_MALLOC_CONF": "narenas:1"
    }
    newer = preloaded("mimalloc-3.3.2", purge_delay=5)
    assert asking(newer) == {"MIMALLOC_VERBOSE": "1"}
    # mimalloc 3 names itself on some lines only.
    printed = "mimalloc: process init: 0x7F\noption 'purge_delay': 5 \n"
    assert read_back(newer, {}, printed) == {"env.MIMALLOC_PURGE_DELAY": "5"}
    with pytest.raises(ValueError, match="expected no options for snmalloc"):
        preloaded("snmalloc-0.7.6", any=1)


@pytest.mark.parametrize(
    ("preload", "hint"),
    [
        ("snmalloc", "preload snmalloc-0.7.6, which perfrunner builds, or name the library's path"),
        (
            "mimalloc",
            "apt-get install libmimalloc2.0 or libmimalloc3, or preload mimalloc-3.3.2, which perfrunner builds,"
            " or name the library's path",
        ),
        ("tcmalloc", "apt-get install libtcmalloc-minimal4, or name the library's path"),
    ],
)
def test_an_allocator_that_is_not_installed(preload: str, hint: str):
    assert how_to_install(preload) == hint


def test_tcmalloc_prints_none():
    settings = read_back(preloaded("tcmalloc", aggressive_decommit=1), {}, "ready\n")
    assert "not checked" in settings["env.TCMALLOC_AGGRESSIVE_DECOMMIT"]


def test_variables_of_the_allocator_that_a_server_is_linked_with():
    linked = AllocatorSpec(name="system")
    env = {"MALLOC_CONF": "narenas:1", "GLIBC_TUNABLES": "glibc.malloc.arena_max=1", "A": "b"}
    settings = read_back(linked, env, "ready\n")
    assert settings.keys() == {"env.MALLOC_CONF", "env.GLIBC_TUNABLES"}
    assert all("not checked" in value for value in settings.values())
    with pytest.raises(ValueError, match="jemalloc does not take narenas:1"):
        read_back(linked, env, "<jemalloc>: Invalid conf pair: narenas:1\n")
    assert read_back(linked, {}, "<jemalloc>: Invalid conf pair: of another process\n") == {}
