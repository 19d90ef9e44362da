"""Where a load process runs, what every one of them is told, and what is said of one that failed."""

from __future__ import annotations

from dataclasses import dataclass

from perfrunner.cluster.process import ExitStatus
from perfrunner.cluster.transport import Transport
from perfrunner.errors import TrialError
from perfrunner.run.trial.credentials import USER, CredentialFiles
from perfrunner.run.trial.lastwords import last_words


@dataclass(frozen=True)
class ClientSeat:
    """A host, the tools and the secret on it, the trial's directory there."""

    host: Transport
    tools: str
    directory: str
    credentials: CredentialFiles
    cpus: str = ""  # where load processes run on it; empty: anywhere
    python: str = "python3"  # the interpreter of the programs that are Python


def common_flags(seat: ClientSeat) -> list[str]:
    """Of every load tool: who we are, and the bucket."""
    return [f"--user={USER}", f"--password-file={seat.credentials.password}", "--bucket=default"]


def client_failure(tool: str, seat: ClientSeat, name: str, status: ExitStatus) -> TrialError:
    """With the last words of the process `name`."""
    words = last_words(seat.host, f"{seat.directory}/{name}.log") or "silent"
    return TrialError(f"{tool} on {seat.host.name} failed ({status}): {words}")
