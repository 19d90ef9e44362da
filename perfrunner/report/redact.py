"""Redact data before it is published: addresses, users, logins, paths of keys, and home directories.

Host names of the spec are kept, as are CPUs, memory and kernels.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import TYPE_CHECKING, Any

from perfrunner.paths import with_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfrunner.analysis.nights import Night
    from perfrunner.results import ExperimentData, ExperimentRecord, TrialRecord

HIDDEN = "…"
DIGITS = 3  # of the hash of a machine's name: machines stay distinguishable, and the name cannot be recovered
SECRET_KEYS = ("address", "user", "key", "known_hosts", "hostname", "boot_id")  # of hosts
PLAIN = ("", "localhost", "127.0.0.1", "::1", HIDDEN)
COMMON_USERS = ("root", "perf", "perfrunner")  # common words: hidden only next to an @
IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]*\d)(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])"
)
DATABASE = re.compile(r"(\bpostgres(?:ql)?(?:\+\w+)?://)[^\s'\"]+")
USER_INFO = re.compile(r"(?<=://)[^\s/@'\"]+@")
LOGIN = re.compile(rf"(?<![\w.@/-])(?:[A-Za-z_][\w.-]*|{HIDDEN})@(\[[\w:.]+\]|[\w.-]*\w|{HIDDEN})")
# This also matches paths after -I and in a PATH.
HOMES = re.compile(
    r"(?:/(?:var|usr|export|exports|mnt|data))?/(?:home|Users)/[^/\s'\",:;)\]}]+"
    r"|/root(?=/|$|[\s'\",:;)\]}])"
)
# It matches only from the start of a word: otherwise a long word without such a path takes quadratic time.
SSH_FILES = re.compile(r"(?<![^\s'\",:;=(\[])[^\s'\",:;=(\[]*/\.ssh/[^\s'\",:;)\]]+")


def redacted(data: ExperimentData) -> ExperimentData:
    """Return the experiment without private data. Measurements do not change."""
    safe = _Redactor.of(data.experiment)
    return dataclasses.replace(
        data,
        experiment=safe.record(data.experiment),
        builds=tuple(
            dataclasses.replace(
                build,
                path="",
                provenance=safe.value(dict(build.provenance)),
                settings=safe.value(dict(build.settings)),
            )
            for build in data.builds
        ),
        trials=tuple(safe.trial(trial) for trial in data.trials),
    )


def redacted_record(record: ExperimentRecord) -> ExperimentRecord:
    """Return an experiment's record without private data."""
    return _Redactor.of(record).record(record)


def redacted_nights(nights: Iterable[Night]) -> list[Night]:
    """Return the runs of a history without private data; different machines stay distinguishable."""
    return [dataclasses.replace(night, record=redacted_record(night.record)) for night in nights]


def hidden(text: str, record: ExperimentRecord | None = None) -> str:
    """Redact a line of a log or a message; with `record`, also the names that the record contains."""
    return (_Redactor([]) if record is None else _Redactor.of(record)).text(text)


