"""reproduce.sh: the commands of a trial, in order, as a script that a person runs again without perfrunner.

The recorder is told each command as it is run. What belonged to that one run becomes a shell variable: the directory
on each host, the artifact, the engine's port and pid. The script draws a new secret and passes it by file, as the run
did.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfrunner.run.trial.credentials import USER

PADDING_NAME = "PERFRUNNER_PADDING"  # of the environment, whose size is varied by it

_HEADER = """\
#!/bin/bash
# {title}
# What perfrunner ran for this trial, in order. Each ARTIFACT_* must exist on its host; WORK_* may be changed.
set -euo pipefail
umask 077
OUT=${{OUT:-$(mktemp -d)}}
echo "output goes to $OUT"
password=$(head -c 18 /dev/urandom | base64)
"""

_HOST = """
on_{id}() {{ {run}; }}
WORK_{id}=${{WORK_{id}:-{work}}}
ARTIFACT_{id}=${{ARTIFACT_{id}:-{artifact}}}
on_{id} rm -rf "$WORK_{id}/data" "$WORK_{id}/secret"
on_{id} mkdir -p "$WORK_{id}/data" "$WORK_{id}/secret"
printf '{{"{user}": "%s"}}' "$password" | on_{id} tee "$WORK_{id}/secret/users.json" > /dev/null
printf '%s' "$password" | on_{id} tee "$WORK_{id}/secret/password" > /dev/null
on_{id} chmod 600 "$WORK_{id}/secret/users.json" "$WORK_{id}/secret/password"
"""

_START = """\
on_{id} sh -c 'echo $$ > "$0"; exec "$@"' "$WORK_{id}/{name}.pid" \\
  {command} > "$OUT/{name}.out" 2> "$OUT/{name}.log" &
job_{job}=$!
"""

_ENGINE_READY = """\
stop_{job}() {{ on_{id} sh -c 'kill -TERM "$(cat "$0")"' "$WORK_{id}/{name}.pid"; }}
trap 'stop_{job}' EXIT
until on_{id} test -s "$WORK_{id}/{name}.port" 2> /dev/null; do kill -0 "$job_{job}"; sleep 0.1; done
PORT_{job}=$(on_{id} cat "$WORK_{id}/{name}.port")
PID_{job}=$(on_{id} cat "$WORK_{id}/{name}.pid")
"""


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


@dataclass
class Recorder:
    """The steps of one trial. Literals are replaced longest first, so that nested paths come out right."""

    title: str
    _lines: list[str] = field(default_factory=list)
    _paths: dict[str, dict[str, str]] = field(default_factory=dict)  # host -> literal -> variable
    _arguments: dict[str, str] = field(default_factory=dict)  # whole argument -> its replacement

    def add_host(
        self,
        name: str,
        *,
        ssh: str | None,
        artifact: str,
        work: Mapping[str, str],
        script_work: str,
    ) -> None:
        """`ssh` is the command that reaches the host, None for this machine.

        `work` maps directories of the run on that host to their place below the script's own work directory.
        """
        host = _identifier(name)
        run = '"$@"' if ssh is None else f'{ssh} "$(printf \'%q \' "$@")"'
        self._paths[name] = {
            artifact: f"$ARTIFACT_{host}",
            **{literal: f"$WORK_{host}{below}" for literal, below in work.items()},
        }
        self._lines.append(
            _HOST.format(
                id=host,
                run=run,
                work=shlex.quote(script_work),
                artifact=shlex.quote(artifact),
                user=USER,
            )
        )

    def comment(self, text: str) -> None:
        self._lines.append(f"\n# {text}\n")

    def run(self, host: str, argv: Sequence[str], *, output: str | None = None) -> None:
        kept = f' > "$OUT/{output}"' if output else ""
        self._lines.append(f"on_{_identifier(host)} {self._command(host, argv)}{kept}\n")

    def pause(self, seconds: float) -> None:
        self._lines.append(f"sleep {seconds:g}\n")

    def start(
        self, host: str, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        command = self._command(host, argv)
        if env:
            command = f"env {self._environment(host, env)} {command}"
        self._lines.append(
            _START.format(id=_identifier(host), name=name, job=_identifier(name), command=command)
        )

    def wait_file(self, host: str, path: str) -> None:
        """Until the file holds something."""
        test = self._command(host, ["test", "-s", path])
        self._lines.append(f"until on_{_identifier(host)} {test}; do sleep 0.02; done\n")

    def engine_ready(self, host: str, name: str, *, port: int, pid: int) -> None:
        """From here on the engine's port and pid are written as variables; the script stops it however it ends."""
        job = _identifier(name)
        self._lines.append(_ENGINE_READY.format(id=_identifier(host), name=name, job=job))
        self._arguments[f"--port={port}"] = f'--port="$PORT_{job}"'
        self._arguments[f"--pid={pid}"] = f'--pid="$PID_{job}"'

    def wait(self, name: str) -> None:
        self._lines.append(f'wait "$job_{_identifier(name)}"\n')

    def stop(self, host: str, name: str) -> None:
        pid = f'"$WORK_{_identifier(host)}/{name}.pid"'
        self._lines.append(f'on_{_identifier(host)} sh -c \'kill -TERM "$(cat "$0")"\' {pid}\n')
        self._lines.append(f'wait "$job_{_identifier(name)}" || true\n')

    def script(self) -> str:
        cleared = "".join(
            f'on_{host} rm -rf "$WORK_{host}/data" "$WORK_{host}/secret"\n'
            for host in map(_identifier, self._paths)
        )
        return _HEADER.format(title=self.title) + "".join(self._lines) + "trap - EXIT\n" + cleared

    def _environment(self, host: str, env: Mapping[str, str]) -> str:
        words = []
        for key, value in sorted(env.items()):
            if key == PADDING_NAME:  # thousands of zeros, written short
                words.append(f"{key}=\"$(printf '%0*d' {len(value)} 0)\"")
            else:
                words.append(self._word(host, f"{key}={value}"))
        return " ".join(words)

    def _command(self, host: str, argv: Sequence[str]) -> str:
        return " ".join(self._word(host, argument) for argument in argv)

    def _word(self, host: str, argument: str) -> str:
        if argument in self._arguments:
            return self._arguments[argument]
        paths = self._paths.get(host, {})
        if not paths:
            return shlex.quote(argument)
        pattern = "|".join(re.escape(p) for p in sorted(paths, key=len, reverse=True))
        parts = re.split(f"({pattern})", argument)
        return "".join(
            f'"{paths[part]}"' if part in paths else shlex.quote(part) for part in parts if part
        )
