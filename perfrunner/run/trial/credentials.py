"""The password of a run.

Drawn afresh for every run and every resume, kept in files of mode 0600 on the hosts that need it, given to the
programs by path: it is in no argument list, no log, no result. Authentication is always on, so that a
laptop measures the same path as a cluster; it costs a few packets per connection and nothing per operation.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import dataclass

from perfrunner.cluster.transport import Transport
from perfrunner.errors import HostError

USER = "perfrunner"


@dataclass(frozen=True)
class CredentialFiles:
    """Where the secret lies on a host (absolute paths)."""

    directory: str

    @property
    def users(self) -> str:
        """What the engine reads: {"name": "password"}."""
        return f"{self.directory}/users.json"

    @property
    def password(self) -> str:
        """What the clients read: the password alone."""
        return f"{self.directory}/password"


class Credentials:
    """Held in memory for the length of the run only; not shown by repr."""

    def __init__(self) -> None:
        self._password = secrets.token_urlsafe(24)

    def install(self, host: Transport, directory: str) -> CredentialFiles:
        files = CredentialFiles(directory)
        host.makedirs(directory)
        host.put_bytes(json.dumps({USER: self._password}).encode(), files.users, mode=0o600)
        host.put_bytes(self._password.encode(), files.password, mode=0o600)
        return files

    @staticmethod
    def remove(host: Transport, directory: str) -> None:
        """Best effort: a host that is gone keeps a password that no engine accepts any more."""
        with contextlib.suppress(HostError):
            host.remove_tree(directory)
