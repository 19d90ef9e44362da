"""Log in with the keys that ssh would offer, in its order.

OpenSSH offers certificates of CertificateFile first, then keys of IdentityFile that the agent has, then the agent's
other keys (not with IdentitiesOnly), then the remaining files, each followed by its certificate KEY-cert.pub. A public
file names a key of the agent. Nobody is asked for a passphrase: such a key has to be in the agent.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
from paramiko.agent import AgentKey, AgentSSH
from paramiko.message import Message
from paramiko.pkey import PublicBlob, UnknownKeyType

from perfrunner.hosts.certificates import plain_key
from perfrunner.hosts.openssh import Identities

if TYPE_CHECKING:
    from types import TracebackType

_AGENT_TIMEOUT_S = 60.0  # a hardware key may wait for a touch
_NO_ANSWER = "Authentication timeout"  # Paramiko's
_OPENSSH_PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----"
_OPENSSH_BEGIN, _OPENSSH_END = (
    f"{_OPENSSH_PRIVATE}\n".encode(), b"\n-----END OPENSSH PRIVATE KEY-----\n",
)  # fmt: skip


class NoIdentity(paramiko.AuthenticationException):
    """There is no key to offer."""


class NoPublicKeys(paramiko.AuthenticationException):
    """The configuration excludes public keys."""


class LockedIdentity(paramiko.AuthenticationException):
    """The only keys to offer have a passphrase, and the agent has none of them."""


class UnsafeIdentity(paramiko.AuthenticationException):
    """No key was accepted, and one was not offered because others can read its file."""


class UnreadableIdentity(paramiko.AuthenticationException):
    """The only keys to offer are in files whose format is damaged, or not known here."""


class SlowLogin(paramiko.SSHException):
    """The server does not answer the login in time."""


@dataclass(frozen=True)
class _Offer:
    """A key to try. `load` returns None if it cannot sign (a passphrase, no private half)."""

    name: str
    load: Callable[[], paramiko.PKey | None]


@dataclass(frozen=True)
class _File:
    """A file of IdentityFile, and the blob of its public key."""

    path: Path
    blob: bytes


class OpenSshLogin:
    """The strategy that paramiko's `connect` takes as `auth_strategy`."""

    def __init__(self, user: str, identities: Identities) -> None:
        self._user = user
        self._identities = identities
        self._locked: list[str] = []
        self._unsafe: list[str] = []
        self._unreadable: list[str] = []

    def authenticate(self, transport: paramiko.Transport) -> list[str]:
        """Log in. Raises paramiko.AuthenticationException if no key is accepted, or SlowLogin."""
        try:
            # ssh also asks for this first: some servers let a user in by other means.
            return transport.auth_none(self._user)
        except paramiko.BadAuthenticationType:
            pass
        refused: list[str] = []
        wanted: list[str] = []
        with _Agent(self._identities.agent) as agent:
            for offer in self._offers(agent) if self._identities.public_keys else ():
                key = offer.load()
                if key is None:
                    continue
                try:
                    further = transport.auth_publickey(self._user, key)
                except paramiko.AuthenticationException as error:
                    if _NO_ANSWER in str(error):
                        raise SlowLogin(f"no answer to the key {offer.name}") from error
                    refused.append(offer.name)
                    if not transport.is_active():
                        break
                    continue
                if not further:
                    return []
                wanted = further
                if "publickey" not in further:
                    break
        if wanted:
            missing = "a further key" if "publickey" in wanted else "which needs a person"
            raise paramiko.AuthenticationException(
                f"the server also wants {' and '.join(wanted)}, {missing}"
            )
        if not self._identities.public_keys:
            raise NoPublicKeys("no public keys")
        if self._unsafe:
            raise UnsafeIdentity(" ".join(dict.fromkeys(self._unsafe)))
        if refused:
            raise paramiko.AuthenticationException(f"offered {', '.join(refused)}")
        if self._unreadable:
            raise UnreadableIdentity(" ".join(dict.fromkeys(self._unreadable)))
        if self._locked:
            raise LockedIdentity(", ".join(dict.fromkeys(self._locked)))
        raise NoIdentity("no key")

    def _offers(self, agent: _Agent) -> Iterator[_Offer]:
        files = [file for name in self._identities.files if (file := _public(Path(name)))]
        named = {file.blob for file in files}
        for name in self._identities.certificates:
            with contextlib.suppress(OSError, ValueError):
                yield self._certified(name, files, agent)
        for key in agent.keys:
            if key.blob in named:
                yield _Offer(f"{key.comment or key.name} (agent)", _constant(key))
        if not self._identities.only:
            for key in agent.keys:
                if key.blob not in named:
                    yield _Offer(f"{key.comment or key.name} (agent)", _constant(key))
        for file in files:
            if agent.find(file.blob) is None:
                yield _Offer(str(file.path), functools.partial(self._private, file))
            certificate = Path(f"{file.path}-cert.pub")
            if not self._identities.certificates and certificate.is_file():
                with contextlib.suppress(OSError, ValueError):
                    yield self._certified(str(certificate), files, agent)

    def _certified(self, name: str, files: list[_File], agent: _Agent) -> _Offer:
        """Return the offer of a certificate. Its key is the agent's, or one of `files`."""
        certificate = PublicBlob.from_file(name)
        plain = plain_key(certificate.key_blob)

        def load() -> paramiko.PKey | None:
            key: paramiko.PKey | None = agent.find(certificate.key_blob)
            if key is not None:
                return key
            if (known := agent.find(plain)) is not None:
                key = AgentKey(known.agent, known.blob, known.comment)
            else:
                key = next((self._private(file) for file in files if file.blob == plain), None)
            if key is not None:
                key.public_blob = certificate
            return key

        return _Offer(name, load)

    def _private(self, file: _File) -> paramiko.PKey | None:
        if _is_unsafe(file.path):
            self._unsafe.append(str(file.path))
            return None
        try:
            key = _loaded(file.path)
        except (paramiko.PasswordRequiredException, TypeError):  # TypeError: of the crypto library
            self._locked.append(str(file.path))
            return None
        except (OSError, ValueError, paramiko.SSHException, UnknownKeyType):
            self._unreadable.append(str(file.path))
            return None
        # Paramiko loads the certificate with the key, but it is offered separately.
        key.public_blob = None
        return key


