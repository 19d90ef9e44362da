"""What a report leaves out before it is passed on: addresses, users, keys' paths and home directories.

Host names of the spec stay (they are its words), as do CPUs, memory and kernels.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfrunner.results import ExperimentData, ExperimentRecord, TrialRecord

HIDDEN = "…"
TELLING = ("host", "hosts", "note", "notes")  # facts of trials that hold words
SECRET_KEYS = ("address", "user", "key", "known_hosts", "hostname", "boot_id")  # of hosts
PLAIN = ("", "localhost", "127.0.0.1", "::1", HIDDEN)
IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
LOGIN = re.compile(r"(?<![\w.@/-])[A-Za-z_][\w.-]*@(?=[\w\[])")
HOMES = re.compile(r"/(?:home/[^/\s'\"]+|root)(?=/|$|[\s'\",:)])")


def redacted(data: ExperimentData) -> ExperimentData:
    """The same experiment without them. What was measured is the same: only words change."""
    record = data.experiment
    safe = _Redactor(sorted(set(_secrets(record)), key=len, reverse=True))
    return dataclasses.replace(
        data,
        experiment=dataclasses.replace(
            record,
            spec_json=safe.value(dict(record.spec_json)),
            spec_text=safe.spec(record.spec_text),
            spec_path=safe.text(record.spec_path),
            facts=safe.value(dict(record.facts)),
        ),
        builds=tuple(
            dataclasses.replace(build, path="", provenance=safe.value(dict(build.provenance)))
            for build in data.builds
        ),
        trials=tuple(_trial(safe, trial) for trial in data.trials),
    )


def _trial(safe: _Redactor, trial: TrialRecord) -> TrialRecord:
    told = {k: safe.value(v) for k, v in trial.facts.items() if k in TELLING}
    if not told and not trial.reason:
        return trial
    return dataclasses.replace(trial, reason=safe.text(trial.reason), facts={**trial.facts, **told})


@dataclasses.dataclass(frozen=True)
class _Redactor:
    known: list[str]  # addresses and paths that the spec or the facts name

    def text(self, text: str) -> str:
        text = LOGIN.sub(f"{HIDDEN}@", text)
        for secret in self.known:
            text = re.sub(rf"(?<![\w.-]){re.escape(secret)}(?![\w-])", HIDDEN, text)
        text = HOMES.sub("~", text)
        return IPV4.sub(
            lambda found: found[0] if found[0] in PLAIN or not _address(found[0]) else HIDDEN, text
        )

    def spec(self, text: str) -> str:
        """A spec as it was written: the values of the hosts' secret keys, too."""
        keys = "|".join(SECRET_KEYS)
        text = re.sub(rf"(?m)(\b(?:{keys})\s*:\s*)([^\s,}}#]+)", self._value_of_key, text)
        return self.text(text)

    def _value_of_key(self, found: re.Match[str]) -> str:
        return found[0] if found[2] in (*PLAIN, "null", "~") else f"{found[1]}{HIDDEN}"

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {k: self.value(v, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(v, key) for v in value]
        if not isinstance(value, str):
            return value
        if key in SECRET_KEYS and value not in PLAIN:
            return HIDDEN
        if key == "built_on":  # a machine's own name, then its system
            return f"{HIDDEN} {self.text(value.partition(' ')[2])}"
        return self.text(value)


def _address(text: str) -> bool:
    """Four numbers up to 255; a version like 6.18.44.1 is one, too, and is hidden rather than an address shown."""
    return all(int(part) <= 255 for part in text.split("."))


def _secrets(record: ExperimentRecord) -> Iterator[str]:
    """The values of secret keys, wherever the spec or the facts have them; users only beside an @."""
    for document in (record.spec_json, record.facts):
        for key, value in _leaves(document):
            if key in SECRET_KEYS and key != "user" and value not in PLAIN and len(value) > 2:
                yield value
                if key in ("key", "known_hosts"):
                    yield str(Path(value).expanduser())


def _leaves(value: Any, key: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(inner, key)
    elif isinstance(value, str):
        yield key, value
