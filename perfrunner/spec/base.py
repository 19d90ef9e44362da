"""What every piece of a spec has in common, and the alphabets of names.

Names become directory and file names, and arguments of remote commands: hence the narrow alphabets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from perfrunner.spec.metrics import check_metric


class Piece(BaseModel):
    """A mapping of a spec: unknown keys are errors, values are not coerced, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _matching(pattern: str, description: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"expected {description}")
        return value

    return AfterValidator(check)


def _scalar_text(value: Any) -> Any:
    """YAML's true, 4 and 0.25 as the text that a command line takes; other values are left to the type check."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


ExperimentName = Annotated[
    str, _matching(r"[a-z0-9][a-z0-9-]{0,63}", "a name of a-z, 0-9 and '-' (at most 64 characters)")
]
PlainName = Annotated[
    str,
    _matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        "a name of letters, digits, '.', '_' and '-' (at most 64 characters)",
    ),
]
VariantName = Annotated[
    str,
    _matching(
        r"[A-Za-z0-9][A-Za-z0-9._,=+-]{0,99}",
        "a name of letters, digits and '.', '_', ',', '=', '+', '-' (at most 100 characters)",
    ),
]
ScalarText = Annotated[str, BeforeValidator(_scalar_text)]
ListAsTuple = BeforeValidator(_as_tuple)
BucketType: TypeAlias = Literal["persistent", "ephemeral"]
matching = _matching


def items_error(texts: Mapping[Any, str]) -> PydanticCustomError:
    """One error for each key of the mapping under validation (the loader tells them apart again).

    A key is a name, or the path to a value further inside.
    """
    return PydanticCustomError(
        "items",
        "{text}",
        {"text": "; ".join(f"{k}: {v}" for k, v in texts.items()), "items": texts},
    )


MetricId = Annotated[str, AfterValidator(check_metric)]
