"""Read the configuration files that a command of Redis names, before it starts.

A replica would copy the data of a server in use as soon as it starts, also if a later option switches that off.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from perfrunner.hosts import scripts
from perfrunner.hosts.transport import Transport
from perfrunner.servers.redis import OVERRULED
from perfrunner.servers.registry import adapter_for

_DEPTH = 8  # of files that include others


def unfit_in_files(kind: str, arguments: Sequence[str], host: Transport) -> str | None:
    """Return why a server with its configuration files cannot be measured; None if it can, as far as they are known.

    The files are those of `host`.
    """
    adapter = adapter_for(kind)
    given = {word[2:].lower() for word in arguments if word.startswith("--")}
    for file in adapter.files(arguments):
        settings = {
            name: value
            for name, value in _settings(file, host, _DEPTH).items()
            if name not in given and name not in OVERRULED
        }
        if text := adapter.unfit(settings):
            return f"{file} has {text}, in a copy of the file"
    return None


def _settings(file: str, host: Transport, depth: int) -> Mapping[str, str]:
    settings: dict[str, str] = {}
    if not file.startswith("/") or not depth:
        return settings  # the server says what is wrong with it
    text = host.run(["sh", "-c", scripts.SHOW_FILES, "sh", file], check=False).stdout
    for line in text.splitlines():
        try:
            name, *values = shlex.split(line)
        except ValueError:  # empty, or the server says what is wrong
            continue
        value = " ".join(values)
        if name.lower() == "include":
            settings |= _settings(value, host, depth - 1)
        elif not name.startswith("#"):
            settings[name.lower()] = value
    return settings
