"""Real servers of Debian's packages, started by perfrunner on loopback, and the real load generator."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfrunner.results import ExperimentData, ResultStore
from tests.support.built import built
from tests.support.fakes import Driver, Lab

# A load of a moment: these tests measure nothing, unless they say so.
LOAD = {
    "type": "pillowfight", "items": 2000, "value_size": 100, "set_share": 20, "ramp": 0.1, "duration": 0.3,
    "settle": 0, "schedule": "interleaved",
}  # fmt: skip


@dataclass
class ServerLab(Lab):
    """A Lab whose variants are servers of this machine."""

    artifact: str = ""

    def write(
        self, variants: dict[str, Any], load: dict[str, Any] | None = None, **changes: Any
    ) -> None:
        """Write the spec; the first variant is the baseline."""
        self.write_spec(
            **{
                "variants": variants,
                "baseline": next(iter(variants)),
                "workloads": {"mixed": {**LOAD, **(load or {})}},
                "engine": {},
                "blocks": 1,
                "limits": {"client_busy": 1.0},
                **changes,
            }
        )

    def measure(self, **settings: Any) -> tuple[int, Driver]:
        """Run the spec with the load tools that were built."""
        return self.run(fakes={"artifact": self.artifact, **settings})

    def data(self) -> ExperimentData:
        with ResultStore.open(self.out, create=False) as store:
            return store.load(store.list()[-1].experiment.id)


@pytest.fixture
def servers(tmp_path: Path) -> ServerLab:
    return ServerLab(tmp_path, str(built("pillowfight", "kvctl")))


def program(name: str) -> str:
    """Return the path of a server; the test fails where it is not installed."""
    path = shutil.which(name, path="/usr/bin:/usr/local/bin:/usr/sbin")
    if path is None:
        pytest.fail(f"no {name}: install Debian's package, or run scripts/test")
    return path


def memcached(*words: str) -> dict[str, Any]:
    return {"server": {"command": [program("memcached"), "-p", "{port}", *words]}}


def redis(*words: str) -> dict[str, Any]:
    return {
        "server": {"command": [program("redis-server"), "--port", "{port}", "--save", "", *words]}
    }


def script(path: Path, text: str) -> str:
    """Write a Python program that plays a server; return its path."""
    path.write_text(f"#!{sys.executable} -S\n{text}")
    path.chmod(0o755)
    return str(path)


def library(path: Path, source: str) -> str:
    """Compile a library that can be preloaded; return its path."""
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-o", str(path), "-x", "c", "-", "-ldl"],
        input=source, text=True, check=True,
    )  # fmt: skip
    return str(path)


def settings_of(driver: Driver, variant: str) -> dict[str, str]:
    """Return what the settings check read back."""
    (event,) = (e for e in driver.of("SettingsCheckPassed") if e["variant"] == variant)
    settings: dict[str, str] = event["settings"]
    return settings


def documents(directory: Path) -> Any:
    return json.loads(directory.read_text())
