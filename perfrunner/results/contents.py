"""Raw files by content: a directory that several groups share, each content once, named by its SHA-256.

A file appears under its name whole or not at all, whoever else writes the same at that moment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perfrunner.errors import StoreError

CHUNK = 1 << 20


@dataclass(frozen=True)
class Content:
    """What is kept of one file."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Contents:
    """The directory may be on a network file system; it is made when first something is kept."""

    directory: Path

    def path(self, sha256: str) -> Path:
        """Where a content is, if it is there. A directory for each two digits: a million files are many for one."""
        return self.directory / sha256[:2] / sha256

    def has(self, content: Content) -> bool:
        """Whether it is there, whole."""
        place = self.path(content.sha256)
        return place.is_file() and place.stat().st_size == content.bytes

    def keep(self, directory: Path) -> Iterator[Content]:
        """Each file of a trial's directory. StoreError where it cannot be written."""
        try:
            for path in sorted(directory.iterdir()):
                if path.is_file():
                    yield self._keep(path)
        except OSError as error:
            raise StoreError(
                f"raw files cannot be kept in {self.directory}: {error.strerror or error}"
            ) from error

    def remove(self, digests: Iterable[str]) -> None:
        """Those that nothing refers to any more. StoreError where one cannot be removed."""
        for sha256 in digests:
            try:
                self.path(sha256).unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(
                    f"{self.path(sha256)} cannot be removed: {error.strerror}"
                ) from error

    def _keep(self, path: Path) -> Content:
        with path.open("rb") as source:
            digest = hashlib.sha256()
            while chunk := source.read(CHUNK):
                digest.update(chunk)
            kept = Content(path.name, digest.hexdigest(), source.tell())
            if self.has(kept):
                return kept
            place = self.path(kept.sha256)
            place.parent.mkdir(parents=True, exist_ok=True)
            source.seek(0)
            handle, fresh = tempfile.mkstemp(prefix=".", dir=place.parent)
            try:
                with os.fdopen(handle, "wb") as target:
                    shutil.copyfileobj(source, target, CHUNK)
                    os.fchmod(target.fileno(), 0o644)
                os.replace(fresh, place)  # noqa: PTH105 - a path of mkstemp
            except BaseException:
                Path(fresh).unlink(missing_ok=True)
                raise
        return kept
