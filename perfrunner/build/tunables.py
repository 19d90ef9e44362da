"""glibc's tunables, proved: what GLIBC_TUNABLES and malloc's older variables ask for, against what the loader took.

glibc ignores an unknown name or a value out of range without a word. The loader that started the engine prints the
values that it took from the same environment: `ld.so --list-tunables` (glibc 2.33 and later).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfrunner.errors import ProofError
from perfrunner.spec.suggest import did_you_mean
from perfrunner.spec.tunables import TUNABLES, asked_tunables
from perfrunner.spec.variant import Variant

LIST = "--list-tunables"
_LINE = re.compile(r"(glibc\.[\w.]+): *(\S*)(?: +\(.*\))?")
_LOADER = re.compile(r"(/\S*/ld(?:-linux)?[-.\w]*\.so\.\d+)$", re.MULTILINE)


def loader_of(maps: str) -> str | None:
    """The dynamic loader in the text of /proc/PID/maps; None for a static program."""
    found = _LOADER.search(maps)
    return found[1] if found else None


def check_tunables(variant: Variant, listing: str) -> dict[str, str]:
    """By tunable asked for, its value in `listing`. ProofError at the first that is not as asked."""
    lines = map(_LINE.fullmatch, listing.splitlines())
    taken = {match[1]: match[2] for match in lines if match}
    read: dict[str, str] = {}
    for name, asked in asked_tunables(variant.env).items():
        if name not in taken:
            raise ProofError(
                f"variant {variant.name}: env.{TUNABLES}: this host's glibc has no tunable"
                f" {name}{did_you_mean(name, taken)}",
                hint=f"the names are those of `ld.so {LIST}` there",
            )
        if _number(asked) != _number(taken[name]):
            raise ProofError(
                f"variant {variant.name}: env.{TUNABLES}: {name}: asked for {asked}, glibc has"
                f" {taken[name] or 'nothing'}",
                hint=f"see its range in `ld.so {LIST}`",
            )
        read[f"env.{name}"] = taken[name]
    return read


def wants_tunables(env: Mapping[str, str]) -> bool:
    """Whether there is anything to prove."""
    return bool(asked_tunables(env))


def _number(text: str) -> int | str:
    """As glibc reads numbers (strtoul, base 0); other text as it is."""
    try:
        return int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text, 0)
    except ValueError:
        return text
