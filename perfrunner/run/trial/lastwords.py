"""The end of a program's log, for the message of its failure."""

from __future__ import annotations

from perfrunner.cluster.transport import Transport

LINES, CHARACTERS = 3, 600


def last_words(host: Transport, log: str) -> str:
    """On one line; empty where it is silent or was never written."""
    said = host.run(["tail", "-n", str(LINES), log], check=False).stdout
    return " | ".join(line.strip() for line in said.splitlines() if line.strip())[-CHARACTERS:]
