"""The packages of the extra `ssh`: what drives this machine alone does without them."""

from __future__ import annotations

import importlib.util

from perfrunner.errors import UsageError

SSH_PACKAGES = ("fabric", "paramiko")


def require_ssh() -> None:
    """UsageError where they are not installed."""
    missing = [name for name in SSH_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"driving hosts over SSH needs {' and '.join(missing)}: not installed",
            "pip install 'perfrunner[ssh]'; `cluster: local` needs none",
        )
