"""What perfrunner knows of a server. The base class is a server of which nothing is known: any command.

An adapter is stateless. The methods up to `added` look at a command line; the others ask a running server and run on
its host (agent.py), so that adapters need the standard library alone.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from perfrunner.servers.wire import Wire

# How an answer of Redis begins that refuses a password because it needs none.
HAS_NO_PASSWORD = ("ERR AUTH", "ERR Client sent AUTH")
# How an answer of Redis begins that asks for a password, or for another one.
REFUSES_PASSWORD = ("NOAUTH", "WRONGPASS", "NOPERM", *HAS_NO_PASSWORD)

SIGTERM = 15
CAUGHT_SIGTERM = 128 + SIGTERM  # the status of Java's virtual machine, and of a shell for its child

# An absolute path that is the same for every start: those of {dir} and {port} are not.
FIXED_PATH = r"/(?!.*\{(dir|port)\}).*"
# As in spec/server.py, which needs more than the standard library.
PORT = "{port}"
FEWEST_CLIENTS = 10
TOO_FEW_CLIENTS = (
    "expected a limit of at least {} clients: the load and perfrunner's questions are several"
)


@dataclass(frozen=True)
class State:
    """What a server says of itself. `busy` is background work that disturbs a measurement; empty: none.

    figures: memory in bytes by the names that the engine's STAT memory uses, as far as the server knows them.
    counters: of operations, by the names `cmd_get` and `cmd_set`.
    evicted, refused: items that the server dropped, and SETs that it did not take, for lack of memory.
    raw: all of its answers, for the files of a trial.
    """

    version: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    evicted: int = 0
    refused: int = 0
    busy: str = ""
    raw: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Adapter:
    """A server of which nothing is known: it is ready when its port accepts a connection."""

    kind: ClassVar[str] = "other"
    mark: ClassVar[bytes] = b""  # a text in its program, by which a renamed program is recognized
    # Of the load, the default first; none: the server is asked.
    protocols: ClassVar[tuple[str, ...]] = ()
    missing: ClassVar[str] = (
        "its version, settings, memory figures and counters of operations are not known:"
        " only figures of the process are reported"
    )

    def refused(self, arguments: Sequence[str]) -> dict[int, str]:
        """Return, by index into `arguments`, what cannot be measured and what to do."""
        del arguments
        return {}

    def shared(self, arguments: Sequence[str]) -> dict[int, str]:
        """Return, by index, files that all starts of all variants would write, and what to do."""
        del arguments
        return {}

    def files(self, arguments: Sequence[str]) -> list[str]:
        """Return the configuration files that the arguments name, which Redis' have (checks.py)."""
        del arguments
        return []

    def unfit(self, settings: Mapping[str, str]) -> str | None:
        """Return why a server with such settings cannot be measured, and what to do; None if it can."""
        del settings
        return None

    def saves_to(self, arguments: Sequence[str], settings: Mapping[str, str]) -> str | None:
        """Return the directory in which a server keeps its data, unless it keeps none or the arguments name it."""
        del arguments, settings
        return None

    def spoken(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the protocols that the load can speak to a command, the default first; none: the server is asked."""
        del arguments
        return self.protocols

    def wrong_protocol(self, protocol: str, arguments: Sequence[str]) -> str | None:
        """Return why the load cannot speak a protocol to the server; None if it can, or nobody knows."""
        spoken = self.spoken(arguments)
        if not spoken or protocol in spoken:
            return None
        return f"expected {' or '.join(spoken)}, which {self.kind} speaks, got {protocol}"

    def locked(self, arguments: Sequence[str]) -> int | None:
        """Return the index of the argument that makes the server ask for a password; None if there is none."""
        del arguments
        return None

    def added(
        self, arguments: Sequence[str], *, root: bool, listen: str, directory: str | None
    ) -> list[str]:
        """Return arguments that perfrunner adds: the address, if none is given, and a user for root.

        `directory`: that the server may write to; None: any, because it runs in a container.
        """
        del arguments, root, listen, directory
        return []

    def requested(self, arguments: Sequence[str]) -> dict[str, str]:
        """Return the settings that the arguments ask for, by the name under which the server reports them."""
        del arguments
        return {}

    def same(self, asked: str, actual: str) -> bool:
        """Return whether a setting that was read back is the one asked for."""
        a, b = asked.strip().lower(), actual.strip().lower()
        try:
            return a == b or float(a) == float(b)
        except ValueError:
            return False

    def warnings(self, state: State) -> list[str]:
        """Return what disturbs a measurement, in a server that was just started."""
        del state
        return []

    def begin(self, wire: Wire) -> str:
        """Do what a server that was just started needs before it serves; return what it still waits for."""
        del wire
        return ""

    def ask(self, wire: Wire, wrong_figures: bool) -> State:
        """Ask for the state. `wrong_figures`: a preloaded allocator makes the allocator's own figures wrong."""
        del wire, wrong_figures
        return State()

    def clean_stop(self, code: int | None, signal: int | None) -> bool:
        """Return whether the status after SIGTERM is that of a clean stop; nobody knows what any command returns."""
        del code, signal
        return True


class KnownServer(Adapter, ABC):
    """A server whose options are known.

    refusals: by option, what values cannot be measured (a pattern for the whole value in any case), and what to do.
    places: the same for files that all starts of all variants would write.
    """

    missing = ""
    port_option: ClassVar[str]
    refusals: ClassVar[Mapping[str, tuple[str, str]]]
    places: ClassVar[Mapping[str, tuple[str, str]]]

    @abstractmethod
    def options(self, arguments: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Yield (index, name, value) of each option in the arguments."""

    def refused(self, arguments: Sequence[str]) -> dict[int, str]:
        ports = [(at, value) for at, name, value in self.options(arguments) if name == "port"]
        wrong = {}
        if ports and PORT not in ports[-1][1] and not self.listens_on(arguments):
            wrong[ports[-1][0]] = f"expected {self.port_option}, and no other port after it"
        return wrong | self._matching(arguments, self.refusals)

    def listens_on(self, arguments: Sequence[str]) -> bool:
        """Return whether another option than that of the port has {port}, where the server listens."""
        del arguments
        return False

    def shared(self, arguments: Sequence[str]) -> dict[int, str]:
        return self._matching(arguments, self.places)

    def _matching(
        self, arguments: Sequence[str], patterns: Mapping[str, tuple[str, str]]
    ) -> dict[int, str]:
        return {
            index: patterns[name][1]
            for index, name, value in self.options(arguments)
            if name in patterns and _fits(patterns[name][0], value)
        }

    def unfit(self, settings: Mapping[str, str]) -> str | None:
        for name, value in settings.items():
            if name in self.refusals and _fits(self.refusals[name][0], value):
                return f"{name} {value}: {self.refusals[name][1]}"
        return None

    def warnings(self, state: State) -> list[str]:
        """Return what is not known of a server that supports only a part of the protocol."""
        facts = {
            "version": state.version,
            "settings": state.settings,
            "memory figures": state.figures,
            "counters of operations": state.counters,
        }
        lacking = [name for name, fact in facts.items() if not fact]
        return [f"it does not report its {', '.join(lacking)}"] if lacking else []

    def given(self, arguments: Sequence[str]) -> set[str]:
        """Return the names of the options in the arguments."""
        return {name for _, name, _ in self.options(arguments)}

    def clean_stop(self, code: int | None, signal: int | None) -> bool:
        return code in (0, CAUGHT_SIGTERM) or signal == SIGTERM


def _fits(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value, re.IGNORECASE) is not None


def numeric(values: Mapping[str, str]) -> dict[str, float]:
    """Return the values that are numbers."""
    numbers = {}
    for name, value in values.items():
        try:
            numbers[name] = float(value)
        except ValueError:
            continue
    return numbers
