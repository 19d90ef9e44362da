"""Define the base class of all spec models, the alphabets of names, and field types for quantities (units.py).

Names become directory names, file names and arguments of remote commands, so the alphabets are narrow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from perfrunner.spec.metrics import check_metric
from perfrunner.spec.suggest import NAME, NAME_WANTED
from perfrunner.spec.units import (
    parse_count,
    parse_cpus,
    parse_duration,
    parse_percent,
    parse_share,
    parse_size,
)
from perfrunner.text import readable


class Piece(BaseModel):
    """A mapping in a spec. Unknown keys are errors, values are not coerced, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def matching(pattern: str, description: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"expected {description}")
        return value

    return AfterValidator(check)


def _scalar_text(value: Any) -> Any:
    """Convert YAML's true, 4 and 0.25 to command-line text; leave other values to the type check."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


ExperimentName = Annotated[
    str, matching(r"[a-z0-9][a-z0-9-]{0,63}", "a name of a-z, 0-9 and '-' (at most 64 characters)")
]
PlainName = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        "a name of letters, digits, '.', '_' and '-' (at most 64 characters)",
    ),
]
VariantName = Annotated[
    str,
    matching(NAME, NAME_WANTED),
]
ScalarText = Annotated[str, BeforeValidator(_scalar_text)]
ListAsTuple = BeforeValidator(_as_tuple)
BucketType: TypeAlias = Literal["persistent", "ephemeral"]


def refuse(texts: Mapping[Any, str]) -> None:
    """Raise an error with one message for each key, if there are any; `loader.note_errors` separates them again.

    A key is a name, or the path to a nested value.
    """
    if texts:
        # pydantic takes no text that is not UTF-8, such as a path.
        text = readable("; ".join(f"{k}: {v}" for k, v in texts.items()))
        raise PydanticCustomError("items", "{text}", {"text": text, "items": texts})


MetricId = Annotated[str, AfterValidator(check_metric)]


Duration = Annotated[float, BeforeValidator(parse_duration)]
PositiveDuration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
Count = Annotated[int, BeforeValidator(parse_count)]
PositiveCount = Annotated[int, BeforeValidator(parse_count), Field(ge=1)]
Size = Annotated[int, BeforeValidator(parse_size)]
Share = Annotated[float, BeforeValidator(parse_share)]
Percent = Annotated[float, BeforeValidator(parse_percent)]
Cpus = Annotated[str, BeforeValidator(parse_cpus)]
