"""Map each kind of server to its adapter. Needs the standard library alone."""

from __future__ import annotations

from collections.abc import Callable

from perfrunner.servers.adapter import REFUSES_PASSWORD, Adapter
from perfrunner.servers.memcached import Memcached
from perfrunner.servers.redis import Redis
from perfrunner.servers.wire import Wire, WireError, connected

ADAPTERS: dict[str, Adapter] = {
    adapter.kind: adapter for adapter in (Memcached(), Redis(), Adapter())
}
_PROBE_TIMEOUT_S = 2.0


def guess_kind(host: str, port: int) -> str:
    """Ask a server of an unknown program what it speaks; `other` if it answers no question."""
    if _speaks(host, port, lambda wire: wire.resp("PING")):
        return "redis"
    return "memcached" if _speaks(host, port, Wire.memcached_version) else "other"


def guess_protocol(kind: str, host: str, port: int) -> str:
    """Ask a server whose kind was guessed; empty if it speaks the default of its kind."""
    if kind != "memcached" or _speaks(host, port, Wire.memcached_binary_version):
        return ""
    return "text"


def _speaks(host: str, port: int, ask: Callable[[Wire], object]) -> bool:
    """Return whether a question gets an answer of its protocol."""
    try:
        with connected(host, port, _PROBE_TIMEOUT_S) as wire:
            ask(wire)
    except WireError as error:
        return str(error).startswith(REFUSES_PASSWORD)
    except OSError:
        return False
    return True
