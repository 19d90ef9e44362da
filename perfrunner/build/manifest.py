"""manifest.json: the sha256 of every file of an artifact, so that a cut or altered one is noticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

MANIFEST = "manifest.json"
_SCHEMA = 1


def write_manifest(directory: Path, build_id: str) -> None:
    """Last of all files: an artifact without one is not complete."""
    document = {"schema": _SCHEMA, "build_id": build_id, "files": _sums(directory)}
    (directory / MANIFEST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


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
        present = _sums(directory)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    for name in sorted(listed.keys() | present.keys()):
        if listed.get(name) != present.get(name):
            if name not in present:
                return f"{name} is missing"
            return f"{name} is {'altered' if name in listed else 'not in its manifest'}"
    return None


def _sums(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.relative_to(directory).as_posix() != MANIFEST
    }
