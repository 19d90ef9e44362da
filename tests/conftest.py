"""Settings that every Python test shares."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.scheduling import longest_first, scheduling

# A busy CI host makes single examples slow; the examples' number is what bounds a test's time.
settings.register_profile(
    "perfrunner", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("perfrunner")


def pytest_configure() -> None:
    """A shell's background jobs ignore SIGINT, and so would all that the tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of garbage collection, which took a tenth of the CPU time of all tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest_first(items)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduling(config, log) if config.option.dist == "loadfile" else None


@pytest.fixture(autouse=True)
def _as_wide_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints does not hang on the terminal that the tests were started from."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True, scope="session")
def _several_runs_on_this_machine() -> Iterator[None]:
    """Tests run next to each other, and next to a measurement: each has its own work directory's lock only."""
    before = os.environ.get("PERFRUNNER_SHARE_HOST")
    os.environ["PERFRUNNER_SHARE_HOST"] = "1"
    yield
    if before is None:
        del os.environ["PERFRUNNER_SHARE_HOST"]
