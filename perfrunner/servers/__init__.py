"""Servers that a variant may be: how each is started, asked, checked and stopped.

adapter.py      what is known of a server; the base is a server of which nothing is known
memcached.py  redis.py      what these servers add: their settings, figures, refusals
registry.py     the adapter of each kind
agent.py  wire.py           the program that asks a server, on the server's own host
checks.py       what can be known of a command before it starts
preload.py      find, check and ask a preloaded allocator
prepare.py      build revisions of a repository; find programs, libraries and images, and name their content
placing.py      bring what was prepared to a host over SSH

The first six need the standard library alone: they are copied to the server's host.
"""
