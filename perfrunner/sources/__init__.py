"""Resolve the engine sources of variants: revisions, patches and directories, once when an experiment starts.

sources = resolve_sources(spec, engine_src, cache_dir)   # resolve.py; raises UsageError before anything is started
sources.path("mine")                                     # a copy by content, from which the variant is built
facts[SOURCES_FACT] = sources.record()                    # a resumed run restores the sources from this record

A report needs only the records (model.py). The code that resolves sources imports builds and hosts.
"""
