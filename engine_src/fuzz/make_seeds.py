"""Writes the seed corpus: small conversations from which the fuzzers start. Run it again after adding a command."""

from __future__ import annotations

import random
import struct
from pathlib import Path

HERE = Path(__file__).parent / "corpus"


def frame(opcode: int, key: bytes = b"", value: bytes = b"", extras: bytes = b"", *, magic: int = 0x80,
          vbucket: int = 0, cas: int = 0, datatype: int = 0, framing: bytes = b"") -> bytes:
    body = framing + extras + key + value
    if magic == 0x08:
        lengths = bytes([len(framing), len(key)])
    else:
        lengths = struct.pack(">H", len(key))
    return (bytes([magic, opcode]) + lengths + bytes([len(extras), datatype])
            + struct.pack(">HIIQ", vbucket, len(body), 7, cas) + body)


STORE = bytes(8)
COUNTER = struct.pack(">QQI", 1, 5, 0)
CONVERSATIONS = {
    "documents": [frame(0x01, b"k", b"v", STORE), frame(0x00, b"k"), frame(0x02, b"k", b"w", STORE), frame(0x03, b"k", b"w", STORE),
                  frame(0x0E, b"k", b"+"), frame(0x0F, b"k", b"-"), frame(0x0C, b"k"), frame(0x04, b"k"), frame(0x00, b"k")],
    "quiet": [frame(0x11, b"k", b"1", STORE), frame(0x15, b"k", b"", COUNTER), frame(0x09, b"none"), frame(0x0D, b"k"),
              frame(0x19, b"k", b"x"), frame(0x14, b"k"), frame(0x0A)],
    "versions": [frame(0xA2, b"k", b"v", struct.pack(">IIQQ", 1, 0, 3, 99)), frame(0xA8, b"k", b"", struct.pack(">IIQQI", 1, 0, 4, 99, 0x10)),
                 frame(0xA4, b"k", b"v", struct.pack(">IIQQI", 1, 0, 3, 99, 1)), frame(0xA0, b"k")],
    "counters": [frame(0x05, b"n", b"", COUNTER), frame(0x06, b"n", b"", COUNTER), frame(0x00, b"n")],
    "expiry": [frame(0x01, b"k", b"v", STORE), frame(0x1C, b"k", b"", bytes(4)), frame(0x1D, b"k", b"", b"\0\0\0\1"), frame(0x23, b"k", b"", bytes(4))],
    "locks": [frame(0x01, b"k", b"v", STORE), frame(0x94, b"k", b"", b"\0\0\0\1"), frame(0x01, b"k", b"w", STORE), frame(0x95, b"k", cas=5)],
    "lookups": [frame(0x01, b"k", b"v", STORE), frame(0xD0, b"k", b"\xc5\4\0\x11$document.exptime\0\0\0\0"),
                frame(0xD0, b"k", b"\xc6\4\0\x15$document.datatype[0]\xd2\4\0\5$XTOC", b"\0")],
    "session": [frame(0x1F, b"agent", b"\0\x03\0\x04\0\x07\0\x08\0\x0b\0\x1e"), frame(0xFE, b"", b"\0\2"), frame(0x20), frame(0x89, b"default"),
                frame(0xB5), frame(0xB5, extras=bytes(16)), frame(0x00, b"k", vbucket=9), frame(0x01, b"k", b"{}", STORE, datatype=1),
                frame(0xA0, b"k", extras=b"\2")],
    "admin": [frame(0x10), frame(0x10, b"timings"), frame(0x10, b"reset"), frame(0x10, b"detail on"), frame(0x00, b"p:k"), frame(0x10, b"detail dump"), frame(0x3E), frame(0x3D, extras=b"\2"), frame(0x96), frame(0x08),
              frame(0x1B, extras=bytes(4)), frame(0x0B), frame(0x07)],
    "flexible": [frame(0x01, b"k", b"v", STORE, magic=0x08, framing=b"\x13\1\0\5"), frame(0x00, b"k", magic=0x08, framing=b"\0"),
                 frame(0x0A, magic=0x83), frame(0x0A, magic=0x81)],
    "unknown": [frame(0x77, b"k", b"body", b"ext"), frame(0x0A), frame(0x50, b"name", b"", bytes(8))],
    "lengths": [frame(0x00, b"k")[:9] + b"\xff\xff\xff" + bytes(12), frame(0x0A)],
    # Cut in the middle of a value.
    "large": [frame(0x02, b"k", b"v" * 400, STORE), frame(0x02, b"k", b"w" * 900, STORE), frame(0x00, b"k")],
    "large-versions": [frame(0x01, b"k", b"v" * 90, STORE), frame(0xA2, b"k", b"w" * 900, struct.pack(">IIQQ", 1, 0, 3, 99)), frame(0x0C, b"k")],
    "login": [frame(0x20), frame(0x21, b"PLAIN", b"\0ann\0secret"), frame(0x21, b"SCRAM-SHA1", b"n,,n=ann,r=x"),
              frame(0x22, b"SCRAM-SHA1", b"c=biws,r=x,p=AAAA"), frame(0x00, b"k")],
}
LOGINS = {
    "plain": b"\3\x0b\0ann\0secret",
    "scram": b"\0\x0cn,,n=ann,r=xc=biws,r=x,p=AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "escaped": b"\1\x12n,a=ann,n=a=2Cn,r=xc=bixhPWFubiw=,r=x,p=AAAA",
}
# Operation, key, argument, choices of CAS, expiry, value and time (fuzz_sequence.cc).
SEQUENCES = {
    "locks": bytes([1, 0, 3, 0, 9, 0, 0, 0, 1, 0, 4, 0, 10, 0, 0, 2, 9, 0, 0, 0, 1, 0, 5, 2, 4, 0, 0, 3, 4, 0, 0, 2]),
    "expiry": bytes([1, 1, 9, 4, 8, 1, 20, 4, 0, 1, 10, 0xC0, 7, 1, 3, 8, 0, 1, 30, 0xC0, 2, 1, 1, 8, 5, 1, 7, 0]),
    "counters": bytes([5, 2, 1, 0, 5, 2, 1, 0, 6, 2, 99, 0, 7, 2, 1, 0, 5, 2, 1, 0, 11, 0, 0, 0, 3, 2, 1, 0]),
    "versions": bytes([14, 0, 3, 0, 0, 0, 0, 0, 12, 0, 4, 0, 13, 0, 9, 4, 9, 0, 0, 0, 14, 0, 5, 0, 14, 0, 5, 2,
                       15, 0, 0, 0, 1, 0, 7, 0, 15, 0, 0, 3, 15, 0, 0, 2, 14, 1, 9, 4, 0, 1, 10, 0xC0]),
    "random": random.Random(20).randbytes(1600),
}


