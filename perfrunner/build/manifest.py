"""manifest.json: the sha256 of every file of an artifact, so that a cut or altered one is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from perfrunner.errors import BuildError

MANIFEST = "manifest.json"
_SCHEMA = 1


def write_manifest(directory: Path, build_id: str, shared: Mapping[str, str] | None = None) -> None:
    """Last of all files: an artifact without one is not complete.

    `shared`: sums of files that are another artifact's (`sums_of`); they are not worked out again.
    """
    document = {"schema": _SCHEMA, "build_id": build_id, "files": _sums(directory, shared or {})}
    (directory / MANIFEST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def sums_of(directory: Path) -> dict[str, str]:
    """What the artifact's manifest says of each file. BuildError without one that can be read."""
    path = directory / MANIFEST
    try:
        return {str(k): str(v) for k, v in json.loads(path.read_bytes())["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildError(
            f"{path} cannot be read ({error})", "run `perfrunner clean --builds`, then build again"
        ) from error


def damage(directory: Path, build_id: str) -> str | None:
    """What is wrong with the artifact; None when every file is there, whole, and nothing else is."""
    try:
        document = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        listed = dict(document["files"])
        if (document["schema"], document["build_id"]) != (_SCHEMA, build_id):
            return "its manifest is another artifact's"
    except FileNotFoundError:
        return "it has no manifest"
    except (OSError, ValueError, KeyError, TypeError):
        return "its manifest cannot be read"
    try:
        present = _sums(directory, {})
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    for name in sorted(listed.keys() | present.keys()):
        if listed.get(name) != present.get(name):
            if name not in present:
                return f"{name} is missing"
            return f"{name} is {'altered' if name in listed else 'not in its manifest'}"
    return None


def _sums(directory: Path, known: Mapping[str, str]) -> dict[str, str]:
    files = {
        path.relative_to(directory).as_posix(): path
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    return {
        name: known.get(name) or hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if name != MANIFEST
    }
