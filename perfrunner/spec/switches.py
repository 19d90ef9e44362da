"""Read the engine's build switches from options/switches.json: names, values and defaults.

The table belongs to a source: another revision may have other switches. A source older than the table is
checked against perfrunner's own; the settings check then finds switches that it does not have. The CMake
variable and the key that is read back are derived from the switch's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from perfrunner.errors import UsageError
from perfrunner.paths import ENGINE_DIRECTORY, bundled, engine_in
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.suggest import did_you_mean, expected_name

FILE = "options/switches.json"  # in the engine's source
SCHEMA = 1
_BOOLEAN_WORDS = {"true": "on", "false": "off", "yes": "on", "no": "off", "ON": "on", "OFF": "off"}
_WORD = re.compile(r"[a-z0-9][a-z0-9_.-]*")

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")]


class Part(BaseModel):
    """A part of the table. Fields that only CMake needs (the policy types) are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


class Choice(Part):
    """One value of a switch."""

    value: str
    about: str = ""

    @field_validator("value")
    @classmethod
    def _is_no_truth_value(cls, value: str) -> str:
        if not _WORD.fullmatch(value) or value in _BOOLEAN_WORDS:
            raise ValueError(
                "expected a word of a-z, 0-9 and '_', '.', '-'; on or off, not true or false"
            )
        return value


class Numbers(Part):
    """A range of whole numbers that a switch accepts."""

    least: Annotated[int, Field(ge=1)]
    most: int
    about: str = ""

    def accepts(self, value: str) -> bool:
        """Tell whether the text is a decimal number of the range, without sign or leading zeros."""
        plain = value.isascii() and value.isdigit() and not value.startswith("0")
        return plain and self.least <= int(value) <= self.most


class Switch(Part):
    """One build switch.

    `no_expected_gain` says why no spec has an expected gain for it; empty if one does.
    """

    name: Name
    about: str
    no_expected_gain: str = ""
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
        """The named values, without numbers."""
        return tuple(choice.value for choice in self.choices)

    @property
    def meaning(self) -> str:
        """The accepted values, for an error message."""
        known = list(self.values)
        if self.number is not None:
            known.append(f"a whole number from {self.number.least} to {self.number.most}")
        return f"one of {', '.join(known)}" if len(known) > 1 else known[0]

    def accepts(self, value: str) -> bool:
        """Tell whether the switch accepts `value`."""
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
# Returns the switches of a variant by its name and source; None if they are not known yet.
Tables: TypeAlias = "Callable[[str, SourceSpec | None], Table | None]"


def parse_table(text: str, where: str) -> Table:
    """Parse a table into switches by name. Raises UsageError, which names the file `where`."""
    try:
        table = _Table.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise UsageError(
            f"{where}: {f'{place}: ' if place else ''}{first['msg'].removeprefix('Value error, ')}",
            f"this version of perfrunner reads schema {SCHEMA}" if place == "schema" else None,
        ) from None
    return {switch.name: switch for switch in table.switches}


@cache
def own_table() -> Table:
    """Return the switches of the bundled engine."""
    return _read(bundled(ENGINE_DIRECTORY) / FILE)


def table_of(engine_source: Path) -> Table:
    """Return the switches of an engine source; the bundled ones if it is older than the table.

    Raises UsageError.
    """
    path = engine_source / FILE
    return _read(path) if path.is_file() else own_table()


def _read(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    return parse_table(text, str(path))


def own_tables(variant: str, source: SourceSpec | None) -> Table | None:
    """Return the table of a variant without consulting git: the bundled one, or that of a directory."""
    del variant
    if source is None:
        return own_table()
    return None if source.dir is None else table_of(engine_in(Path(source.dir)))


def checked_options(
    options: Mapping[str, str], table: Table | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the valid options in the engine's spelling, and the errors of the others by name.

    YAML reads `on` as true, so booleans are converted back. Without a table, only the form of names and
    values is checked.
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
    """Return the CMake cache variable and its value, such as ENGINE_HT_STATS and llc.

    ON and OFF are spelled as in CMake.
    """
    return f"ENGINE_{name.upper()}", value.upper() if value in ("on", "off") else value


def stat_key(name: str) -> str:
    """Return the key of a switch in the engine's `STAT config`, for example build.ht_stats."""
    return f"build.{name}"