def answer(opcode: int, status: int = 0, value: bytes = b"", opaque: int = 7) -> bytes:
    return struct.pack(">BBHBBHIIQ", 0x81, opcode, 0, 0, 0, status, len(value), opaque, 0) + value


def pushed(opcode: int, extras: bytes, key: bytes = b"", value: bytes = b"", *, vbucket: int = 0, opaque: int = 0x10000, cas: int = 1000) -> bytes:
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, vbucket, len(body), opaque, cas) + body


def marker(first: int, last: int, flags: int = 1, **where: int) -> bytes:
    return pushed(0x56, struct.pack(">QQI", first, last, flags), **where)


def mutation(seqno: int, key: bytes, value: bytes = b"v", **where: int) -> bytes:
    return pushed(0x57, struct.pack(">QQIIIHB", seqno, 1, 0, 0, 0, 0, 0), key, value, **where)


def deletion(seqno: int, key: bytes, **where: int) -> bytes:
    return pushed(0x58, struct.pack(">QQIB", seqno, 2, 1, 0), key, **where)


OPENED = [answer(0x50), answer(0x5E), answer(0x5E), answer(0x5E), answer(0x5E), answer(0x53, 0, struct.pack(">QQ", 77, 0), 0x10000),
          answer(0x53, 0, struct.pack(">QQ", 78, 0), 0x10001)]
