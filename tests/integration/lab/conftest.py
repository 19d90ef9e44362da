"""Three SSH hosts for the module's tests; skipped, with the reason, where this machine cannot hold them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.built import built
from tools.lab import Lab, LabError, raised_lab, why_not


@pytest.fixture(scope="session")
def _raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if reason := why_not():
        pytest.skip(reason)
    with raised_lab(3, tmp_path_factory.mktemp("lab")) as raised:
        yield raised


@pytest.fixture
def lab(_raised: Lab) -> Iterator[Lab]:
    """Whole again after each test: every host on, every cable plugged in, nothing running."""
    yield _raised
    for host, single in _raised.ask("status")["hosts"].items():
        if not single["on"]:
            _raised.boot(host)
            continue
        _raised.heal(host)
        _raised.thaw(host)
        _raised.unlimited(host)
        with contextlib.suppress(LabError):  # there may be none
            _raised.run(host, "ip", "route", "flush", "type", "blackhole")


@pytest.fixture
def stock_sshd(lab: Lab) -> Iterator[str]:
    """The name of a host whose sshd, as Debian's own, never asks whether its clients are still there."""
    name = "lab1"
    config = lab.layout.host_directory(name) / "sshd_config"
    text = config.read_text()
    lines = [line for line in text.splitlines() if not line.startswith("ClientAlive")]
    assert lines != text.splitlines()
    for settings in ("\n".join(lines) + "\n", text):
        config.write_text(settings)
        lab.power_off(name)
        lab.boot(name)
        if settings != text:
            yield name


@pytest.fixture
def known(lab: Lab) -> Path:
    return lab.layout.known_hosts


@pytest.fixture(scope="session")
def artifact() -> Path:
    """The engine that was built, as `scripts/test` left it."""
    return built("kv_engine")
