"""The engine's build switches: names, values and defaults, as the engine's source has them in options/switches.json.

The table belongs to a source: another revision may have other switches. A source without one is of the time before it,
and is held against perfrunner's own; what it does not know all the same, the read-back finds. The names of the CMake
variable and of what is read back follow from the switch's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from perfrunner.bundled import bundled
from perfrunner.errors import UsageError
from perfrunner.spec.engine_tree import ENGINE_DIRECTORY, engine_in
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.suggest import did_you_mean, expected_name

FILE = "options/switches.json"  # in the engine's source
SCHEMA = 1
_BOOLEAN_WORDS = {"true": "on", "false": "off", "yes": "on", "no": "off", "ON": "on", "OFF": "off"}
_WORD = re.compile(r"[a-z0-9][a-z0-9_.-]*")

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")]


class Part(BaseModel):
    """A piece of the table. What only CMake needs (the policy types) is left to CMake."""

    model_config = ConfigDict(frozen=True, strict=True)


class Choice(Part):
    """One value of a switch."""

    value: str
    about: str = ""

    @field_validator("value")
    @classmethod
    def _is_told_from_a_truth_value(cls, value: str) -> str:
        if not _WORD.fullmatch(value) or value in _BOOLEAN_WORDS:
            raise ValueError(
                "expected a word of a-z, 0-9 and '_', '.', '-'; on or off, not true or false"
            )
        return value


class Numbers(Part):
    """Whole numbers that are values of a switch."""

    least: Annotated[int, Field(ge=1)]
    most: int
    about: str = ""

    def accepts(self, value: str) -> bool:
        """Whether it is such a number, written plainly."""
        plain = value.isascii() and value.isdigit() and not value.startswith("0")
        return plain and self.least <= int(value) <= self.most


class Switch(Part):
    """One switch. `no_gain` says why no spec guards a gain of it; empty where one does."""

    name: Name
    about: str
    no_gain: str = ""
    default: str
    choices: tuple[Choice, ...] = Field(alias="values")
    number: Numbers | None = None

    @model_validator(mode="after")
    def _has_its_default(self) -> Switch:
        if not self.choices and self.number is None:
            raise ValueError("expected values, or number")
        if len(set(self.values)) < len(self.values):
            raise ValueError("expected each value once")
        if not self.accepts(self.default):
            raise ValueError(f"expected a default among {self.meaning}; got {self.default}")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """Those that have a name."""
        return tuple(choice.value for choice in self.choices)

    @property
    def meaning(self) -> str:
        """The values, for an error message."""
        known = list(self.values)
        if self.number is not None:
            known.append(f"a whole number from {self.number.least} to {self.number.most}")
        return f"one of {', '.join(known)}" if len(known) > 1 else known[0]

    def accepts(self, value: str) -> bool:
        """Whether `value` is one of the switch's values."""
        return value in self.values or (self.number is not None and self.number.accepts(value))


class _Table(Part):
    version: Annotated[int, Field(alias="schema", ge=SCHEMA, le=SCHEMA)]
    switches: tuple[Switch, ...]

    @field_validator("switches")
    @classmethod
    def _each_once(cls, switches: tuple[Switch, ...]) -> tuple[Switch, ...]:
        names = [switch.name for switch in switches]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"expected each switch once; got {name} {names.count(name)} times")
        return switches


Table: TypeAlias = Mapping[str, Switch]
# By a variant's name and source, the switches that it can have; None where they are not known yet.
Tables: TypeAlias = "Callable[[str, SourceSpec | None], Table | None]"


def parse_table(text: str, where: str) -> Table:
    """A table by names. UsageError, which says `where` it is."""
    try:
        table = _Table.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise UsageError(
            f"{where}: {f'{place}: ' if place else ''}{first['msg'].removeprefix('Value error, ')}",
            f"this perfrunner reads tables of schema {SCHEMA}" if place == "schema" else None,
        ) from None
    return {switch.name: switch for switch in table.switches}


@cache
def own_table() -> Table:
    """The switches of the engine that perfrunner came with."""
    return _read(bundled(ENGINE_DIRECTORY) / FILE)


def table_of(engine_source: Path) -> Table:
    """The switches of an engine's source, or perfrunner's own where it is older than the table. UsageError."""
    path = engine_source / FILE
    return _read(path) if path.is_file() else own_table()


def _read(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return parse_table(text, str(path))


def own_tables(variant: str, source: SourceSpec | None) -> Table | None:
    """Where no engine source is at hand: perfrunner's own table, and those of directories that a spec names."""
    del variant
    if source is None:
        return own_table()
    return None if source.dir is None else table_of(engine_in(Path(source.dir)))


def checked_options(
    options: Mapping[str, str], table: Table | None
) -> tuple[dict[str, str], dict[str, str]]:
    """The options as the engine spells them (YAML reads `on` as true); and by name, what is wrong with the others.

    Without a table, whatever could be a switch and a value of it.
    """
    normal, wrong = {}, {}
    for name, given in options.items():
        switch = None if table is None else table.get(name)
        value = given
        if switch is None or "on" in switch.values:
            value = _BOOLEAN_WORDS.get(given, given)
        if table is None:
            problem = _malformed(name, value)
        elif switch is None:
            problem = expected_name("a build option", name, table)
        elif not switch.accepts(value):
            near = did_you_mean(value, switch.values)
            problem = f"expected {switch.meaning}; got {value}{near}"
        else:
            problem = ""
        if problem:
            wrong[name] = problem
        else:
            normal[name] = value
    return normal, wrong


def _malformed(name: str, value: str) -> str:
    if not _WORD.fullmatch(name):
        return f"expected a build option's name of a-z, 0-9 and '_'; got {name}"
    if not _WORD.fullmatch(value):
        return f"expected a value of a-z, 0-9 and '_', '.', '-'; got {value}"
    return ""


def cmake_setting(name: str, value: str) -> tuple[str, str]:
    """The cache variable and what it is set to: ENGINE_HT_STATS, llc. ON and OFF are spelled as CMake does."""
    return f"ENGINE_{name.upper()}", value.upper() if value in ("on", "off") else value


def stat_key(name: str) -> str:
    """The key under which `STAT config` reads a switch back, for example build.ht_stats."""
    return f"build.{name}"
