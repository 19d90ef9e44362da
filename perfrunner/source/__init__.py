"""Where the arms' engines come from: revisions, patches and trees, found out once when an experiment begins.

sources = resolve_sources(spec, engine_src, cache_dir)   # UsageError: what is wrong, before anything starts
sources.of["mine"].path                                  # a copy by content, from which the arm is built
facts[FACT] = sources.record()                      # and restored by a resumed run
"""

from perfrunner.source.model import FACT
from perfrunner.source.resolve import Sources, resolve_sources, restore_sources, same_arms

__all__ = ["FACT", "Sources", "resolve_sources", "restore_sources", "same_arms"]
