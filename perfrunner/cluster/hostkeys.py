"""Which host keys are believed.

Fabric by itself believes every key. Here a host must be in the known-hosts file (`strict`), or is written into it at
first sight (`accept-new`); a key that changed is refused in both, and so is one that is @revoked, whatever host shows
it: before we log in there. Lines that paramiko cannot read (@cert-authority) are left out.
"""

from __future__ import annotations

import base64
import fcntl
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from perfrunner.errors import HostError

if TYPE_CHECKING:
    import paramiko

HostKeyPolicy: TypeAlias = Literal["strict", "accept-new"]
DEFAULT_KNOWN_HOSTS = "~/.ssh/known_hosts"


class KnownHosts:
    """A known-hosts file and the policy for hosts that are not in it."""

    def __init__(self, file: str | None, policy: HostKeyPolicy) -> None:
        self.path = Path(file or DEFAULT_KNOWN_HOSTS).expanduser()
        self.policy = policy
        self._revoked: set[str] = set()

    def install(self, client: paramiko.SSHClient) -> None:
        """Before the connection is opened."""
        self._load(client)
        client.set_missing_host_key_policy(self._policy())

    def _load(self, client: paramiko.SSHClient) -> None:
        from paramiko.hostkeys import InvalidHostKey

        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            if self.policy == "accept-new":
                return
            raise HostError(
                f"there is no known-hosts file {self.path}", hint=self.remedy()
            ) from None
        except OSError as error:
            raise HostError(f"{self.path} cannot be read: {error.strerror}") from error
        self._revoked = {
            words[3] for line in lines if len(words := line.split()) >= 4 and words[0] == "@revoked"
        }
        plain = [line for line in lines if not self._is_left_out(line)]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".known_hosts") as readable:
            readable.write("\n".join(plain) + "\n")
            readable.flush()
            try:
                client.get_host_keys().load(readable.name)
            except InvalidHostKey as error:
                raise HostError(f"{self.path} has a malformed line: {error.line}") from error

    def _is_left_out(self, line: str) -> bool:
        """A revoked key's own line, too: so that its host is asked about below."""
        return line.lstrip().startswith("@") or not self._revoked.isdisjoint(line.split()[2:3])

    def _policy(self) -> paramiko.MissingHostKeyPolicy:
        import paramiko

        known = self

        class NotKnown(paramiko.MissingHostKeyPolicy):
            def missing_host_key(
                self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
            ) -> None:
                if key.get_base64() in known._revoked:
                    raise HostError(f"{hostname}: its host key is marked @revoked in {known.path}")
                if known.policy == "strict":
                    paramiko.RejectPolicy().missing_host_key(client, hostname, key)
                client.get_host_keys().add(hostname, key.get_name(), key)
                known.remember(hostname, key)

        return NotKnown()

    def remember(self, hostname: str, key: paramiko.PKey) -> None:
        """Append one line; runs that start at the same moment do not spoil each other's."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                end = file.seek(0, os.SEEK_END)
                file.seek(max(end - 1, 0))
                begun = "\n" if file.read(1) not in (b"", b"\n") else ""
                encoded = base64.b64encode(key.asbytes()).decode()
                file.write(f"{begun}{hostname} {key.get_name()} {encoded}\n".encode("ascii"))
        except OSError as error:
            raise HostError(f"{self.path} cannot be written: {error.strerror}") from error

    def remedy(self, address: str = "HOST", port: int = 22) -> str:
        """What a person does about an unknown host."""
        return (
            f"check the host's fingerprint, then: ssh-keyscan -p {port} {address} >> {self.path}"
            " (or say host_keys: accept-new for the host in the cluster file)"
        )
