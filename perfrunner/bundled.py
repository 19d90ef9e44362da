"""What of the project is no Python and yet needed wherever perfrunner is installed: the engine's source, the specs."""

from __future__ import annotations

from pathlib import Path

import perfrunner


def bundled(name: str) -> Path:
    """The project's directory `name`: `_name` in an installed package (setup.py puts it there), else the checkout's."""
    package = Path(perfrunner.__file__).resolve().parent
    inside = package / f"_{name}"
    return inside if inside.is_dir() else package.parent / name
