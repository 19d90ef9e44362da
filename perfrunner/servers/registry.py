"""Map each kind of server to its adapter. Needs the standard library alone."""

from __future__ import annotations

from perfrunner.servers.adapter import Adapter, speaks
from perfrunner.servers.memcached import Memcached
from perfrunner.servers.redis import Redis
from perfrunner.servers.wire import connected

ADAPTERS: dict[str, Adapter] = {
    adapter.kind: adapter for adapter in (Memcached(), Redis(), Adapter())
}
_PROBE_TIMEOUT_S = 2.0


def adapter_for(kind: str) -> Adapter:
    return ADAPTERS[kind]


def guess_kind(host: str, port: int) -> str:
    """Ask a server of an unknown program what it speaks; `other` if it answers no question."""

    def version() -> None:
        with connected(host, port, _PROBE_TIMEOUT_S) as wire:
            wire.memcached_version()

    def ping() -> None:
        with connected(host, port, _PROBE_TIMEOUT_S) as wire:
            wire.resp("PING")

    if speaks(ping):
        return "redis"
    return "memcached" if speaks(version) else "other"
