"""The spec of a comparison of two sources: what `perfrunner ab` and each step of `perfrunner bisect` run.

Everything but the variants is some other spec's; without one it is SMALL, which takes a minute or so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from perfrunner.spec.model import Spec
from perfrunner.spec.small import SMALL
from perfrunner.spec.source import SourceSpec


def small_spec() -> Spec:
    """SMALL, validated."""
    return Spec.model_validate(SMALL)


def pair(
    base: Spec, name: str, arms: Mapping[str, SourceSpec], settings: str | None = None
) -> Spec:
    """`base` with one variant for each source, all with the settings of one of its variants (its baseline's).

    The first arm is the baseline; `name` is made an experiment's name.
    """
    like = base.variants[settings or base.baseline]
    variants = {
        arm: like.model_copy(update={"name": arm, "source": source}) for arm, source in arms.items()
    }
    return base.model_copy(
        update={
            "name": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64] or "ab",
            "description": f"{' against '.join(reversed([*arms]))}: two sources of the engine",
            "variants": variants,
            "baseline": next(iter(arms)),
            "profile": None,  # what it chose is in the spec by now
            "reference": None,  # what others published is of their variants
            "gains": (),
        }
    )


def spec_document(spec: Spec) -> str:
    """A spec as a file that needs no other: YAML that load_spec reads back as the same spec."""
    document = spec.model_dump(mode="json", exclude_none=True, exclude={"profile"})
    for variant in document["variants"].values():
        variant.pop("name")  # its key
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
