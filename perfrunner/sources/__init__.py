"""Resolve the engine sources of variants: revisions, patches and directories, once when an experiment starts.

sources = resolve_sources(spec, engine_src, cache_dir)   # raises UsageError before anything is started
sources.path("mine")                                     # a copy by content, from which the variant is built
facts[FACT] = sources.record()                           # a resumed run restores the sources from this record

A report needs only the records. The code that resolves sources, with its imports of builds and hosts, is loaded on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.lazily import names_of
from perfrunner.sources.model import FACT

if TYPE_CHECKING:
    from perfrunner.sources.resolve import Sources, resolve_sources, restore_sources, same_variants

__all__ = ["FACT", "Sources", "resolve_sources", "restore_sources", "same_variants"]

_RESOLVE = ("Sources", "resolve_sources", "restore_sources", "same_variants")

__getattr__ = names_of(globals(), dict.fromkeys(_RESOLVE, "perfrunner.sources.resolve"))
