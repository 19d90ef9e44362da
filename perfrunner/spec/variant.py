"""One arm of an experiment: a build and its run-time settings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from perfrunner.errors import UsageError
from perfrunner.spec.allocator import AllocatorSpec
from perfrunner.spec.base import Piece, ScalarText, VariantName, items_error, matching
from perfrunner.spec.params import wrong_params
from perfrunner.spec.proof import ProofSpec
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.switches import checked_options
from perfrunner.spec.tunables import env_problems

ParamName = Annotated[str, matching(r"[a-z][a-z0-9_]*", "a parameter name of a-z, 0-9 and '_'")]
ParamValue = Annotated[
    ScalarText,
    matching(r"[A-Za-z0-9._:/+-]+", "a value of letters, digits and '.', '_', ':', '/', '-'"),
]

# These would change the allocator behind the proof's back.
_OWNED_BY_ALLOCATOR = ("LD_PRELOAD", "MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF")


def _env_name(name: str) -> str:
    if name in _OWNED_BY_ALLOCATOR:
        raise ValueError(
            "expected no allocator setting here: use allocator.name and allocator.options"
        )
    return name


EnvName = Annotated[
    str,
    matching(r"[A-Z_][A-Z0-9_]*", "an environment variable's name of A-Z, 0-9 and '_'"),
    AfterValidator(_env_name),
]
EnvValue = Annotated[ScalarText, matching(r"[\x20-\x7e]*", "printable ASCII text")]


def check_params(params: dict[str, str]) -> dict[str, str]:
    """As they are; an error names each that is misspelt, or whose value is none."""
    if wrong := wrong_params(params):
        raise items_error(wrong)
    return params


class Variant(Piece):
    """An arm. `name` is its key in the spec's `variants`; two arms may share one build."""

    name: VariantName
    source: SourceSpec | None = Field(default=None, description="none: the engine source in use")
    allocator: AllocatorSpec
    options: dict[str, ScalarText] = Field(
        default_factory=dict, description="build-time switches of the engine"
    )
    params: dict[ParamName, ParamValue] = Field(default_factory=dict, description="engine --param")
    env: dict[EnvName, EnvValue] = Field(default_factory=dict, description="engine environment")
    proof: ProofSpec | None = Field(default=None, description="none: every setting is proved")

    @field_validator("source")
    @classmethod
    def _a_revision(cls, source: SourceSpec | None, info: ValidationInfo) -> SourceSpec | None:
        """One that is there, where a spec is read by somebody who can look."""
        tables = (info.context or {}).get("switches")
        if tables is not None and source is not None and source.git and "name" in info.data:
            try:
                tables(info.data["name"], source)
            except UsageError as error:
                hint = f" ({error.hint})" if error.hint else ""
                raise items_error({"git": f"{error.message}{hint}"}) from None
        return source

    @field_validator("options")
    @classmethod
    def _switches(cls, options: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        """Those of its engine's source, where a spec is read; a recorded spec was checked when it was read."""
        tables = (info.context or {}).get("switches")
        table = None
        if tables is not None and {"name", "source"} <= info.data.keys():
            table = tables(info.data["name"], info.data["source"])
        normal, wrong = checked_options(options, table)
        if wrong:
            raise items_error(wrong)
        return normal

    @field_validator("params")
    @classmethod
    def _params(cls, params: dict[str, str]) -> dict[str, str]:
        return check_params(params)

    @field_validator("env")
    @classmethod
    def _nothing_is_ignored(cls, env: dict[str, str]) -> dict[str, str]:
        if wrong := env_problems(env):
            raise items_error(wrong)
        return env

    @field_validator("proof")
    @classmethod
    def _skips_what_is_asked(
        cls, proof: ProofSpec | None, info: ValidationInfo
    ) -> ProofSpec | None:
        if proof is not None and {"allocator", "options"} <= info.data.keys():
            wrong = proof.problems(info.data["options"], info.data["allocator"].all_options)
            if wrong:
                at = {("skip", proof.skip.index(name)): text for name, text in wrong.items()}
                raise items_error(at)
        return proof

    def skips(self, setting: str) -> bool:
        """Whether this setting need not be proved."""
        return self.proof is not None and self.proof.skips(setting)

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A variant is recorded as it was before variants had what this one does not."""
        fields: dict[str, Any] = handler(self)
        for name in ("source", "proof"):
            if getattr(self, name) is None:
                fields.pop(name, None)  # an exclusion may have taken it already
        return fields
