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
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.agent import AgentKey, AgentSSH
from paramiko.auth_handler import AuthHandler
from paramiko.common import MSG_USERAUTH_PK_OK, cMSG_USERAUTH_REQUEST
from paramiko.message import Message
from paramiko.pkey import PublicBlob, UnknownKeyType

from perfrunner.hosts.hostkeys import RSA_SIGNATURES, SUFFIX, plain_key, type_of
from perfrunner.hosts.openssh import Identities

if TYPE_CHECKING:
    from types import TracebackType

_AGENT_TIMEOUT_S = 60.0  # a hardware key may wait for a touch
_LIST_KEYS, _KEYS = b"\x0b", 12  # messages of the agent's protocol
_SERVICE = "ssh-connection"
_NO_ANSWER = "Authentication timeout"  # Paramiko's
_OPENSSH_PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----"
_OPENSSH_BEGIN, _OPENSSH_END = (
    f"{_OPENSSH_PRIVATE}\n".encode(), b"\n-----END OPENSSH PRIVATE KEY-----\n",
)  # fmt: skip


class LoginRefused(paramiko.AuthenticationException):
    """No key lets us in. `remedy` says what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


class _NotSigned(paramiko.SSHException):
    """The agent refuses to use a key, or the key cannot sign."""


class SlowLogin(paramiko.SSHException):
    """The server does not answer the login in time."""


_Library: Any = AuthHandler  # whose types lack what a subclass needs


class _KeyHandler(_Library):  # type: ignore[misc]
    """Asks the server for one key, as ssh does: Paramiko signs at once, which may need a person, and in its own thread.

    A key that cannot sign would end the connection there.
    """

    _request: Message
    _known = False

    def log_in(self, user: str, key: paramiko.PKey) -> list[str]:
        """Log in with the key; return what the server wants in addition.

        Raises paramiko.AuthenticationException, or _NotSigned.
        """
        if isinstance(key, AgentKey):
            self._send(user, key, signed=False)
            try:
                self.wait_for_response(self.auth_event)
            except paramiko.AuthenticationException:
                if not self._known:
                    raise
        self._send(user, key, signed=True)
        further: list[str] = self.wait_for_response(self.auth_event)
        return further

    def _send(self, user: str, key: paramiko.PKey, *, signed: bool) -> None:
        kind, public = self._get_key_type_and_bits(key)
        algorithm = self._finalize_pubkey_algorithm(kind)
        request = Message()
        request.add_byte(cMSG_USERAUTH_REQUEST)
        for text in (user, _SERVICE, "publickey"):
            request.add_string(text)
        request.add_boolean(signed)
        request.add_string(algorithm)
        request.add_string(public)
        if signed:
            session = self._get_session_blob(key, _SERVICE, user, algorithm)
            try:
                request.add_string(key.sign_ssh_data(session, algorithm))
            except (paramiko.SSHException, OSError, EOFError, ValueError) as error:
                raise _NotSigned(str(error)) from error
        self._request = request
        self.username, self.auth_method, self.auth_event = user, "publickey", threading.Event()
        with self.transport.lock:
            self._request_auth()

    def _parse_service_accept(self, m: Message) -> None:
        if m.get_text() == "ssh-userauth":
            self.transport._send_message(self._request)  # noqa: SLF001

    def _parse_known(self, m: Message) -> None:
        del m
        self._known = True
        self.auth_event.set()

    @property
    def _client_handler_table(self) -> dict[int, Callable[[Message], None]]:
        return {**super()._client_handler_table, MSG_USERAUTH_PK_OK: self._parse_known}


def _log_in_without_key(transport: paramiko.Transport, user: str) -> list[str] | None:
    """Log in as ssh tries first, since some servers let a user in by other means; None if keys are to be tried.

    Raises LoginRefused if the server accepts no keys, or SlowLogin.
    """
    try:
        return transport.auth_none(user)
    except paramiko.BadAuthenticationType as error:
        if "publickey" in error.allowed_types:
            return None
        raise LoginRefused(
            f"the server accepts no key, only: {', '.join(error.allowed_types)}",
            "nobody is asked for a password; set PubkeyAuthentication yes in its sshd_config, and look for"
            " AuthenticationMethods there",
        ) from error
    except paramiko.AuthenticationException as error:
        if _NO_ANSWER in str(error):
            raise SlowLogin("no answer to the first request") from error
        raise


@dataclass(frozen=True)
class _Offer:
    """A key to try. `load` returns None if it cannot sign (a passphrase, no private half)."""

    name: str
    type: str
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
        # Names of keys, by what became of them.
        self._refused: list[str] = []
        self._unsigned: list[str] = []
        self._locked: list[str] = []
        self._unsafe: list[str] = []
        self._unreadable: list[str] = []
        # Methods that the server wants after a key that it has accepted.
        self._wanted: list[str] = []

    def authenticate(self, transport: paramiko.Transport) -> list[str]:
        """Log in. Raises paramiko.AuthenticationException if no key is accepted, or SlowLogin."""
        further = _log_in_without_key(transport, self._user)
        if further is not None:
            return further
        with _Agent(self._identities.agent) as agent:
            for offer in self._offers(agent) if self._identities.public_keys else ():
                key = offer.load() if self._allows(offer.type) else None
                if key is None:
                    continue
                if self._is_enough(transport, offer, key):
                    return []
                if not transport.is_active() or (self._wanted and "publickey" not in self._wanted):
                    break
        raise self._reason(closed=not transport.is_active())

    def _is_enough(self, transport: paramiko.Transport, offer: _Offer, key: paramiko.PKey) -> bool:
        """Try to log in with a key. Raises SlowLogin."""
        handler = _KeyHandler(transport)
        transport.auth_handler = handler
        try:
            further = handler.log_in(self._user, key)
        except _NotSigned:
            failed = self._unsigned if isinstance(key, AgentKey) else self._unreadable
            failed.append(offer.name)
            return False
        except paramiko.AuthenticationException as error:
            if _NO_ANSWER in str(error):
                raise SlowLogin(f"no answer to the key {offer.name}") from error
            self._refused.append(offer.name)
            return False
        self._wanted = further or self._wanted
        return not further

    def _reason(self, *, closed: bool) -> LoginRefused:
        """Return why no key lets us in. `closed`: the server has closed the connection."""
        if self._wanted:
            missing = "a further key" if "publickey" in self._wanted else "which needs a person"
            return LoginRefused(
                f"the server also wants {' and '.join(self._wanted)}, {missing}",
                "look at AuthenticationMethods in its sshd_config",
            )
        if self._unsigned:
            return LoginRefused(
                f"the agent does not sign with the key {', '.join(self._unsigned)}, which the host would accept",
                "unlock the agent, or answer its question or touch the hardware key in time; ssh-add -T KEY.pub tries a"
                " key",
            )
        refused = ", ".join(self._refused)
        if refused and closed:
            return LoginRefused(
                f"the server closed the connection after {len(self._refused)} keys: {refused}",
                "a server counts each key against MaxAuthTries; name the right one: `key` in the cluster file, or"
                " IdentityFile and IdentitiesOnly yes in ssh_config",
            )
        if not self._identities.public_keys:
            return LoginRefused(
                "ssh_config excludes public keys, and nobody is asked for a password",
                "look at PubkeyAuthentication and PreferredAuthentications in ssh_config",
            )
        if self._unsafe:
            names = " ".join(dict.fromkeys(self._unsafe))
            text = f"ssh ignores the private key, because others can read it: {names}"
            return LoginRefused(text, f"chmod 600 {names}")
        if refused:
            return LoginRefused(
                f"the host refused our key: offered {refused}",
                "check `user` and `key` in the cluster file, and authorized_keys on the host",
            )
        if self._unreadable:
            names = " ".join(dict.fromkeys(self._unreadable))
            return LoginRefused(
                f"the private key cannot be read: {names}",
                f"ssh-keygen -y -f {names} says why. An OpenSSH key needs Unix line ends, also on its last line,"
                r" and no byte order mark: sed -i -e '1s/^\xEF\xBB\xBF//' -e 's/\r$//' -e '$a\' "
                f"{names}",
            )
        if self._locked:
            names = ", ".join(dict.fromkeys(self._locked))
            return LoginRefused(
                f"the private key has a passphrase: {names}", "add the key to an agent with ssh-add"
            )
        return LoginRefused(
            "there is no SSH key to offer, neither in an agent nor in a key file",
            "set `key` in the cluster file, or add a key to an agent with ssh-add",
        )

    def _offers(self, agent: _Agent) -> Iterator[_Offer]:
        files = [file for name in self._identities.files if (file := _public(Path(name)))]
        named = {file.blob for file in files}
        for name in self._identities.certificates:
            with contextlib.suppress(OSError, ValueError):
                yield self._certified(name, files, agent)
        for key in agent.keys:
            if key.blob in named:
                yield _Offer(f"{key.comment or key.name} (agent)", key.name, _constant(key))
        if not self._identities.only:
            for key in agent.keys:
                if key.blob not in named:
                    yield _Offer(f"{key.comment or key.name} (agent)", key.name, _constant(key))
        for file in files:
            if agent.find(file.blob) is None:
                load = functools.partial(self._private, file)
                yield _Offer(str(file.path), type_of(file.blob), load)
            certificate = Path(f"{file.path}-cert.pub")
            if not self._identities.certificates and certificate.is_file():
                with contextlib.suppress(OSError, ValueError):
                    yield self._certified(str(certificate), files, agent)

    def _allows(self, key_type: str) -> bool:
        """Return whether PubkeyAcceptedAlgorithms has the type of a key, or for RSA one of its signatures."""
        suffix = SUFFIX if key_type.endswith(SUFFIX) else ""
        names = [key_type]
        if key_type.removesuffix(suffix) == "ssh-rsa":
            names += [f"{name}{suffix}" for name in RSA_SIGNATURES]
        allowed = self._identities.algorithms
        return not allowed or any(name in allowed for name in names)

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

        return _Offer(name, certificate.key_type, load)

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

    _conn: Any

    def __init__(self, path: str | None) -> None:
        super().__init__()
        if path is None:
            return
        link = socket.socket(socket.AF_UNIX)
        try:
            link.settimeout(_AGENT_TIMEOUT_S)
            link.connect(path)
            self._conn = link
            self._keys = tuple(self._listed())
        except (OSError, TypeError, paramiko.SSHException):  # TypeError: of an empty answer
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

    def _listed(self) -> Iterator[AgentKey]:
        """Yield the agent's keys. Paramiko refuses all of them for one that it cannot read, or its comment."""
        kind, answer = self._send_message(_LIST_KEYS)  # type: ignore[attr-defined]
        for _ in range(answer.get_int() if kind == _KEYS else 0):
            blob, comment = answer.get_binary(), answer.get_binary().decode(errors="replace")
            with contextlib.suppress(ValueError, TypeError, IndexError, paramiko.SSHException):
                yield AgentKey(self, blob, comment)

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
