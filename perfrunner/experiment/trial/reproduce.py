"""Write reproduce.sh: the commands of a trial, in order, as a script that runs without perfrunner.

Each command is recorded when it runs. Values that exist only in that run become shell variables: directories on the
hosts, artifact, tools, and the engine's port and pid. The script generates a new password and passes it by file, as
the run did.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfrunner.experiment.trial.placement import USER
from perfrunner.hosts.process import clean_prefix

PADDING_NAME = "PERFRUNNER_PADDING"  # environment variable that varies the size of the environment

_HEADER = """\
#!/bin/bash
# {title}
# The commands of this trial, in order. ARTIFACT_* and TOOLS_* must exist on their hosts; WORK_* may be changed.
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
{tools}on_{id} rm -rf "$WORK_{id}/data" "$WORK_{id}/secret"
on_{id} mkdir -p "$WORK_{id}/data" "$WORK_{id}/secret"
printf '{{"{user}": "%s"}}' "$password" | on_{id} tee "$WORK_{id}/secret/users.json" > /dev/null
printf '%s' "$password" | on_{id} tee "$WORK_{id}/secret/password" > /dev/null
on_{id} chmod 600 "$WORK_{id}/secret/users.json" "$WORK_{id}/secret/password"
"""

_TOOLS = "TOOLS_{id}=${{TOOLS_{id}:-{tools}}}\n"

_START = """\
on_{id} sh -c 'echo $$ > "$0"; exec "$@"' "$WORK_{id}/{name}.pid" \\
  {command} > "$OUT/{out}.out" 2> "$OUT/{out}.log" &
