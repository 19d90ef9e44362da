"""The quantities of units.py as types of a field. Apart, because reading a quantity needs no pydantic."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from perfrunner.spec.units import (
    parse_count,
    parse_duration,
    parse_percent,
    parse_share,
    parse_size,
)

Duration = Annotated[float, BeforeValidator(parse_duration)]
PositiveDuration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
Count = Annotated[int, BeforeValidator(parse_count)]
PositiveCount = Annotated[int, BeforeValidator(parse_count), Field(ge=1)]
Size = Annotated[int, BeforeValidator(parse_size)]
Share = Annotated[float, BeforeValidator(parse_share)]
Percent = Annotated[float, BeforeValidator(parse_percent)]
