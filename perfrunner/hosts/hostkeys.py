"""Judge a host's key as ssh does: by known_hosts files, which `ssh-keygen -F` searches.

OpenSSH itself matches the names: wildcards, negations, hashes, markers and blanks are its business (sshd(8),
SSH_KNOWN_HOSTS FILE FORMAT). The decision on what it finds is ours: one of the host's keys must be the server's, or one
of its authorities must have signed the server's certificate (OpenSSH's PROTOCOL.certkeys). A @revoked key is refused
before the login, and a cut line is skipped with a warning.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.message import Message
from paramiko.pkey import UnknownKeyType

from perfrunner.errors import HostError
from perfrunner.hosts.openssh import HostKeys

REVOKED, AUTHORITY = "@revoked", "@cert-authority"
COMMAND = "KnownHostsCommand"
_NO_COMMAND = "as in ssh, no host is believed when it fails; try it by hand"
_REVOCATION_LIST = b"SSHKRL\n\0"  # how such a file begins
_NO_LIST = "as in ssh, no host is believed without it"
_INSTALL_SSH = "install the OpenSSH client: apt-get install openssh-client"
_TIMEOUT_S = 60.0
_LOG = logging.getLogger("perfrunner.hosts")


class UnknownKey(HostError):  # noqa: N818
    """No file has a key of the host of this type."""


class ChangedKey(HostError):  # noqa: N818
    """The files have another key of the host, of the same type."""


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file that names the host. `type` is that of the key, such as ssh-ed25519."""

    file: str
    marker: str
    type: str
    blob: bytes


class KnownHosts:
    """The entries of the known_hosts files and KnownHostsCommand for one host, by which its key is judged."""

    def __init__(self, host_keys: HostKeys) -> None:
        self._host_keys = host_keys
        # By name: entries under a name without the port only confirm a key, as in ssh.
        self._entries = [
            [entry for file in self._files for entry in _entries(name, file)]
            for name in host_keys.names
        ]
        self._expected = [*self._entries[0], *self._asked(host_keys.names[0])]

    @property
    def _files(self) -> tuple[str, ...]:
        return (*self._host_keys.user_files, *self._host_keys.global_files)

    @property
    def files(self) -> str:
        """Return the names of the user's files, for messages."""
        return ", ".join(self._host_keys.user_files) or "any file (UserKnownHostsFile none)"

    def types(self) -> list[str]:
        """Return the types of the host's keys, which the server is asked for first."""
        return list(dict.fromkeys(e.type for e in self._expected if not e.marker))

    @property
    def has_authority(self) -> bool:
        """Return whether an authority is known, so that any certificate is better than a key."""
        return any(e.marker == AUTHORITY for e in (*self._expected, *self._entries[-1]))

    def judge(self, blob: bytes, certificate: bytes = b"") -> None:
        """Return if `blob` is a key of the host. Raises UnknownKey, ChangedKey or, if it is revoked, HostError.

        `certificate` is that of the key, if the server has shown one. One that is not believed has no effect. Under
        `accept-new` the key of an unknown host is added to the first of the user's files.
        """
        named, key_type = self._host_keys.names[0], type_of(blob)
        known = [
            [*entries, *self._asked(name, certificate or blob)]
            for name, entries in zip(self._host_keys.names, self._entries, strict=True)
        ]
        everything = [entry for entries in known for entry in entries]
        shown = _read(named, certificate)
        for entry in everything:
            if entry.marker == REVOKED and entry.blob in (blob, shown and shown.authority):
                raise HostError(f"{named}: its host key is marked {REVOKED} in {entry.file}")
        if (file := self._host_keys.revoked) and _is_revoked(file, blob, certificate, shown):
            raise HostError(f"{named}: its host key is revoked by {file} (RevokedHostKeys)")
        if not self._host_keys.checked:
            return
        if any(not entry.marker and entry.blob == blob for entry in everything):
            return
        authorities = {entry.blob for entry in everything if entry.marker == AUTHORITY}
        doubt = self._doubt(shown, authorities) if authorities else None
        if doubt == "":
            return
        if other := [e for e in known[0] if not e.marker and e.type == key_type]:
            hint = f"if the host was reinstalled, run: ssh-keygen -R '{named}' -f {other[0].file}, then add the new key"
            if other[0].file == COMMAND:
                hint = f"if the host was reinstalled, let {COMMAND} print its new key"
            text = f"{other[0].file} (got {fingerprint(blob)}): another host may be answering"
            raise ChangedKey(text, hint)
        if self._host_keys.policy == "strict":
            more = f", and its {AUTHORITY} line does not help: {doubt}" if doubt else ""
            raise UnknownKey(f"not in {self.files}{more}")
        if self._host_keys.user_files:
            name = hashed(named) if self._host_keys.hashed else named
            path = Path(self._host_keys.user_files[0])
            try:
                _add(path, name, key_type, blob)
            except OSError as error:
                # As in ssh: with a read-only home, every connection accepts the key again.
                _LOG.warning("%s: the key of %s was not added: %s", path, named, error.strerror)

    def _asked(self, name: str, public: bytes = b"") -> list[Entry]:
        """Return the entries of a host that KnownHostsCommand prints. `public` is the key or certificate to judge.

        As in ssh, the command is asked before the connection as well. Raises HostError if it fails, because it may know
        that a key is revoked.
        """
        if not self._host_keys.command:
            return []
        plain = self._host_keys.names[-1]  # without the port
        tokens = {"%": "%", "H": plain, "I": "ORDER", "K": "NONE", "f": "NONE", "t": "NONE"}
        if public:
            key = base64.b64encode(public).decode()
            own = {"K": key, "f": fingerprint(_plain(public)), "t": type_of(public)}
            tokens |= {"H": name, "I": "HOSTNAME", **own}
        command = [
            re.sub("%(.)", lambda match: tokens[match[1]], word) for word in self._host_keys.command
        ]
        if not command[0].startswith("/"):
            raise HostError(f"{COMMAND} of ssh_config: expected an absolute path: {command[0]}")
        done = _run(command, f"look at {COMMAND} in ssh_config")
        if done.returncode:
            output = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            raise HostError(f"{COMMAND} failed: {command[0]}: {output}", _NO_COMMAND)
        with tempfile.NamedTemporaryFile() as file:
            file.write(done.stdout)
            file.flush()
            return [dataclasses.replace(entry, file=COMMAND) for entry in _entries(name, file.name)]

    def _doubt(self, shown: HostCertificate | None, authorities: Collection[bytes]) -> str:
        """Return why no authority of the host vouches for its key; empty if one does."""
        if shown is None:
            return "the host has no certificate"
        if shown.authority not in authorities:
            return "its certificate is of another authority"
        # The last name is the one without the port.
        reason = shown.problem(self._host_keys.names[-1], self._host_keys.signatures, time.time())
        return reason and f"its certificate {reason}"


