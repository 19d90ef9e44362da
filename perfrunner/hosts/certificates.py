"""Read OpenSSH's certificates (its PROTOCOL.certkeys), and judge those of hosts as ssh does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import paramiko
from paramiko.message import Message
from paramiko.pkey import UnknownKeyType

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
