"""Check that an optional extra of perfrunner is installed; importing this module requires none."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from perfrunner.errors import UsageError

SSH_PACKAGES = ("fabric", "paramiko")
SDK_PACKAGES = ("couchbase",)
FLEET_PACKAGES = ("dbos",)


def require_ssh() -> None:
    """Raise UsageError if the packages for SSH are not installed."""
    _require(
        SSH_PACKAGES,
        "driving hosts over SSH",
        "pip install 'perfrunner[ssh]'; `cluster: local` needs none",
    )


def require_sdk() -> None:
    """Raise UsageError if the Couchbase SDK is not installed."""
    _require(SDK_PACKAGES, "a workload of type sdk", "pip install 'perfrunner[sdk]'")


def require_fleet() -> None:
    """Raise UsageError if the packages of the fleet queue are not installed."""
    _require(FLEET_PACKAGES, "perfrunner fleet", "pip install 'perfrunner[fleet]'")


def _require(packages: Sequence[str], what: str, remedy: str) -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{what} needs {' and '.join(missing)}: not installed", remedy)