def _read(named: str, certificate: bytes) -> HostCertificate | None:
    """Return the certificate that a host has shown, if any. Raises HostError for a damaged one."""
    try:
        return HostCertificate.read(certificate) if certificate else None
    except ValueError as error:
        raise HostError(f"{named}: its host certificate is damaged: {error}") from error


def _plain(public: bytes) -> bytes:
    return plain_key(public) if type_of(public).endswith(SUFFIX) else public


def _is_revoked(file: str, blob: bytes, certificate: bytes, shown: HostCertificate | None) -> bool:
    """Return whether a file of keys, or a revocation list of ssh-keygen, has a key or the authority behind it.

    Raises HostError for a file that cannot be read: as in ssh, no host is believed then.
    """
    try:
        content = Path(file).read_bytes()
        if not content.startswith(_REVOCATION_LIST):
            keys = (blob, shown.authority if shown else blob)
            lines = [line.split() for line in content.splitlines()]
            return any(
                base64.b64decode(words[1], validate=True) in keys
                for words in lines
                if words and not words[0].startswith(b"#")
            )
    except OSError as error:
        raise HostError(
            f"{file} (RevokedHostKeys) cannot be read: {error.strerror}", _NO_LIST
        ) from None
    except (IndexError, ValueError):
        raise HostError(f"{file} (RevokedHostKeys) has a line that is no key", _NO_LIST) from None
    with tempfile.NamedTemporaryFile() as key:
        for public in filter(None, (certificate, blob)):
            key.write(f"{type_of(public)} {base64.b64encode(public).decode()}\n".encode())
        key.flush()
        done = _run(["ssh-keygen", "-Q", "-f", file, key.name])
    if done.returncode not in (0, 1):
        reason = done.stderr.decode(errors="replace").strip()
        raise HostError(f"{file} (RevokedHostKeys) cannot be read: {reason}", _NO_LIST)
    return done.returncode == 1


def fingerprint(blob: bytes) -> str:
    """Return the SHA256 fingerprint of a key, as ssh-keygen -l prints it."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def hashed(name: str) -> str:
    """Return a host's name as HashKnownHosts writes it."""
    salt = secrets.token_bytes(20)
    digest = hmac.new(salt, name.encode(), "sha1").digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def _entries(name: str, file: str) -> Iterator[Entry]:
    """Yield the entries of a host in one file; none if the file does not exist."""
    if not os.access(file, os.F_OK):
        return
    done = _run(["ssh-keygen", "-F", name, "-f", file])
    # Status 1 is "not found"; a file that ssh cannot read is none that it would believe.
    if done.returncode and (message := done.stderr.decode(errors="replace").strip()):
        if not os.access(file, os.R_OK):
            raise HostError(f"{file} cannot be read: {message}")
        _LOG.warning("%s", message)
    for line in done.stdout.decode("utf-8", errors="replace").splitlines():
        if not line.startswith("#") and line.strip():
            entry = _parsed(line, file)
            if entry is None:
                _LOG.warning("%s: skipped the line of %s: its key is damaged", file, name)
            else:
                yield entry