job_{job}=$!
"""

_ENGINE_READY = """\
stop_{job}() {{ on_{id} sh -c 'kill -TERM "$(cat "$0")"' "$WORK_{id}/{name}.pid"; }}
"""

_PORT = """\
until on_{id} test -s "$WORK_{id}/{name}.port" 2> /dev/null; do kill -0 "$job_{job}"; sleep 0.1; done
PORT_{job}=$(on_{id} cat "$WORK_{id}/{name}.port")
PID_{job}=$(on_{id} cat "$WORK_{id}/{name}.pid")
"""

_PID = """\
until on_{id} test -s "$WORK_{id}/{name}.pid" 2> /dev/null; do sleep 0.1; done
PID_{job}=$(on_{id} cat "$WORK_{id}/{name}.pid")
"""


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


@dataclass(frozen=True)
class ScriptRecorder:
    """The recorded commands of one trial or group.

    The recorder of each variant of a group (`variant`) writes the same script; hosts and jobs have the number of its
    slot as suffix (0: none). Literals are replaced longest first, so that nested paths are replaced correctly.
    """

    title: str
    slot: int = 0
    _lines: list[str] = field(default_factory=list)
    _paths: dict[str, dict[str, str]] = field(default_factory=dict)  # host -> literal -> variable
    _values: dict[str, str] = field(default_factory=dict)  # "port=4711" -> its replacement
    _stops: list[str] = field(default_factory=list)  # stop functions of the engines, newest first

    def add_host(
        self,
        name: str,
        *,
        ssh: str | None,
        artifact: str,
        tools: str,
        work: Mapping[str, str],
        script_work: str,
    ) -> None:
        """Add a host of the variant.

        ssh: the command that connects to the host; None for this machine.
        work: maps directories of the run on that host to paths below the script's work directory.
        """
        host = self._host(name)
        prefix = f'{shlex.join(clean_prefix())} "$@"'
        run = prefix if ssh is None else f"{ssh} \"$(printf '%q ' {prefix})\""
        self._paths[self.place(name)] = {
            tools: f"$TOOLS_{host}",
            artifact: f"$ARTIFACT_{host}",
            **{literal: f"$WORK_{host}{below}" for literal, below in work.items()},
        }
        self._lines.append(
            _HOST.format(
                id=host,
                run=run,
                work=shlex.quote(script_work),
                artifact=shlex.quote(artifact),
                tools="" if tools == artifact else _TOOLS.format(id=host, tools=shlex.quote(tools)),
                user=USER,
            )
        )

    def variant(self, slot: int) -> ScriptRecorder:
        """Return the recorder of variant `slot` (from 1) of a group, or of the only variant (0), for this script."""
        return replace(self, slot=slot)

    def place(self, host: str) -> str:
        """Return the name of the host for this variant, with its own work directory and artifact."""
        return f"{host}-{self.slot}" if self.slot else host

    def job(self, name: str) -> str:
        """Return the name of a process that is unique among all variants."""
        return f"{name}-{self.slot}" if self.slot else name

    def comment(self, text: str) -> None:
        self._lines.append(f"\n# {text}\n")

    def run(self, host: str, argv: Sequence[str], *, output: str | None = None) -> None:
        redirect = f' > "$OUT/{self.job(output)}"' if output else ""
        self._lines.append(f"on_{self._host(host)} {self._command(host, argv)}{redirect}\n")

    def write_file(self, host: str, path: str, text: str) -> None:
        """Record a small text file, which may contain paths of all variants."""
        everywhere = {path: to for paths in self._paths.values() for path, to in paths.items()}
        target = self._word(host, path)
        self._lines.append(
            f"printf '%s' {self._written(text, everywhere)} | "
            f"on_{self._host(host)} tee {target} > /dev/null\n"
        )

    def write_bytes(self, host: str, path: str, data: bytes) -> None:
        """Record a binary file."""
        self._lines.append(
            f"printf '%s' {base64.b64encode(data).decode()} | base64 -d | "
            f"on_{self._host(host)} tee {self._word(host, path)} > /dev/null\n"
        )

    def pause(self, seconds: float) -> None:
        self._lines.append(f"sleep {seconds:g}\n")

    def start(
        self, host: str, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        """Record the start of a process; `name` names its files in the host's work directory."""
        command = self._command(host, argv)
        if env:
            command = f"env {self._environment(host, env)} {command}"
        self._lines.append(
            _START.format(
                id=self._host(host),
                name=name,
                out=self.job(name),
                job=self._job(name),
                command=command,
            )
        )

    def engine_ready(self, host: str, name: str, *, port: int, pid: int) -> None:
        """Replace the engine's port and pid by variables from here on; make the script stop the engine at its end."""
        self._stop_at_exit(host, name)
        job = self._job(name)
        self._lines.append(_PORT.format(id=self._host(host), name=name, job=job))
        self._values[f"port={port}"] = f'port="$PORT_{job}"'
        for word in ("pid", "node"):  # keys of a cluster's first node and of the others
            self._values[f"{word}={pid}"] = f'{word}="$PID_{job}"'

    def server_started(self, host: str, name: str, *, pid: int) -> None:
        """Record that a server was started on a port of its own; as `engine_ready`, without a port file."""
        self._stop_at_exit(host, name)
        self.process_known(host, name, name, pid)

    def process_known(self, host: str, job: str, name: str, pid: int) -> None:
        """Replace a pid by that of the file `name`.pid from here on: in a container, not the pid that was started."""
        job = self._job(job)
        self._lines.append(_PID.format(id=self._host(host), name=name, job=job))
        self._values[f"pid={pid}"] = f'pid="$PID_{job}"'

    def wait(self, name: str) -> None:
        self._lines.append(f'wait "$job_{self._job(name)}"\n')

    def stop(self, host: str, name: str) -> None:
        self.signal(host, name, "TERM")
        self._lines.append(f'wait "$job_{self._job(name)}" || true\n')

    def kill(self, host: str, name: str) -> None:
        """Record that an engine is killed with SIGKILL; the script will not stop it again."""
        job = self._job(name)
        self._stops.remove(f"stop_{job}")
        self._lines.append(self._at_exit())
        self.signal(host, name, "KILL")
        self._lines.append(f'wait "$job_{job}" || true\n')

    def signal(self, host: str, name: str, signal: str) -> None:
        """Record a signal to a process that may continue; `wait` waits for its end."""
        pid = f'"$WORK_{self._host(host)}/{name}.pid"'
        self._lines.append(f'on_{self._host(host)} sh -c \'kill -{signal} "$(cat "$0")"\' {pid}\n')

    def wait_for_file(self, host: str, path: str) -> None:
        """Record a wait until a process has written the file."""
        self._lines.append(
            f"until on_{self._host(host)} test -s {self._word(host, path)}; do sleep 0.1; done\n"
        )

    def _stop_at_exit(self, host: str, name: str) -> None:
        job = self._job(name)
        if (stop := f"stop_{job}") not in self._stops:
            self._stops.insert(0, stop)
        self._lines.append(_ENGINE_READY.format(id=self._host(host), name=name, job=job))
        self._lines.append(self._at_exit())

    def _host(self, name: str) -> str:
        return _identifier(self.place(name))

    def _job(self, name: str) -> str:
        return _identifier(self.job(name))

    def _at_exit(self) -> str:
        return f"trap '{'; '.join(self._stops)}' EXIT\n"

    def script(self) -> str:
        cleared = "".join(
            f'on_{host} rm -rf "$WORK_{host}/data" "$WORK_{host}/secret"\n'
            for host in map(_identifier, self._paths)
        )
        return _HEADER.format(title=self.title) + "".join(self._lines) + "trap - EXIT\n" + cleared

    def _environment(self, host: str, env: Mapping[str, str]) -> str:
        assignments = []
        for key, value in sorted(env.items()):
            if key == PADDING_NAME:  # thousands of zeros, shortened
                assignments.append(f"{key}=\"$(printf '%0*d' {len(value)} 0)\"")
            else:
                assignments.append(self._word(host, f"{key}={value}"))
        return " ".join(assignments)

    def _command(self, host: str, argv: Sequence[str]) -> str:
        return " ".join(self._word(host, argument) for argument in argv)

    def _word(self, host: str, argument: str) -> str:
        return self._written(argument, self._paths.get(self.place(host), {}))

    def _written(self, argument: str, paths: Mapping[str, str]) -> str:
        patterns = [re.escape(path) for path in sorted(paths, key=len, reverse=True)]
        patterns += [rf"(?<=[-,]){re.escape(value)}(?![0-9])" for value in self._values]
        if not patterns:
            return shlex.quote(argument)
        written = {**{path: f'"{variable}"' for path, variable in paths.items()}, **self._values}
        parts = re.split(f"({'|'.join(patterns)})", argument)
        return "".join(written.get(part) or shlex.quote(part) for part in parts if part)
