"""What the fake programs share: the engine's line protocol, argument parsing, histograms. Standard library only."""

from __future__ import annotations

import json
import socket
import sys


def options(argv: list[str]) -> dict[str, list[str]]:
    """--key=value and bare --flag; positional words under the empty key."""
    found: dict[str, list[str]] = {}
    for word in argv:
        if word.startswith("--"):
            key, _, value = word[2:].partition("=")
            found.setdefault(key, []).append(value)
        else:
            found.setdefault("", []).append(word)
    return found


def one(found: dict[str, list[str]], key: str, default: str = "") -> str:
    return found.get(key, [default])[-1]


class Link:
    """A connection to the fake engine: one JSON object a line, each way."""

    def __init__(self, found: dict[str, list[str]]) -> None:
        try:
            self.socket = socket.create_connection((one(found, "host"), int(one(found, "port"))), 5)
        except OSError as error:
            sys.exit(f"cannot connect: {error}")
        self.file = self.socket.makefile("rw")
        with open(one(found, "password-file")) as file:  # noqa: PTH123 - pathlib doubles the start-up time
            answer = self.ask(cmd="auth", user=one(found, "user"), password=file.read().strip())
        if answer != {"ok": True}:
            sys.exit("authentication failed")

    def ask(self, **request: object) -> dict:
        try:
            self.file.write(json.dumps(request) + "\n")
            self.file.flush()
            line = self.file.readline()
        except OSError as error:
            sys.exit(f"the connection broke: {error}")
        if not line:
            sys.exit("the engine closed the connection")
        return json.loads(line)


def histogram(count: int, value: int) -> dict:
    half = count // 2
    buckets = [[value, half], [value * 2, count - half]] if count else []
    mean = sum(v * n for v, n in buckets) / count if count else 0
    return {
        "count": count, "mean": mean, "max": value * 2 if count else 0,
        "p50": value, "p90": value * 2, "p95": value * 2, "p99": value * 2, "p99_9": value * 2,
        "buckets": [b for b in buckets if b[1]],
    }  # fmt: skip
