"""Redis, and what speaks its protocol and takes its options: Valkey, KeyDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from perfrunner.servers.adapter import (
    FEWEST_CLIENTS,
    FIXED_PATH,
    TOO_FEW_CLIENTS,
    KnownServer,
    State,
    numeric,
)
from perfrunner.servers.wire import UnfitError, Wire, WireError, as_pairs

_SIZE = re.compile(r"(\d+)(k|kb|m|mb|g|gb|b)?", re.IGNORECASE)
_UNITS = {
    "b": 1, "k": 1000, "kb": 1024, "m": 1000**2, "mb": 1024**2, "g": 1000**3, "gb": 1024**3, "": 1,
}  # fmt: skip
_LOCKED_USER = re.compile(r"default\s(.*\s)?[>#]")  # whose rules name a password or its hash
_COUNT = re.compile(r"count=(\d+)")
_CALLS = re.compile(r"calls=(\d+)")
# Where Redis' own figures of its allocator go; they are of jemalloc, which is asked by mallctl.
_OF_JEMALLOC = {
    "allocator_active": "total_active_bytes",
    "allocator_resident": "total_resident_bytes",
    "allocator_frag_bytes": "total_fragmentation_bytes",
}
_SECRET = re.compile(r".*(auth|pass|password)")  # names of settings: masterauth, tls-key-file-pass
_NOT_READ_BACK = ("include", "loadmodule", "rename-command", "user", "sentinel")
_FILES = ("logfile", "pidfile", "unixsocket")
# What the command line sets if there is a configuration file (added).
OVERRULED = ("bind", "cluster-config-file", "daemonize", "supervised", "dir", *_FILES)
_PLACES = ("port", *OVERRULED)
_SLOTS = 16384  # of a cluster
_REORDERED = ("notify-keyspace-events",)  # a set of letters, printed in another order
_ALIASES = {"replica": "slave"}  # of a word in a value
_NO_REPLICA = (
    "expected a server that is no replica: it copies the data of its master and takes no SETs;"
    " leave it out"
)


SAVES_NOTHING = (
    "a server that saves nothing (--save '' --appendonly no): each start would load and replace the"
    " data there"
)


class Redis(KnownServer):
    """Redis and its relatives."""

    kind = "redis"
    mark = b"redis_version:"
    protocols = ("resp2", "resp3")
    port_option = "--port {port}"
    refusals: ClassVar[Mapping[str, tuple[str, str]]] = {
        "daemonize": (
            "yes",
            "expected a server that stays in the foreground: leave out --daemonize yes",
        ),
        "supervised": (
            "(?!no$).+",
            "expected a server that perfrunner starts itself: leave out --supervised",
        ),
        "port": ("0", "expected --port {port}: the load uses neither Unix sockets nor TLS"),
        "tls-port": ("(?!0$).*", "expected a server without TLS: the load does not use it"),
        "maxclients": ("[1-9]", TOO_FEW_CLIENTS.format(FEWEST_CLIENTS)),
        "replicaof": ("(?!no one$).+", _NO_REPLICA),
        "slaveof": ("(?!no one$).+", _NO_REPLICA),
    }
    places: ClassVar[Mapping[str, tuple[str, str]]] = {
        "unixsocket": (
            FIXED_PATH,
            "expected no Unix socket: the load does not use it, and one in use would be replaced; leave it out",
        ),
        "pidfile": (FIXED_PATH, "expected a file in {dir}, because one in use would be replaced"),
        "cluster-config-file": (
            FIXED_PATH,
            "expected a file in {dir}: each start would join the cluster that it describes",
        ),
    }

    def options(self, arguments: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Yield (index, name, value) of each `--name value ...`; several values are joined by spaces.

        What comes before the first option is a configuration file.
        """
        index = -1
        values: list[str] = []
        for number, word in enumerate(arguments):
            if word.startswith("--") and len(word) > 2:
                if index >= 0:
                    yield index, arguments[index][2:].lower(), " ".join(values)
                index, values = number, []
            elif index >= 0:
                values.append(word)
        if index >= 0:
            yield index, arguments[index][2:].lower(), " ".join(values)

    def shared(self, arguments: Sequence[str]) -> dict[int, str]:
        """Return the files, and a data directory that a server saves to: each start would load what others left."""
        wrong = super().shared(arguments)
        asked = {name: value for _, name, value in self.options(arguments)}
        from_file = "not known" if self.files(arguments) else "no"
        if asked.get("save") == "" and asked.get("appendonly", from_file) == "no":
            return wrong
        return wrong | {
            index: f"expected {{dir}}, or {SAVES_NOTHING}"
            for index, name, value in self.options(arguments)
            if name == "dir" and re.fullmatch(FIXED_PATH, value)
        }

    def saves_to(self, arguments: Sequence[str], settings: Mapping[str, str]) -> str | None:
        saves = settings.get("save") or settings.get("appendonly") == "yes"
        return settings.get("dir") if saves and "dir" not in self.given(arguments) else None

    def files(self, arguments: Sequence[str]) -> list[str]:
        first = [word for word in arguments[:1] if not word.startswith("-")]
        return first + [value for _, name, value in self.options(arguments) if name == "include"]

    def added(
        self, arguments: Sequence[str], *, root: bool, listen: str, directory: str | None
    ) -> list[str]:
        """Return the options that make Redis answer other hosts, and a configuration file harmless.

        A file is often that of a server in use: its data, log and socket must not become those of a variant.
        """
        del root
        given = self.given(arguments)
        wanted = {} if listen == "127.0.0.1" else {"bind": listen, "protected-mode": "no"}
        if self.files(arguments):
            quiet = {"daemonize": "no", "supervised": "no", **dict.fromkeys(_FILES, "")}
            quiet["cluster-config-file"] = "nodes.conf"
            wanted = {"bind": listen, **wanted, **quiet}
            if directory is not None:
                wanted["dir"] = directory
        return [
            word
            for name, value in wanted.items()
            if name not in given
            for word in (f"--{name}", value)
        ]

    def requested(self, arguments: Sequence[str]) -> dict[str, str]:
        return {
            name: value
            for _, name, value in self.options(arguments)
            if name not in (*_NOT_READ_BACK, *_REORDERED, *_PLACES) and not _SECRET.fullmatch(name)
        }

    def same(self, asked: str, actual: str) -> bool:
        """Compare settings: sizes may have units (100mb), and the server may report more values than were asked for."""
        first, second = (
            [_plain(word) for word in text.lower().split()] for text in (asked, actual)
        )
        if len(first) < 2:
            return first == second
        return any(second[at : at + len(first)] == first for at in range(len(second)))

    def locked(self, arguments: Sequence[str]) -> int | None:
        return next(
            (
                at
                for at, name, value in self.options(arguments)
                if (name == "requirepass" and value)
                or (name == "user" and _LOCKED_USER.match(value))
            ),
            None,
        )

    def warnings(self, state: State) -> list[str]:
        lacking = super().warnings(state)
        text = (
            "it has save points, so that a BGSAVE may run during the load: add --save ''"
            " unless snapshots are what is measured"
        )
        return [*lacking, text] if state.settings.get("save") else lacking

    def begin(self, wire: Wire) -> str:
        """Give all slots to a node in cluster mode, which without slots serves no key."""
        if wire.info("cluster").get("cluster_enabled") != "1":
            return ""
        about = wire.lines("CLUSTER", "INFO")
        if about.get("cluster_known_nodes") != "1":
            raise UnfitError(
                f"it is one of {about.get('cluster_known_nodes')} nodes of a cluster: expected one node alone,"
                " which starts without the cluster-config-file of others and gets all slots"
            )
        if about.get("cluster_slots_assigned") == "0":
            wire.resp("CLUSTER", "ADDSLOTS", *map(str, range(_SLOTS)))
        return "" if about.get("cluster_state") == "ok" else "it does not serve its slots yet"

    def ask(self, wire: Wire, wrong_figures: bool) -> State:
        info = wire.info("server", "memory", "stats", "persistence", "commandstats", "errorstats")
        settings: Mapping[str, str] = {}
        try:
            every = as_pairs(wire.resp("CONFIG", "GET", "*"))
            settings = {n: value for n, value in every.items() if not _SECRET.fullmatch(n)}
        except WireError:  # renamed or forbidden
            settings = {}
        numbers = numeric(info)
        figures = {}
        if "used_memory" in numbers:
            figures["mem_used"] = numbers["used_memory"]
        if not wrong_figures and info.get("mem_allocator", "").startswith("jemalloc"):
            figures |= {
                ours: numbers[theirs] for theirs, ours in _OF_JEMALLOC.items() if theirs in numbers
            }
        version = info.get("valkey_version") or info.get("redis_version", "")
        return State(
            version=version,
            settings=settings,
            figures=figures,
            counters={
                f"cmd_{name}": float(match[1]) if match else 0.0
                for name in ("get", "set")
                for match in [_CALLS.search(info.get(f"cmdstat_{name}", ""))]
                if any(figure.startswith("cmdstat_") for figure in info)
            },
            evicted=int(numbers.get("evicted_keys", 0)),
            refused=int(match[1]) if (match := _COUNT.search(info.get("errorstat_OOM", ""))) else 0,
            busy=_busy(info),
            raw={"info": info, "settings": settings},
        )


def _plain(word: str) -> str:
    """Return a word of a value as CONFIG GET prints it."""
    size = _SIZE.fullmatch(word)
    return str(int(size[1]) * _UNITS[size[2] or ""]) if size else _ALIASES.get(word, word)


def _busy(info: Mapping[str, str]) -> str:
    running = {
        "rdb_bgsave_in_progress": "a BGSAVE",
        "aof_rewrite_in_progress": "a rewrite of the append-only file",
        "loading": "loading of the data set",
    }
    return " and ".join(text for name, text in running.items() if info.get(name, "0") != "0")