# What a source says to its replica (fuzz_replication.cc): a byte of flags, then frames.
REPLICATIONS = {
    "changes": [b"\0", *OPENED, marker(1, 3), mutation(1, b"a"), mutation(2, b"b"), deletion(3, b"a"), marker(4, 4), pushed(0x59, struct.pack(">QQI", 4, 3, 9), b"b"),
                marker(1, 1, vbucket=1, opaque=0x10001), mutation(1, b"c", vbucket=1, opaque=0x10001), pushed(0x55, bytes(4))],
    "disk": [b"\0", *OPENED, marker(1, 9, 2), mutation(2, b"a"), mutation(9, b"b")],
    "purged": [b"\0", *OPENED, pushed(0x56, b"\2", b"", struct.pack(">QQIQQQQ", 0, 9, 2, 9, 0, 0, 7)), mutation(8, b"a"), marker(9, 12), mutation(12, b"b")],
    "short": [b"\1", *OPENED, marker(1, 40), *(mutation(i, b"key%d" % i, bytes(6000)) for i in range(1, 41)), frame(0x5C)],
    "rollback": [b"\0", *OPENED[:5], answer(0x53, 0x23, struct.pack(">Q", 0), 0x10000), answer(0x53, 0, struct.pack(">QQ", 77, 0), 0x20000),
                 marker(1, 1, opaque=0x20000), mutation(1, b"a", opaque=0x20000)],
    "last": [b"\0", *OPENED, marker(1, 2**64 - 1), mutation(2**64 - 1, b"a", cas=2**64 - 1)],
    "login": [b"\2", answer(0x20, 0, b"SCRAM-SHA512 SCRAM-SHA1 PLAIN"), answer(0x21, 0x21, b"r=x,s=AAAA,i=4096"), answer(0x22, 0, b"v=AAAA")],
}

# Answers to the load generators (fuzz_replies.cc): protocol, size of a piece, size of the buffer, then the answers.
REPLIES = {
    "binary": [b"\0\x05\1", answer(0x01), answer(0x00, 0, b"\0\0\0\0hello"), answer(0x00, 1), answer(0x01, 0x82), answer(0x00, 0, bytes(20000))],
    "text": [b"\1\x03\1", b"STORED\r\nVALUE key 7 5\r\nhello\r\nEND\r\nEND\r\nNOT_STORED\r\nSERVER_ERROR out of memory storing object\r\n",
             b"VALUE key 0 20000\r\n", bytes(20000), b"\r\nEND\r\nCLIENT_ERROR bad data chunk\r\n"],
    "meta": [b"\2\x04\1", b"VA 5 O100000\r\nhello\r\nHD O200000\r\nEN O300000\r\nNS O400000\r\nMN\r\nSERVER_ERROR too large\r\nVA 20000 O500000\r\n",
             bytes(20000), b"\r\nMN\r\nERROR\r\n"],
    "resp": [b"\3\x02\1", b"+OK\r\n$5\r\nhello\r\n$-1\r\n_\r\n-OOM full\r\n-LOADING wait\r\n$20000\r\n", bytes(20000), b"\r\n-NOAUTH who\r\n"],
}


def main() -> None:
    for name, frames in CONVERSATIONS.items():
        flags = {"login": b"\1", "large": b"\2", "large-versions": b"\2"}.get(name, b"\0")
        for target, head in (("frame", b""), ("connection", flags + b"\x80")):
            (HERE / target).mkdir(parents=True, exist_ok=True)
            (HERE / target / name).write_bytes(head + b"".join(frames))
    (HERE / "sequence").mkdir(parents=True, exist_ok=True)
    for name, steps in SEQUENCES.items():
        (HERE / "sequence" / name).write_bytes(steps)
    (HERE / "replication").mkdir(parents=True, exist_ok=True)
    for name, frames in REPLICATIONS.items():
        (HERE / "replication" / name).write_bytes(b"".join(frames))
    (HERE / "replies").mkdir(parents=True, exist_ok=True)
    for name, parts in REPLIES.items():
        (HERE / "replies" / name).write_bytes(b"".join(parts))
    (HERE / "login").mkdir(parents=True, exist_ok=True)
    for name, text in LOGINS.items():
        (HERE / "login" / name).write_bytes(text)


if __name__ == "__main__":
    main()