class _Agent(AgentSSH):
    """The user's agent; without keys if there is none."""

    def __init__(self, path: str | None) -> None:
        super().__init__()
        if path is None:
            return
        link = socket.socket(socket.AF_UNIX)
        try:
            link.settimeout(_AGENT_TIMEOUT_S)
            link.connect(path)
            self._connect(link)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException):
            link.close()
            self._conn = None

    def __enter__(self) -> _Agent:  # noqa: PYI034  typing.Self needs 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()  # type: ignore[attr-defined]

    @property
    def keys(self) -> tuple[AgentKey, ...]:
        return self.get_keys()

    def find(self, blob: bytes) -> AgentKey | None:
        """Return the key with this public half."""
        return next((key for key in self.keys if key.blob == blob), None)


def _constant(key: AgentKey) -> Callable[[], paramiko.PKey | None]:
    return lambda: key


def _is_unsafe(path: Path) -> bool:
    """Return whether ssh ignores a private key because of the permissions of its file, which is the user's own."""
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and bool(status.st_mode & 0o077)


def _loaded(path: Path) -> paramiko.PKey:
    """Load a private key of which OpenSSH can read the format.

    Its own format begins at the first byte and has Unix line ends, as sshkey.c wants it. All others (PKCS #1, SEC 1,
    PKCS #8) are read by libcrypto, which is more patient than Paramiko; they are rewritten for it.
    """
    content = path.read_bytes()
    if content.startswith(_OPENSSH_BEGIN) and _OPENSSH_END in content:
        return paramiko.PKey.from_path(path)
    from cryptography.hazmat.primitives import serialization as form

    key = form.load_pem_private_key(content, None)
    text = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    with tempfile.NamedTemporaryFile("wb") as file:  # readable by the user alone
        file.write(text)
        file.flush()
        return paramiko.PKey.from_path(file.name)


def _public(path: Path) -> _File | None:
    """Return the file with its public key: of PATH.pub, or of PATH itself. None if there is no key."""
    for candidate in (Path(f"{path}.pub"), path):
        with contextlib.suppress(OSError, ValueError):
            text = candidate.read_text(encoding="utf-8", errors="replace")
            if (blob := _blob(text)) is not None:
                return _File(path, blob)
    try:
        return _File(path, _loaded(path).asbytes())
    except (OSError, ValueError, TypeError, paramiko.SSHException, UnknownKeyType):
        return _File(path, b"") if path.is_file() else None  # an old format with a passphrase


def _blob(text: str) -> bytes | None:
    """Return the public key that a public file, or a private one of OpenSSH's format, holds."""
    if text.startswith(_OPENSSH_PRIVATE):
        body = "".join(line for line in text.splitlines() if not line.startswith("-----"))
        message = Message(base64.b64decode(body))
        if message.get_bytes(15) != b"openssh-key-v1\0":
            return None
        for _ in range(3):  # cipher, KDF and its options
            message.get_binary()
        message.get_int()  # number of keys
        return message.get_binary()
    words = text.split(None, 2)
    if len(words) < 2 or text.startswith("-"):
        return None
    with contextlib.suppress(binascii.Error):
        blob = base64.b64decode(words[1], validate=True)
        if Message(blob).get_text() == words[0]:
            return blob
    return None