class _Redactor:
    """Create a redactor. `known`: addresses, paths and users of the spec and the facts.

    `sources`: what looks like a login, and is a repository with a revision. `names`: what the spec calls its variants
    and workloads. A report needs them, even if a host is called `dev` or a version looks like an address.
    """

    def __init__(
        self, known: Iterable[str], sources: Iterable[str] = (), names: Iterable[str] = ()
    ) -> None:
        self._sources = frozenset(sources)
        self._names = frozenset(names)
        secrets = sorted({*known} - self._names, key=len, reverse=True)
        self._known = _any_of(secrets) if secrets else None
        self._seen: dict[str, str] = {}  # many trials have the same texts

    @classmethod
    def of(cls, record: ExperimentRecord) -> _Redactor:
        return _redactor(
            frozenset(_secrets(record)), frozenset(_sources(record)), frozenset(_names(record))
        )

    def record(self, record: ExperimentRecord) -> ExperimentRecord:
        return dataclasses.replace(
            record,
            spec_json=self.value(dict(record.spec_json)),
            spec_text=self.spec(record.spec_text),
            spec_path=self.text(record.spec_path),
            facts=self.value(dict(record.facts)),
        )

    def trial(self, trial: TrialRecord) -> TrialRecord:
        facts = self.value(trial.facts)
        reason = self.text(trial.reason)
        if reason == trial.reason and facts == trial.facts:
            return trial
        return dataclasses.replace(trial, reason=reason, facts=facts)

    def text(self, text: str) -> str:
        result = self._seen.get(text)
        if result is None:
            result = self._seen[text] = self._text(text)
        return result

    def _text(self, text: str) -> str:
        text = DATABASE.sub(rf"\1{HIDDEN}", text)
        text = USER_INFO.sub(f"{HIDDEN}@", text)
        text = SSH_FILES.sub(HIDDEN, text)
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = LOGIN.sub(
            lambda match: match[0] if match[0] in self._sources else f"{HIDDEN}@{HIDDEN}", text
        )
        text = HOMES.sub("~", text)
        text = IPV6.sub(_unless(_no_ipv6), text)
        return IPV4.sub(_unless(self._no_ipv4), text)

    def _no_ipv4(self, text: str) -> bool:
        """Return whether the text is no IPv4 address; a version such as 6.18.44.1 counts as one, except in a name."""
        in_a_name = any(text in name for name in self._names)
        return in_a_name or any(int(part) > 255 for part in text.split("."))

    def spec(self, text: str) -> str:
        """Redact the text of a spec, including the values of the hosts' secret keys."""
        keys = "|".join(SECRET_KEYS)
        text = re.sub(rf"(?m)(\b(?:{keys})\s*:\s*)([^\s,}}#]+)", self._value_of_key, text)
        return self.text(text)

    def _value_of_key(self, match: re.Match[str]) -> str:
        return match[0] if match[2] in (*PLAIN, "null", "~") else f"{match[1]}{HIDDEN}"

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            if key == "hostname" and not value.startswith(HIDDEN):
                return f"{HIDDEN}{hashlib.sha256(value.encode()).hexdigest()[:DIGITS]}"
            if key in SECRET_KEYS and value not in PLAIN:
                return HIDDEN
            if key == "built_on":  # the machine's name, then its system
                return f"{HIDDEN} {self.text(value.partition(' ')[2])}"
            return value if value in self._names else self.text(value)
        if isinstance(value, Mapping):
            return {k: self.value(v, k) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(v, key) for v in value]
        return value


@functools.lru_cache(maxsize=8)  # the runs of a spec name the same hosts
def _redactor(known: frozenset[str], sources: frozenset[str], names: frozenset[str]) -> _Redactor:
    return _Redactor(known, sources, names)


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")


def _unless(plain: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    return lambda match: match[0] if match[0] in PLAIN or plain(match[0]) else HIDDEN


def _no_ipv6(text: str) -> bool:
    """Return whether the text is no IPv6 address; a time has neither eight groups nor a gap."""
    try:
        IPv6Address(text)
    except AddressValueError:
        return True
    return False


def _secrets(record: ExperimentRecord) -> Iterator[str]:
    """Yield the values of secret keys in the spec and the facts."""
    for document in (record.spec_json, record.facts):
        for key, value in _leaves(document):
            if key not in SECRET_KEYS or value in PLAIN or len(value) < 3:
                continue
            if key != "user" or value not in COMMON_USERS:
                yield value
            if key in ("key", "known_hosts"):
                yield str(with_home(value))


def _names(record: ExperimentRecord) -> Iterator[str]:
    """Yield the names of the variants and workloads."""
    for key in ("variants", "workloads"):
        yield from record.spec_json.get(key) or ()


def _sources(record: ExperimentRecord) -> Iterator[str]:
    """Yield the repositories of servers with their revisions, as far as these look like logins."""
    for variant in (record.spec_json.get("variants") or {}).values():
        server = variant.get("server") or {}
        if git := server.get("git"):
            source = f"{git.rpartition('/')[2]}@{server.get('revision') or 'HEAD'}"
            yield from (match[0] for match in LOGIN.finditer(source))


def _leaves(value: Any, key: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(inner, key)
    elif isinstance(value, str):
        yield key, value
