"""Servers that a variant may be: how each is started, asked, checked and stopped.

adapter.py      what is known of a server; the base is a server of which nothing is known
memcached.py    redis.py        what these servers add: their settings, figures, refusals
wire.py  agent.py  ports.py  usage.py   the program that asks a server, on the server's own host
checks.py  elf.py  preload.py   what can be known of a command before it starts
prepare.py  placing.py          check out and build, find libraries, name the content; bring it to a host over SSH
options.py                      read back the options of a preloaded allocator

These four and the adapters need the standard library alone: they are copied to the server's host.
"""
