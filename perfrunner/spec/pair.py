"""Build the spec that compares two sources, for `perfrunner ab` and each step of `perfrunner bisect`.

The sources are of the engine, or revisions of the repository that another server is built from.

Everything but the variants comes from another spec. The default is SMALL, which takes about a minute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from perfrunner.errors import UsageError
from perfrunner.spec.model import Spec
from perfrunner.spec.small import SMALL
from perfrunner.spec.source import SourceSpec
from perfrunner.spec.variant import Variant
from perfrunner.spec.yaml_core import CoreDumper


def small_spec() -> Spec:
    """Return SMALL as a validated spec."""
    return Spec.model_validate(SMALL)


def pair(
    base: Spec, name: str, sources: Mapping[str, SourceSpec], settings: str | None = None
) -> Spec:
    """Return `base` with one variant for each source.

    All variants take their settings from one variant of `base`: `settings`, or else its baseline. The first
    variant becomes the baseline. `name` is converted to a valid experiment name. Raises UsageError if the
    settings are those of another server that is not built from a repository.
    """
    like = base.variants[settings or base.baseline]
    variants = {variant: _of_source(like, variant, source) for variant, source in sources.items()}
    of = "the engine" if like.server is None else like.server.program
    return base.model_copy(
        update={
            "name": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64] or "ab",
            "description": f"{' against '.join(reversed([*sources]))}: two sources of {of}",
            "variants": variants,
            "baseline": next(iter(sources)),
            "profile": None,  # its overlay is part of the spec already
            "published": None,  # published values belong to other variants
            "expected_gains": (),
        }
    )


def _of_source(like: Variant, name: str, source: SourceSpec) -> Variant:
    if like.server is None:
        return like.model_copy(update={"name": name, "source": source})
    if like.server.git is None or source.git is None or source.patch is not None:
        raise UsageError(
            f"variant {like.name} is another server than the engine, and"
            + (
                " is not built from a repository"
                if like.server.git is None
                else f" {source.text} is no revision of its repository"
            ),
            "compare commands: perfrunner ab 'COMMAND {port}' 'COMMAND {port}'",
        )
    server = like.server.model_copy(update={"revision": source.git})
    return like.model_copy(update={"name": name, "server": server})


def spec_document(spec: Spec) -> str:
    """Format a spec as self-contained YAML that load_spec reads back as the same spec."""
    document = spec.model_dump(mode="json", exclude_none=True, exclude={"profile"})
    for variant in document["variants"].values():
        variant.pop("name")  # its key
    return yaml.dump(document, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=100)
