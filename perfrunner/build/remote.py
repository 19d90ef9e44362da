"""Build on another host: send the source once per content, build there, and fetch the artifact.

The builder (worker.py) is the local one: the host's tools, environment and system files determine what is built and its
build id. It is installed first, as `builder/<content>.pyz`. Only the choice of compilers (CC, CXX) is passed on from
the caller's environment. The host's cache, `build/` in its work directory, has the same layout as the local one.

A build ends with its channel: Ctrl-C, a killed perfrunner and a broken link all end the compilers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.build.artifact import (
    MANIFEST,
    PROVENANCE,
    Artifact,
    damage,
    origin_of,
    read_provenance,
)
from perfrunner.build.builder import request_of
from perfrunner.build.builders import Platform
from perfrunner.build.cache import move_into_place, note_use, own_cache, space_hint, usable
from perfrunner.build.layout import share_files
from perfrunner.build.tools import Progress, build_environment, silent
from perfrunner.build.tree import snapshot_path, take_snapshot
from perfrunner.children import python_archive
from perfrunner.errors import BuildError, HostError
from perfrunner.hosts import Host, HostInUse
from perfrunner.hosts.facts import compile_jobs, read_facts

if TYPE_CHECKING:
    from perfrunner.spec.variant import Variant


CHOSEN_HERE = ("CC", "CXX")  # see toolchain.find_toolchain
QUESTION_TIMEOUT_S = 300.0  # the host's caches may be cold
_NOT_FOUND = 127
_MOST_SHOWN = 300  # characters of a message


def tools_on(host: Host, allocator: str) -> dict[str, str]:
    """Return compiler, cmake, linker and cargo of the host.

    `cargo` says why it cannot build this allocator, with a `hint`, or is empty.
    """
    return ask(host, "tools", {"allocator": allocator}, silent)


def ask(
    host: Host,
    command: str,
    asked: Mapping[str, Any],
    tell: Progress,
    timeout: float = QUESTION_TIMEOUT_S,
) -> dict[str, Any]:
    """Return the answer of the builder on the host; `tell` receives its output. Its BuildError is raised here.

    Anything that ends the wait, a lost link included, ends the builder and every process that it started.
    """
    answer: dict[str, Any] = {}

    def take(line: str) -> None:
        document = _parsed(line)
        if "line" in document:
            tell(str(document["line"]))
        else:
            answer.update(document)

    words = ["python3", "-I", _builder(host), command, json.dumps(asked)]
    chosen = {key: os.environ[key] for key in CHOSEN_HERE if os.environ.get(key)}
    done = host.transport.follow(words, take, timeout=timeout, env=chosen)
    if "done" in answer:
        return dict(answer["done"])
    if "error" in answer:
        hint = answer.get("hint")
        raise BuildError(
            f"{host.name}: {answer['error']}",
            f"{hint} (on {host.name})" if hint else None,
            log=answer.get("log"),
            of_machine=bool(answer.get("of_machine")),
        )
    if done.exit == _NOT_FOUND:
        raise BuildError(
            f"{host.name}: python3 is not installed, but a build host needs it",
            f"apt-get install python3 (on {host.name})",
        )
    last = (done.stderr.strip().splitlines() or ["no message"])[-1][:_MOST_SHOWN]
    raise BuildError(
        f"{host.name}: the builder ended with status {done.exit}: {last}", of_machine=True
    )


def _builder(host: Host) -> str:
    """Return the path of the builder on the host. It is named by its content, so that versions do not collide."""
    archive = builder_archive()
    path = f"{host.work_dir}/builder/{hashlib.sha256(archive).hexdigest()[:16]}.pyz"
    if not host.transport.exists(path):
        host.transport.put_bytes(archive, path)
    return path


def _parsed(line: str) -> dict[str, Any]:
    """Parse a line of the builder; anything else is output to be shown."""
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"line": line}


# All modules of perfrunner.build that a build needs. They need only Python's standard library.
MODULES = (
    "artifact", "builder", "cache", "identity", "layout", "ninja", "tools", "tree", "worker",
)  # fmt: skip
PYTHON_AT_LEAST = (3, 10)
_MAIN = """\
import json, sys
if sys.version_info < {least}:
    print(json.dumps({{"error": "python3 is %d.%d, and the builder needs {text}" % sys.version_info[:2]}}))
    sys.exit(3)
