"""memcached, and what speaks its protocol and takes its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from perfrunner.servers.adapter import (
    FEWEST_CLIENTS,
    FIXED_PATH,
    PORT,
    TOO_FEW_CLIENTS,
    KnownServer,
    State,
    numeric,
)
from perfrunner.servers.wire import ErrorReplyError, Wire

# Options with a value: letter, long name, and the name in `stats settings` if it is there.
_VALUED = [
    text.split()
    for text in (
        "p port", "U udp-port", "s unix-socket", "a unix-mask", "l listen", "u user", "m memory-limit maxbytes",
        "c conn-limit maxconns", "P pidfile", "f slab-growth-factor growth_factor", "n slab-min-size chunk_size",
        "t threads num_threads", "D delimiter", "R max-reqs-per-event reqs_per_event", "b listen-backlog tcp_backlog",
        "B protocol binding_protocol", "I max-item-size item_size_max", "o extended", "e memory-file", "Y auth-file",
        "N napi-ids num_napi_ids",
    )
]  # fmt: skip
# Options without one: letter, long name, and the setting that they ask for.
_FLAGS = [
    text.split()
    for text in (
        "M disable-evictions evictions off", "C disable-cas cas_enabled no", "F disable-flush-all flush_enabled no",
        "X disable-dumping dump_enabled no", "S enable-sasl auth_enabled_sasl yes", "d daemon", "Z enable-ssl",
    )
]  # fmt: skip
_LONG = {letter: name for letter, name, *_ in [*_VALUED, *_FLAGS]}
_WITH_VALUE = {name for _, name, *_ in _VALUED}
_SETTING = {name: setting for _, name, *settings in _VALUED for setting in settings}
_ASKED = {name: (asked[0], asked[1]) for _, name, *asked in _FLAGS if asked}
# Words of -o that switch a setting; `no_` before one switches it off.
_SWITCHES = {
    name: name for name in ("lru_crawler", "slab_reassign", "maxconns_fast", "drop_privileges", "track_sizes")
} | {"lru_maintainer": "lru_maintainer_thread"}  # fmt: skip
# Words of -o with a value that `stats settings` has.
_READ_BACK = {
    "slab_automove", "tail_repair_time", "hash_algorithm", "idle_timeout", "temporary_ttl", "hot_lru_pct",
    "warm_lru_pct", "lru_crawler_sleep", "worker_logbuf_size", "slab_chunk_max", "read_buf_mem_limit",
}  # fmt: skip
_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}
# Bytes of the unit in which an option is given; `stats settings` has bytes.
_GIVEN_IN = {"maxbytes": 1024**2, "read_buf_mem_limit": 1024**2, "worker_logbuf_size": 1024}
_PRINTED_AS = {("binding_protocol", "auto"): "auto-negotiate", ("slab_automove", ""): "1"}
_FRACTION = re.compile(r"\d+(\.\d*)?")
_NO_LOGIN = "expected a server without authentication: the load does not log in to memcached"
_OWN_FILE = "expected a file in {dir}, or one with {port} in its name: all variants would write the same file"


# Files that it has open without a client, which count in its limit of clients.
_OWN_FILES, _FILES_PER_THREAD = 10, 4


def _whole_name(name: str) -> str:
    """Return the long name of an option, which may be cut where no other one begins like it."""
    known = [whole for whole in _LONG.values() if whole.startswith(name)]
    return known[0] if len(known) == 1 else name


class Memcached(KnownServer):
    """memcached."""

    kind = "memcached"
    mark = b"can't run as root without the -u switch"
    protocols = ("binary", "text", "meta")
    port_option = "-p {port}"
    refusals: ClassVar[Mapping[str, tuple[str, str]]] = {
        "daemon": (".*", "expected a server that stays in the foreground: leave out -d"),
        "unix-socket": (
            ".*",
            "expected a TCP port: the load does not use Unix sockets; replace it by -p {port}",
        ),
        "enable-ssl": (".*", "expected a server without TLS: the load does not use it"),
        "enable-sasl": (".*", _NO_LOGIN),
        "auth-file": (".*", _NO_LOGIN),
        "protocol": (
            "binary",
            "expected a server that speaks the text protocol too, in which it is asked: leave out -B binary",
        ),
    }

    places: ClassVar[Mapping[str, tuple[str, str]]] = {
        "memory-file": (FIXED_PATH, _OWN_FILE),
        "pidfile": (FIXED_PATH, _OWN_FILE),
        "extended": (rf"(.*,)?ext_path={FIXED_PATH}", _OWN_FILE),
    }

    def options(self, arguments: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Yield (index, long name, value) of each option, as getopt_long reads them."""
        words = iter(enumerate(arguments))
        for index, word in words:
            if word == "--":
                return
            if word.startswith("--"):
                name, separator, value = word[2:].partition("=")
                name = _whole_name(name)
                if not separator and name in _WITH_VALUE:
                    value = next(words, (index, ""))[1]
                yield index, name, value
            elif word.startswith("-") and len(word) > 1:
                letters = word[1:]
                while letters:
                    name, letters = _LONG.get(letters[0], letters[0]), letters[1:]
                    if name in _WITH_VALUE:
                        yield index, name, letters or next(words, (index, ""))[1]
                        break
                    yield index, name, ""

    def refused(self, arguments: Sequence[str]) -> dict[int, str]:
        """Return also a limit of clients that is too low: memcached limits its open files to it."""
        wrong = super().refused(arguments)
        options = list(self.options(arguments))
        threads = [value for _, name, value in options if name == "threads" and value.isdigit()]
        fewest = (
            FEWEST_CLIENTS + _OWN_FILES + _FILES_PER_THREAD * int(threads[-1] if threads else 4)
        )
        for index, name, value in options:
            if name == "conn-limit" and value.isdigit() and 0 < int(value) < fewest:
                wrong[index] = TOO_FEW_CLIENTS.format(fewest)
        if "--" in arguments:
            wrong[[*arguments].index("--")] = (
                "expected no --, because perfrunner adds options: leave it out"
            )
        return wrong

    def listens_on(self, arguments: Sequence[str]) -> bool:
        return any(PORT in value for _, name, value in self.options(arguments) if name == "listen")

    def added(
        self, arguments: Sequence[str], *, root: bool, listen: str, directory: str | None
    ) -> list[str]:
        del directory  # it writes no files
        given = self.given(arguments)
        address = f"[{listen}]" if ":" in listen else listen
        return [
            *(() if "listen" in given else ("-l", address)),
            *(("-u", "root") if root and "user" not in given else ()),
        ]

    def spoken(self, arguments: Sequence[str]) -> tuple[str, ...]:
        asked = [value for _, name, value in self.options(arguments) if name == "protocol"]
        return self.protocols[1:] if asked[-1:] == ["ascii"] else self.protocols

    def requested(self, arguments: Sequence[str]) -> dict[str, str]:
        asked: dict[str, str] = {}
        for _, name, value in self.options(arguments):
            if name in _ASKED:
                asked.update([_ASKED[name]])
            elif name == "extended":
                asked.update(_extended(value))
            elif setting := _SETTING.get(name):
                asked[setting] = _normal(setting, value)
        return asked

    def ask(self, wire: Wire, wrong_figures: bool) -> State:
        del wrong_figures  # its figures are of its own slabs, whatever the allocator
        version = wire.memcached_version()
        stats, settings, slabs = (
            _stats(wire, question) for question in ("stats", "stats settings", "stats slabs")
        )
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
            refused=int(numbers.get("store_no_memory", 0)),
            raw={"stats": stats, "settings": settings, "slabs": slabs},
        )


def _stats(wire: Wire, question: str) -> dict[str, str]:
    """Return the answer; empty if the server, which may support only a part of the protocol, refuses the question."""
    try:
        return wire.memcached(question)
    except ErrorReplyError:
        return {}


def _extended(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings that the words of -o ask for."""
    for word in text.split(","):
        name, _, value = word.partition("=")
        if switch := _SWITCHES.get(name.removeprefix("no_")):
            yield switch, "no" if name.startswith("no_") else "yes"
        elif name in _READ_BACK:
            yield name, _normal(name, value)


def _normal(setting: str, value: str) -> str:
    """Return a value as `stats settings` prints it."""
    number, unit = value[:-1], _UNITS.get(value[-1:].lower())
    if setting in _GIVEN_IN and value.isdigit():
        return str(int(value) * _GIVEN_IN[setting])
    if setting in ("item_size_max", "maxbytes") and unit and number.isdigit():
        return str(int(number) * unit)
    if setting == "growth_factor" and _FRACTION.fullmatch(value):
        return f"{float(value):.2f}"
    return _PRINTED_AS.get((setting, value), value)
