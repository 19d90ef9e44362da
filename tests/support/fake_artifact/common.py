"""Share the engine's line protocol, argument parsing and histograms between the fakes. Standard library only.

The tests start a fake some thousand times, and the imports are most of each start: `socket`, `json`, `random` and
`typing` take three times as long as Python. So what a fake kvctl needs is here without them.
"""

from __future__ import annotations

import sys
from _socket import socket

TYPE_CHECKING = False  # that of typing, without its import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

ROUNDS = 60  # of a fake group


def options(argv: list[str]) -> dict[str, list[str]]:
    """Parse --key=value and --flag; positional words are stored under the empty key."""
    results: dict[str, list[str]] = {}
    for word in argv:
        if word.startswith("--"):
            key, _, value = word[2:].partition("=")
            results.setdefault(key, []).append(value)
        else:
            results.setdefault("", []).append(word)
    return results


def single(results: dict[str, list[str]], key: str, default: str = "") -> str:
    return results.get(key, [default])[-1]


class LinkError(Exception):
    """An error: the fake engine cannot be reached, or has ended."""


class Link:
    """A connection to the fake engine: one JSON object per line. Its loss ends the program."""

    def __init__(self, results: dict[str, list[str]]) -> None:
        self.socket = socket()
        self.socket.settimeout(5)
        try:
            self.socket.connect((single(results, "host"), int(single(results, "port"))))
        except OSError as error:
            self.lost(f"cannot connect: {error}")
        with open(single(results, "password-file")) as file:  # noqa: PTH123 - pathlib doubles the start-up time
            password = file.read().strip()
        user = single(results, "user")
        if (
            self.line(f'{{"cmd": "auth", "user": "{user}", "password": "{password}"}}')
            != '{"ok": true}'
        ):
            sys.exit("authentication failed")

    def lost(self, why: str) -> NoReturn:
        sys.exit(why)

    def line(self, request: str) -> str:
        """Send one line of JSON and return the line of the answer."""
        answer = b""
        try:
            self.socket.sendall(f"{request}\n".encode())
            while not answer.endswith(b"\n"):
                received = self.socket.recv(1 << 16)
                if not received:
                    self.lost("the engine closed the connection")
                answer += received
        except OSError as error:
            self.lost(f"the connection broke: {error}")
        return answer.decode().strip()

    def ask(self, **request: object) -> dict:
        import json

        return json.loads(self.line(json.dumps(request)))


class VariantLink(Link):
    """The connection to one variant of a group: its loss is an exception."""

    def __init__(self, results: dict[str, list[str]], variant: str) -> None:
        words = (word.split("=", 1) for word in variant.split(","))
        super().__init__({**results, **{name: [value] for name, value in words}})

    def lost(self, why: str) -> NoReturn:
        raise LinkError(why)


def slices(rate: float, rounds: int, place: int) -> dict:
    """Return the slices of a variant: 100 operations each, at about `rate`."""
    import random

    rng = random.Random()
    ops = 100
    wall = [max(1, int(1e9 * ops / (rate * (1 + rng.gauss(0, 0.003))))) for _ in range(rounds)]
    return {
        "start_ns": [n * 1_000_000 for n in range(rounds)], "wall_ns": wall, "ops": [ops] * rounds,
        "cpu_ns": [w // 2 for w in wall], "client_cpu_ns": [w // 4 for w in wall],
        "client_delay_ns": None, "position": [(place + n) % 2 for n in range(rounds)],
    }  # fmt: skip


def in_turns(
    results: dict[str, list[str]], tool: str, drive: Callable[[VariantLink, int], dict]
) -> NoReturn:
    """Print the report of a group and end the program. `drive` loads one variant and returns its part."""
    import json

    document: dict = {"tool": tool, "schema": 1, "options": results}
    variants: list[dict] = []
    status = 0
    for place, variant in enumerate(results["variant"]):
        try:
            variants.append(drive(VariantLink(results, variant), place))
        except LinkError as error:
            document |= {"failure": str(error), "failed_variant": place}
            print(error, file=sys.stderr)
            status = 1
            break
    document["group"] = {
        "slice_s": 0.002 if tool == "pillowfight" else None,
        "slice_ops": 500 if tool == "append" else None,
        "round_seed": int(single(results, "round-seed")), "warmup_rounds": 0,
        "rounds": ROUNDS, "seconds": 1.0, "variants": variants,
    }  # fmt: skip
    print(json.dumps(document), flush=True)
    sys.exit(status)


def histogram(count: int, value: int) -> dict:
    half = count // 2
    buckets = [[value, half], [value * 2, count - half]] if count else []
    mean = sum(v * n for v, n in buckets) / count if count else 0
    return {
        "count": count, "mean": mean, "max": value * 2 if count else 0,
        "p50": value, "p90": value * 2, "p95": value * 2, "p99": value * 2, "p99_9": value * 2,
        "buckets": [b for b in buckets if b[1]],
    }  # fmt: skip