from perfrunner.build.worker import main
sys.exit(main(sys.argv[1:]))
"""


@cache
def builder_archive() -> bytes:
    """Return a zip file with a __main__.py; the same perfrunner produces the same bytes."""
    least = ".".join(map(str, PYTHON_AT_LEAST))
    main = _MAIN.format(least=PYTHON_AT_LEAST, text=least)
    modules = ["errors.py", "paths.py", "text.py", *(f"build/{name}.py" for name in MODULES)]
    return python_archive(main, modules)


BUILD_TIMEOUT_S = 4 * 3600.0
LOCK_PATIENCE_S = 1800.0
AWAY_PATIENCE_S = 600.0  # enough for a host to restart
_AGAIN_EVERY_S = 1.0


@dataclass(frozen=True)
class BuildHost:
    """A Builder on a host. `cache_dir` is local.

    `held`: this run already has the host's lock. `machine`: the lock must also cover the machine.
    """

    host: Host
    cache_dir: Path
    platform: Platform
    held: bool = False
    machine: bool = True

    def with_hosts(self, hosts: Mapping[str, Host]) -> BuildHost:
        """Return a builder for a run that has locked `hosts`."""
        boot_ids = {host.boot_id() for host in hosts.values()}
        return replace(
            self,
            held=self.host.name in hosts,
            machine=self.host.boot_id() not in boot_ids,
        )

    def build(
        self,
        variant: Variant,
        source_dir: Path,
        progress: Progress | None = None,
        programs: Sequence[str] = (),
    ) -> Artifact:
        """Build on the host, or find the artifact there, and fetch it."""
        began = time.monotonic()
        tell = progress or silent
        source_dir = source_dir.resolve()
        request = request_of(variant, source_dir, programs).as_json()
        own_cache(self.cache_dir)
        with self._disk_errors_reported(), self._locked(tell):
            build_id = self._ask("find", {"request": request}, tell)["build_id"]
            identity = str(build_id or self._compile(request, source_dir, tell))
            path = self._fetch(identity, tell)
            note_use(path)
            return self._artifact(identity, path, began, cached=build_id is not None)

    def relink(
        self,
        artifact: Artifact,
        seed: int,
        programs: Sequence[str],
        waiting: Progress | None = None,
    ) -> Artifact:
        """Relink on the host and fetch the result, waiting for a host that restarts."""
        began = time.monotonic()
        tell = waiting or silent
        self._wait_for_host(tell)
        asked = {"build_id": artifact.build_id, "seed": seed, "programs": list(programs)}
        with self._disk_errors_reported(), self._locked(tell):
            identity = str(self._ask("relink", asked, silent)["build_id"])
            path = self._fetch(identity, silent, base=artifact.path, programs=programs)
            # Not stored: there is one per block, and the same seed gives the same bytes again.
            self._ask("forget", {"build_id": identity}, silent)
            return self._artifact(identity, path, began, cached=False)

    def _artifact(self, identity: str, path: Path, began: float, *, cached: bool) -> Artifact:
        provenance = {**read_provenance(path), "build_host": self.host.name}
        return Artifact(identity, path, provenance, cached, time.monotonic() - began)

    @contextlib.contextmanager
    def _disk_errors_reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or self.cache_dir
            raise BuildError(
                f"{place}: {error.strerror}", space_hint(error), of_machine=True
            ) from error

    @property
    def _cache(self) -> str:
        return f"{self.host.work_dir}/build"

    def _compile(self, request: dict[str, Any], source_dir: Path, tell: Progress) -> str:
        snapshot = take_snapshot(source_dir, self.cache_dir)
        place = f"{self._cache}/sources/{snapshot_path(Path(), snapshot.sha256).name}"
        tell(f"sending the source to {self.host.name}")
        self.host.transport.put_tree(snapshot.path, place)
        asked = {
            "request": {**request, "origin": origin_of(source_dir, build_environment())},
            "source": place,
            "jobs": compile_jobs(read_facts(self.host.transport)),
        }
        return str(self._ask("build", asked, tell, timeout=BUILD_TIMEOUT_S)["build_id"])

    def _ask(
        self,
        command: str,
        asked: Mapping[str, Any],
        tell: Progress,
        timeout: float = QUESTION_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Send a request to the host's builder; fetch the log of a failed build."""
        try:
            return ask(self.host, command, {"cache": self._cache, **asked}, tell, timeout)
        except BuildError as error:
            if error.log is None:
                raise
            log = self.cache_dir / "logs" / Path(error.log).name
            log.parent.mkdir(parents=True, exist_ok=True)
            self.host.transport.get_file(error.log, log)
            message = error.message.replace(error.log, str(log))
            raise BuildError(
                message, error.hint, log=str(log), of_machine=error.of_machine
            ) from error

    def _fetch(
        self,
        identity: str,
        tell: Progress,
        base: Path | None = None,
        programs: Sequence[str] = (),
    ) -> Path:
        """Fetch an artifact into the local cache, unless it is there. It appears complete and verified, or not at all.

        `base`: an artifact from which it differs only in these programs.
        """
        path = self.cache_dir / "artifacts" / identity
        if usable(path, identity, tell):
            return path
        tell(f"fetching build {identity} from {self.host.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{identity}.", dir=path.parent))
        try:
            there = f"{self._cache}/artifacts/{identity}"
            if base is None:
                self.host.transport.get_tree(there, staging)
            else:
                own = [f"bin/{name}" for name in dict.fromkeys(programs)]
                share_files(base, staging, own)
                for name in (PROVENANCE, MANIFEST, *own):
                    self.host.transport.get_file(f"{there}/{name}", staging / name)
                for name in own:
                    (staging / name).chmod(0o755)
            if wrong := damage(staging, identity):
                raise BuildError(f"{self.host.name}: build {identity} arrived damaged: {wrong}")
            staging.chmod(0o755)
            move_into_place(staging, path, identity)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return path

    @contextlib.contextmanager
    def _locked(self, tell: Progress) -> Iterator[None]:
        """Lock the host, because compilers would disturb a measurement and be disturbed by it."""
        if self.held:
            yield
            return
        self._wait_for_lock(tell)
        try:
            yield
        finally:
            self.host.unlock()

    def _wait_for_host(self, tell: Progress) -> None:
        """Wait for a host that is away between blocks, as measured hosts may be. Raises HostError if it stays away."""
        began = time.monotonic()
        reported = False
        while True:
            try:
                self.host.boot_id()
                return
            except HostError as error:
                if time.monotonic() - began > AWAY_PATIENCE_S:
                    raise
                if not reported:
                    tell(f"waiting for the build host: {error.message}")
                    reported = True
            time.sleep(_AGAIN_EVERY_S)

    def _wait_for_lock(self, tell: Progress) -> None:
        began = time.monotonic()
        reported = False
        while True:
            try:
                self.host.lock(machine=self.machine)
                return
            except HostInUse as error:
                waited = time.monotonic() - began
                if waited > LOCK_PATIENCE_S:
                    raise
                if (
                    waited > _AGAIN_EVERY_S and not reported
                ):  # our own previous lock may take a moment to end
                    tell(f"waiting: {error.message}")
                    reported = True
            time.sleep(0.05 if not reported else _AGAIN_EVERY_S)