def _parsed(line: str, file: str) -> Entry | None:
    words = line.split()
    marker = words.pop(0) if words[0].startswith("@") else ""
    try:
        blob = base64.b64decode(words[2], validate=True)
        complete = _fields(blob)
    except (IndexError, binascii.Error, ValueError):
        return None
    if len(complete) < 2 or complete[0] != words[1].encode():
        return None
    if marker not in ("", REVOKED, AUTHORITY):
        return None
    key_type = words[1]
    if key_type == "ssh-ed25519" and len(complete[1]) != 32:
        return None
    return Entry(file, marker, key_type, blob)


def _fields(blob: bytes) -> list[bytes]:
    """Return the strings of a public key. Raises ValueError if it is cut."""
    fields = []
    while blob:
        size = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 + size:
            raise ValueError("the key is cut")
        fields.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    return fields


def type_of(blob: bytes) -> str:
    """Return the type of a public key or certificate, such as ssh-ed25519."""
    return blob[4 : 4 + int.from_bytes(blob[:4], "big")].decode("ascii", errors="replace")


def _run(command: Sequence[str], remedy: str = _INSTALL_SSH) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise HostError(f"{command[0]} cannot be started: {error.strerror}", remedy) from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{command[0]} did not end within {_TIMEOUT_S:g} s") from error


def _add(path: Path, name: str, key_type: str, blob: bytes) -> None:
    """Append one line; runs that start at the same moment do not spoil each other's. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        begun = "\n" if file.read(1) not in (b"", b"\n") else ""
        encoded = base64.b64encode(blob).decode()
        file.write(f"{begun}{name} {key_type} {encoded}\n".encode())


SUFFIX = "-cert-v01@openssh.com"  # of the key type
RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
_HOST = 2  # the type of a certificate that is not a user's
# Fields of a public key after its type.
_KEY_FIELDS = {
    "ssh-rsa": 2, "ssh-ed25519": 1, "ecdsa-sha2-nistp256": 2, "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2, "sk-ssh-ed25519": 2, "sk-ecdsa-sha2-nistp256": 3,
}  # fmt: skip


def plain_key(certificate: bytes) -> bytes:
    """Return the public key that a certificate certifies. Raises ValueError if it is no certificate."""
    return _key_in(Message(certificate))


def _text(message: Message) -> str:
    """Read a text, which may not be UTF-8."""
    return message.get_binary().decode("utf-8", "replace")


def _key_in(message: Message) -> bytes:
    """Read a certificate up to the end of its public key, and return that key. Raises ValueError."""
    name = message.get_text()
    base = name.removesuffix(SUFFIX)
    if base == name or base not in _KEY_FIELDS:
        raise ValueError(f"not a certificate: {name}")
    message.get_binary()  # nonce
    key = Message()
    key.add_string(f"{base}@openssh.com" if base.startswith("sk-") else base)
    for _ in range(_KEY_FIELDS[base]):
        key.add_string(message.get_binary())
    return key.asbytes()


@dataclass(frozen=True)
class HostCertificate:
    """A certificate that a host has shown. It proves nothing before `problem` has checked it.

    authority: the public key that claims to have signed it. names: the hosts that it is for; without names, all hosts.
    valid: its first second, and the second after its last. critical: options that a client must understand.
    """

    authority: bytes
    kind: int
    names: tuple[str, ...]
    valid: tuple[int, int]
    critical: bytes
    signed: bytes
    signature: bytes

    @classmethod
    def read(cls, blob: bytes) -> HostCertificate:
        """Read a certificate. Raises ValueError if it is none."""
        message = Message(blob)
        _key_in(message)
        message.get_int64()  # serial number
        kind = message.get_int()
        message.get_binary()  # its name
        listed, names = message.get_binary(), []
        within = Message(listed)
        while within.packet.tell() < len(listed):
            names.append(_text(within))
        valid = message.get_int64(), message.get_int64()
        critical = message.get_binary()
        message.get_binary()  # extensions
        message.get_binary()  # reserved
        authority = message.get_binary()
        signed = message.get_so_far()
        return cls(authority, kind, tuple(names), valid, critical, signed, message.get_binary())

    def problem(self, name: str, algorithms: Collection[str], now: float) -> str:
        """Return what is wrong with the certificate, such as "has expired"; empty if it proves that the host is `name`.

        `algorithms` are those that CASignatureAlgorithms allows.
        """
        first, end = self.valid
        algorithm = _text(Message(self.signature))
        for wrong, text in (
            (self.kind != _HOST, "is not one of a host"),
            (now < first, "is not valid yet"),
            (now >= end, "has expired"),
            (bool(self.names) and name not in self.names, f"is not for {name}"),
            (bool(self.critical), "has critical options"),
            (
                algorithm not in algorithms,
                f"is signed with {algorithm}, which CASignatureAlgorithms excludes",
            ),
        ):
            if wrong:
                return text
        try:
            key = paramiko.PKey.from_type_string(_text(Message(self.authority)), self.authority)
            verified = key.verify_ssh_sig(self.signed, Message(self.signature))
        except (ValueError, paramiko.SSHException, UnknownKeyType):
            verified = False
        return "" if verified else "has a wrong signature"
