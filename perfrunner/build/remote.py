"""Builds on another host: the source goes there once for each content, it is built there, the artifact comes here.

The builder is the local one (shipped.py, worker.py): the host's own tools, environment and system files decide what is
built and what its build id is. Its cache there, `build/` in the host's work directory, has the shape of the one here.

A build ends with its channel: Ctrl-C, a killed perfrunner and a broken link all end the compilers.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.build.artifact import Artifact
from perfrunner.build.asking import QUESTION_TIMEOUT_S, ask
from perfrunner.build.builder import request_of
from perfrunner.build.cache import move_into_place, own_cache, space_hint, usable
from perfrunner.build.layout import share_files
from perfrunner.build.manifest import MANIFEST, damage
from perfrunner.build.output import Progress, silent
from perfrunner.build.place import Platform
from perfrunner.build.provenance import PROVENANCE, origin_of, read_provenance
from perfrunner.build.retention import note_use
from perfrunner.build.snapshot import snapshot_path, take_snapshot
from perfrunner.build.toolchain import build_environment
from perfrunner.cluster import Host, HostInUse
from perfrunner.errors import BuildError, HostError

if TYPE_CHECKING:
    from perfrunner.spec.variant import Variant

BUILD_TIMEOUT_S = 4 * 3600.0
LOCK_PATIENCE_S = 1800.0
AWAY_PATIENCE_S = 600.0  # a host that restarts is back by then
_AGAIN_EVERY_S = 1.0


@dataclass(frozen=True)
class BuildHost:
    """A Builder; `cache_dir` is here. `held`: this run has the host's lock. `machine`: the machine's is to be taken."""

    host: Host
    cache_dir: Path
    platform: Platform
    held: bool = False
    machine: bool = True

    def beside(self, hosts: Mapping[str, Host]) -> BuildHost:
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
        began = time.monotonic()
        tell = progress or silent
        source_dir = source_dir.resolve()
        request = request_of(variant, source_dir, programs).as_json()
        own_cache(self.cache_dir)
        with self._disk_errors_told(), self._locked(tell):
            found = self._ask("find", {"request": request}, tell)["build_id"]
            identity = str(found or self._compile(request, source_dir, tell))
            path = self._fetch(identity, tell)
            note_use(path)
            return self._artifact(identity, path, began, cached=found is not None)

    def relink(
        self,
        artifact: Artifact,
        seed: int,
        programs: Sequence[str],
        waiting: Progress | None = None,
    ) -> Artifact:
        began = time.monotonic()
        tell = waiting or silent
        self._wait_for_host(tell)
        asked = {"build_id": artifact.build_id, "seed": seed, "programs": list(programs)}
        with self._disk_errors_told(), self._locked(tell):
            identity = str(self._ask("relink", asked, silent)["build_id"])
            path = self._fetch(identity, silent, base=artifact.path, programs=programs)
            # As here: one a block, and the same seed gives the same bytes again.
            self._ask("forget", {"build_id": identity}, silent)
            return self._artifact(identity, path, began, cached=False)

    def _artifact(self, identity: str, path: Path, began: float, *, cached: bool) -> Artifact:
        provenance = {**read_provenance(path), "build_host": self.host.name}
        return Artifact(identity, path, provenance, cached, time.monotonic() - began)

    @contextlib.contextmanager
    def _disk_errors_told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or self.cache_dir
            raise BuildError(f"{place}: {error.strerror}", space_hint(error)) from error

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
        }
        return str(self._ask("build", asked, tell, timeout=BUILD_TIMEOUT_S)["build_id"])

    def _ask(
        self,
        command: str,
        asked: Mapping[str, Any],
        tell: Progress,
        timeout: float = QUESTION_TIMEOUT_S,
    ) -> dict[str, Any]:
        """What the builder there answers. A failed build's log is fetched: who reads of it need not log in there."""
        try:
            return ask(self.host, command, {"cache": self._cache, **asked}, tell, timeout)
        except BuildError as error:
            if error.log is None:
                raise
            log = self.cache_dir / "logs" / Path(error.log).name
            log.parent.mkdir(parents=True, exist_ok=True)
            self.host.transport.get_file(error.log, log)
            message = error.message.replace(error.log, str(log))
            raise BuildError(message, error.hint, log=str(log)) from error

    def _fetch(
        self,
        identity: str,
        tell: Progress,
        base: Path | None = None,
        programs: Sequence[str] = (),
    ) -> Path:
        """Into the cache here, unless it is there. Complete and as its manifest says, or not at all.

        `base`: an artifact that it shares all but these programs with.
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
        """Compilers would disturb a measurement, and the other way round: the host is ours meanwhile."""
        if self.held:
            yield
            return
        self._wait_for_lock(tell)
        try:
            yield
        finally:
            self.host.unlock()

    def _wait_for_host(self, tell: Progress) -> None:
        """Between blocks it may be away for a while, as the measured hosts may. HostError when it stays away."""
        began = time.monotonic()
        told = False
        while True:
            try:
                self.host.boot_id()
                return
            except HostError as error:
                if time.monotonic() - began > AWAY_PATIENCE_S:
                    raise
                if not told:
                    tell(f"waiting for the build host: {error.message}")
                    told = True
            time.sleep(_AGAIN_EVERY_S)

    def _wait_for_lock(self, tell: Progress) -> None:
        began = time.monotonic()
        told = False
        while True:
            try:
                self.host.lock(machine=self.machine)
                return
            except HostInUse as error:
                waited = time.monotonic() - began
                if waited > LOCK_PATIENCE_S:
                    raise
                if waited > _AGAIN_EVERY_S and not told:  # our own last one may take a moment to go
                    tell(f"waiting: {error.message}")
                    told = True
            time.sleep(0.05 if not told else _AGAIN_EVERY_S)
