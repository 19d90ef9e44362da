"""memcached, and what speaks its protocol and takes its options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfrunner.servers.adapter import Adapter, State, numeric
from perfrunner.servers.wire import Wire, WireError

# Options that take a value, by letter and long name: the name in `stats settings`, or "" if it is not there.
_VALUED = {
    "p": "tcpport", "port": "tcpport", "U": "udpport", "udp-port": "udpport", "s": "", "unix-socket": "",
    "a": "", "unix-mask": "", "l": "inter", "listen": "inter", "u": "", "user": "", "m": "maxbytes",
    "memory-limit": "maxbytes", "c": "maxconns", "conn-limit": "maxconns", "P": "", "pidfile": "",
    "f": "growth_factor", "slab-growth-factor": "growth_factor", "n": "chunk_size", "slab-min-size": "chunk_size",
    "t": "num_threads", "threads": "num_threads", "D": "", "delimiter": "", "R": "reqs_per_event",
    "max-reqs-per-event": "reqs_per_event", "b": "tcp_backlog", "listen-backlog": "tcp_backlog",
    "B": "binding_protocol", "protocol": "binding_protocol", "I": "item_size_max", "max-item-size": "item_size_max",
    "o": "", "extended": "", "e": "", "memory-file": "", "Y": "", "auth-file": "", "N": "num_napi_ids",
    "napi-ids": "num_napi_ids",
}  # fmt: skip
_FLAGS = {
    "M": ("evictions", "off"), "disable-evictions": ("evictions", "off"), "C": ("cas_enabled", "no"),
    "disable-cas": ("cas_enabled", "no"), "F": ("flush_enabled", "no"),
    "disable-flush-all": ("flush_enabled", "no"), "X": ("dump_enabled", "no"),
    "disable-dumping": ("dump_enabled", "no"), "S": ("auth_enabled_sasl", "yes"),
    "enable-sasl": ("auth_enabled_sasl", "yes"),
}  # fmt: skip
# Words of -o: a switch with its value, or the name that its value has in `stats settings`.
_SWITCHES = {
    "no_lru_crawler": ("lru_crawler", "no"), "lru_crawler": ("lru_crawler", "yes"),
    "no_lru_maintainer": ("lru_maintainer_thread", "no"), "lru_maintainer": ("lru_maintainer_thread", "yes"),
    "no_slab_reassign": ("slab_reassign", "no"), "slab_reassign": ("slab_reassign", "yes"),
    "no_maxconns_fast": ("maxconns_fast", "no"), "maxconns_fast": ("maxconns_fast", "yes"),
    "no_inline_ascii_resp": None, "modern": None, "no_modern": None, "drop_privileges": ("drop_privileges", "yes"),
    "no_drop_privileges": ("drop_privileges", "no"), "track_sizes": ("track_sizes", "yes"),
}  # fmt: skip
_OF_A_WORD = {
    "hashpower": "", "slab_automove": "slab_automove", "tail_repair_time": "tail_repair_time",
    "hash_algorithm": "hash_algorithm", "idle_timeout": "idle_timeout", "temporary_ttl": "temporary_ttl",
    "hot_lru_pct": "hot_lru_pct", "warm_lru_pct": "warm_lru_pct", "lru_crawler_sleep": "lru_crawler_sleep",
    "worker_logbuf_size": "worker_logbuf_size", "slab_chunk_max": "slab_chunk_max", "resp_obj_mem_limit": "",
    "read_buf_mem_limit": "read_buf_mem_limit",
}  # fmt: skip
_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


class Memcached(Adapter):
    """memcached."""

    kind = "memcached"
    protocol = "binary"
    missing = ""

    def refused(self, arguments: Sequence[str]) -> dict[int, str]:
        wrong = {}
        for index, name, value in options(arguments):
            if name in ("d", "daemon"):
                wrong[index] = "expected a server that stays in the foreground: leave out -d"
            elif name in ("s", "unix-socket"):
                wrong[index] = (
                    "expected a TCP port: the load does not use Unix sockets; replace it by -p {port}"
                )
            elif name in ("Z", "enable-ssl"):
                wrong[index] = "expected a server without TLS: the load does not use it"
            elif name in ("S", "enable-sasl", "Y", "auth-file"):
                wrong[index] = (
                    "expected a server without authentication: the load does not log in to memcached"
                )
            elif name in ("B", "protocol") and value == "ascii":
                wrong[index] = (
                    "expected the binary protocol, which the load speaks: leave out -B ascii"
                )
        return wrong

    def added(self, arguments: Sequence[str], *, root: bool, listen: str) -> list[str]:
        given = {name for _, name, _ in options(arguments)}
        address = (
            [] if given & {"l", "listen"} else ["-l", f"[{listen}]" if ":" in listen else listen]
        )
        return address + (["-u", "root"] if root and not given & {"u", "user"} else [])

    def requested(self, arguments: Sequence[str]) -> dict[str, str]:
        asked: dict[str, str] = {}
        for _, name, value in options(arguments):
            if name in _FLAGS:
                asked.update([_FLAGS[name]])
            elif name in ("o", "extended"):
                asked.update(_extended(value))
            elif key := _VALUED.get(name):
                asked[key] = _normal(key, value)
        return {
            key: value for key, value in asked.items() if key not in ("tcpport", "udpport", "inter")
        }

    def ask(self, wire: Wire, wrong_figures: bool) -> State:
        del wrong_figures  # its figures are of its own slabs, whatever the allocator
        version = wire.memcached_version()
        stats = wire.memcached("stats")
        settings, slabs = wire.memcached("stats settings"), {}
        try:
            slabs = wire.memcached("stats slabs")
        except WireError:  # a server that only speaks like memcached
            slabs = {}
        numbers = numeric(stats)
        figures = {}
        if "bytes" in numbers:
            figures["mem_used"] = numbers["bytes"]
        if "total_malloced" in slabs:
            figures["total_heap_bytes"] = float(slabs["total_malloced"])
        return State(
            version=version,
            settings=settings,
            figures=figures,
            counters={name: numbers[name] for name in ("cmd_get", "cmd_set") if name in numbers},
            evicted=int(numbers.get("evictions", 0)),
            raw={"stats": stats, "settings": settings, "slabs": slabs},
        )

    def clean_stop(self, code: int | None, signal: int | None) -> bool:
        return code == 0 or signal == 15


def options(arguments: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield (index, name without dashes, value) of each option, as getopt_long reads them."""
    words = iter(enumerate(arguments))
    for index, word in words:
        if word.startswith("--") and len(word) > 2:
            name, separator, value = word[2:].partition("=")
            if not separator and name in _VALUED:
                value = next(words, (index, ""))[1]
            yield index, name, value
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter in _VALUED:
                    yield index, letter, letters or next(words, (index, ""))[1]
                    break
                yield index, letter, ""


def _extended(text: str) -> Iterator[tuple[str, str]]:
    for word in text.split(","):
        name, _, value = word.partition("=")
        if switch := _SWITCHES.get(name):
            yield switch
        elif key := _OF_A_WORD.get(name):
            yield key, _normal(key, value)


def _normal(key: str, value: str) -> str:
    """Return a value as `stats settings` prints it."""
    if key == "maxbytes" and value.isdigit():
        return str(int(value) * 1024**2)
    if (
        key in ("item_size_max", "maxbytes")
        and value[-1:].lower() in _UNITS
        and value[:-1].isdigit()
    ):
        return str(int(value[:-1]) * _UNITS[value[-1].lower()])
    if key == "binding_protocol":
        return {"auto": "auto-negotiate"}.get(value, value)
    return value
