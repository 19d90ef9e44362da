"""What glibc would ignore without a word is an error of the spec."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from perfrunner.spec.allocator import AllocatorSpec, asked_tunables
from perfrunner.spec.variant import Variant


def variant(**env: str) -> Variant:
    return Variant(name="a", allocator=AllocatorSpec(name="system"), env=env)


@pytest.mark.parametrize(
    ("env", "output"),
    [
        (
            {"GLIBC_TUNABLES": "glibc.malloc.arenamax=1"},
            r"unknown tunable glibc\.malloc\.arenamax \(did you mean glibc\.malloc\.arena_max\?\)",
        ),
        (
            {"MALLOC_ARENAMAX": "1"},
            r"unknown variable of glibc's malloc \(did you mean MALLOC_ARENA_MAX\?\)",
        ),
        ({"GLIBC_TUNABLES": "glibc.malloc.check"}, "expected name=value:name=value"),
        ({"GLIBC_TUNABLES": "malloc.check=1"}, r"names that begin with glibc\."),
    ],
)
def test_what_glibc_would_ignore(env: dict[str, str], output: str) -> None:
    with pytest.raises(ValidationError, match=output):
        variant(**env)


def test_what_is_asked_by_either_name() -> None:
    env = {
        "MALLOC_ARENA_MAX": "2",
        "MALLOC_TOP_PAD_": "8192",
        "GLIBC_TUNABLES": "glibc.malloc.arena_max=3:glibc.pthread.rseq=0",
    }
    assert asked_tunables(variant(**env).env) == {
        "glibc.malloc.arena_max": "3",
        "glibc.malloc.top_pad": "8192",
        "glibc.pthread.rseq": "0",
    }
