"""Do the engine's answers say what the variant asked for?

Pure: a variant and two STAT groups in, the settings that agree or a ProofError out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfrunner.errors import ProofError
from perfrunner.spec.allocator import SYSTEM
from perfrunner.spec.proof import ALLOCATOR, OPTIONS, PARAMS
from perfrunner.spec.switches import stat_key
from perfrunner.spec.unproved import not_proved
from perfrunner.spec.variant import Variant

Stats = Mapping[str, Mapping[str, str]]

_TRUE, _FALSE = ("true", "on", "yes"), ("false", "off", "no")
_COMPLAINT = re.compile(r"<jemalloc>:.*\b(conf|option)", re.IGNORECASE)
_NO_VERSION = "0.0.0"  # what the crates of 4.5.0 and 5.0.1 say: they lack jemalloc's VERSION file


@dataclass(frozen=True)
class Setting:
    """One thing asked: `key` of STAT `group` must read `expected`. `name` is how the spec calls it."""

    name: str
    group: str
    key: str
    expected: str
    remedy: str


def settings_of(variant: Variant, params: Mapping[str, str]) -> list[Setting]:
    """Everything that a variant asks for and the engine can read back."""
    allocator = variant.allocator.name
    rebuild = _remedy(variant)
    wanted = [Setting("allocator.name", "allocator", "name", allocator, rebuild)]
    wanted += [
        Setting(
            f"allocator.options.{key}",
            "allocator",
            f"opt.{key}",
            value,
            f"{allocator} may not know {key}, or not this value: see the options of that version",
        )
        for key, value in variant.allocator.all_options.items()
    ]
    wanted += [
        Setting(f"options.{name}", "config", stat_key(name), value, rebuild)
        for name, value in variant.options.items()
    ]
    wanted += [
        Setting(f"params.{name}", "config", name, value, "see `kv_engine --help` for its range")
        for name, value in params.items()
    ]
    return wanted


def _remedy(variant: Variant) -> str:
    """What to do about a build that lacks a setting: another revision may never have had it."""
    if variant.source is not None:
        return (
            f"the engine of {variant.source.text} may not know this setting, or not say it the way today's does:"
            " leave it out, compare with the perfrunner of its time, or name it in the variant's proof.skip"
        )
    return "the build cache holds something else: `perfrunner clean --builds`, then build again"


def check_readback(variant: Variant, params: Mapping[str, str], stats: Stats) -> dict[str, str]:
    """By setting, what was read back. ProofError at the first that is not as asked and not skipped.

    One that is skipped and not as asked is kept as not proved (spec.unproved).
    """
    read: dict[str, str] = {}
    for setting in settings_of(variant, params):
        found = stats.get(setting.group, {}).get(setting.key)
        agrees = found is not None and same_value(setting.expected, found)
        if not agrees and variant.skips(setting.name):
            read[setting.name] = not_proved(setting.expected, found)
            continue
        if found is None:
            raise ProofError(
                f"variant {variant.name}: {setting.name} = {setting.expected} cannot be read back:"
                f" STAT {setting.group} has no {setting.key}",
                hint=setting.remedy,
            )
        if not agrees:
            raise ProofError(
                f"variant {variant.name}: {setting.name}: asked for {setting.expected},"
                f" the engine has {found}",
                hint=setting.remedy,
            )
        read[setting.name] = found
    return {**read, **_check_version(variant, stats)}


def groups_asked(variant: Variant) -> tuple[str, ...]:
    """The STAT groups that the engine is asked for. One of which nothing is to be proved, it may not have."""
    kinds = {"allocator": (ALLOCATOR,), "config": (OPTIONS, PARAMS)}
    return tuple(g for g, its in kinds.items() if not all(variant.skips(kind) for kind in its))


def check_complaints(variant: Variant, log: str) -> None:
    """The allocator ignores what it does not understand, but says so on standard error."""
    for line in log.splitlines():
        if _COMPLAINT.search(line):
            raise ProofError(
                f"variant {variant.name}: {variant.allocator.name} rejects its options"
                f" ({variant.allocator.option_string or 'none in the spec'}): {line.strip()}",
                hint="correct allocator.options: not every version knows every option",
            )


def same_value(expected: str, found: str) -> bool:
    """Equal as text, as truth values or as numbers."""
    a, b = expected.strip().lower(), found.strip().lower()
    if a == b:
        return True
    for words in (_TRUE, _FALSE):
        if a in words:
            return b in words or b == ("1" if words is _TRUE else "0")
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def _check_version(variant: Variant, stats: Stats) -> dict[str, str]:
    """Nothing, or that it is not proved: the allocator's name has it already where it is."""
    family, _, version = variant.allocator.name.partition("-")
    found = stats.get("allocator", {}).get("version")
    told = found or ""
    if variant.allocator.name == SYSTEM or told.startswith((f"{version}-", _NO_VERSION)):
        return {}
    if told == version:
        return {}
    if variant.skips("allocator.version"):
        return {"allocator.version": not_proved(version, found)}
    raise ProofError(
        f"variant {variant.name}: asked for {family} {version}, the allocator says that it is"
        f" {told or 'of no version'}",
        hint=_remedy(variant),
    )
