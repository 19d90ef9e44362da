"""Clients that put a mixed load on a few keys and record every operation."""

from __future__ import annotations

import random
import struct
import threading
import time
import zlib
from typing import final

from tests.integration.engine.wire import Answer, Wire, frame, set_frame
from tests.support.history.record import Entry, Recorder, Target, answered
from tests.support.history.register import Call

VBUCKETS = 4
KEYS = [b"key-%d" % n for n in range(20)]
COUNTERS = [b"number-%d" % n for n in range(4)]
GET, SET, ADD, REPLACE, DELETE, INCR, APPEND = 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0E
SELECT, OBSERVE_SEQNO = 0x89, 0x91
OUTCOMES = {0x00: "ok", 0x01: "missing", 0x02: "exists", 0x05: "missing"}
# Not active, busy or out of memory: nothing was done.
REFUSALS = {0x07, 0x82, 0x85, 0x86}
KINDS = ["get"] * 9 + ["set"] * 5 + ["swap"] * 3 + ["add", "replace", "delete", "delete", "append"]
ANSWER_S = 3.0  # then an operation counts as unanswered; a pause of a node is shorter


def vbucket_of(key: bytes) -> int:
    return zlib.crc32(key) % VBUCKETS


def session(port: int, timeout: float = ANSWER_S) -> Wire:
    """Open a connection whose answers to mutations have the history and the seqno."""
    wire = Wire(port, timeout=timeout)
    wire.hello("mutation_seqno", "select_bucket", "xerror")
    assert wire.ask(SELECT, b"default").status == 0
    return wire


@final
class Client(threading.Thread):
    """One connection at a time, one operation at a time.

    It looks for another active node only when it is refused, cut off, or now and then: like real clients, some send
    operations to a node that is not active any more.
    """

    def __init__(self, number: int, recorder: Recorder, seed: int) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self._number = number
        self._recorder = recorder
        self._draw = random.Random(seed * 1000 + number)
        self._written = 0
        self._cas: dict[bytes, int] = {}
        self._ending = threading.Event()

    def stop(self) -> None:
        self._ending.set()

    def run(self) -> None:
        while not self._ending.is_set():
            target = self._recorder.target
            if target is None:
                time.sleep(0.002)
                continue
            try:
                with session(target.port) as wire:
                    self._serve(wire, target)
            except (OSError, EOFError, AssertionError):
                time.sleep(0.005)  # it is being killed, or is paused

    def _serve(self, wire: Wire, target: Target) -> None:
        """Send operations until the node refuses, stops answering, or another node is active."""
        self._cas.clear()
        while not self._ending.is_set():
            while self._recorder.target is None and not self._ending.is_set():
                time.sleep(0.002)
            if self._draw.random() < 0.05 and self._recorder.target != target:
                return
            refused = not self._operate(wire, target)
            if refused and self._recorder.target != target:
                return
            if self._draw.random() < 0.05:
                self._observe(wire, target)

    def _operate(self, wire: Wire, target: Target) -> bool:
        """Send one operation and record it; False if it was refused. OSError or EOFError if no answer came."""
        entry, request = self._drawn(target)
        number = self._recorder.begin(entry)
        done: Entry | None = None
        try:
            wire.send(request)
            done = self._understood(entry, wire.answer())
        finally:
            self._recorder.end(number, done)
        if done.call.cas:
            self._cas[entry.key] = done.call.cas
        return done.call.outcome != "refused"

    def _drawn(self, target: Target) -> tuple[Entry, bytes]:
        if self._draw.random() < 0.12:
            key = self._draw.choice(COUNTERS)
            kind = self._draw.choice(["incr", "incr", "get"])
        else:
            key = self._draw.choice(KEYS)
            kind = self._draw.choice(KINDS)
        self._written += 1
        value = b"%d.%d " % (self._number, self._written)
        cas = 0
        if kind == "swap":
            kind, cas = "set", self._cas.get(key, 0)
        vbucket = vbucket_of(key)
        if kind == "get":
            value, request = b"", frame(GET, key, vbucket=vbucket)
        elif kind == "delete":
            request = frame(DELETE, key, vbucket=vbucket)
        elif kind == "append":
            request = frame(APPEND, key, value, vbucket=vbucket)
        elif kind == "incr":
            value = b"%d" % self._draw.randint(1, 9)
            extras = struct.pack(">QQI", int(value), 0, 0)
            request = frame(INCR, key, extras=extras, vbucket=vbucket)
        elif kind == "set":
            request = set_frame(key, value, vbucket=vbucket, cas=cas)
        else:
            opcode = ADD if kind == "add" else REPLACE
            request = frame(opcode, key, value, extras=bytes(8), vbucket=vbucket)
        call = Call(kind, time.monotonic(), argument=value, expected_cas=cas)
        return Entry(key, vbucket, target.reign, call), request

    def _understood(self, entry: Entry, answer: Answer) -> Entry:
        kind = entry.call.kind
        if answer.status in REFUSALS:
            return answered(entry, "refused")
        outcome = OUTCOMES.get(answer.status)
        if outcome is None:
            self._recorder.unexpected.append(f"{kind} was answered {answer.status:#x}")
            return answered(entry, "refused")
        if outcome != "ok":
            return answered(entry, outcome)
        if kind == "get":
            return answered(entry, "ok", value=answer.value, cas=answer.cas)
        uuid, seqno = struct.unpack(">QQ", answer.extras)
        value = b"%d" % struct.unpack(">Q", answer.value)[0] if kind == "incr" else b""
        return answered(entry, "ok", value=value, cas=answer.cas, seqno=seqno, uuid=uuid)

    def _observe(self, wire: Wire, target: Target) -> None:
        """Ask how much of a vBucket is persisted, which a crash must not take."""
        vbucket = self._draw.randrange(VBUCKETS)
        start = self._recorder.reigns[target.reign].starts[vbucket]
        answer = wire.ask(OBSERVE_SEQNO, value=struct.pack(">Q", start.uuid), vbucket=vbucket)
        if answer.status == 0 and answer.value[0] == 0:
            _, _, _, persisted, _ = struct.unpack_from(">BHQQQ", answer.value)
            self._recorder.saw_persisted(target.reign, vbucket, persisted)
