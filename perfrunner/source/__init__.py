"""Where the arms' engines come from: revisions, patches and trees, found out once when an experiment begins.

sources = resolve_sources(spec, engine_src, cache_dir)   # UsageError: what is wrong, before anything starts
sources.of["mine"].path                                  # a copy by content, from which the arm is built
facts[FACT] = sources.record()                      # and restored by a resumed run

A report needs only the records: what finds sources out, and all that it needs of builds and hosts, is fetched when it
is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.lazily import names_of
from perfrunner.source.model import FACT

if TYPE_CHECKING:
    from perfrunner.source.resolve import Sources, resolve_sources, restore_sources, same_arms

__all__ = ["FACT", "Sources", "resolve_sources", "restore_sources", "same_arms"]

_RESOLVE = ("Sources", "resolve_sources", "restore_sources", "same_arms")

__getattr__ = names_of(globals(), dict.fromkeys(_RESOLVE, "perfrunner.source.resolve"))
