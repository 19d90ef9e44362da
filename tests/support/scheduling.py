"""Decide which tests share a worker of pytest-xdist, and which start first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

ONE_BUILD = "tests/e2e/"  # all of them need the same build of the engine
ONE_BROWSER = "tests/integration/report/"  # all of them need Chromium and the same pages
TOGETHER = (ONE_BUILD, ONE_BROWSER)
FIRST = (ONE_BUILD, "tests/integration/experiment/", ONE_BROWSER)  # each of these takes minutes


def longest_first(items: list[pytest.Item]) -> None:
    """Move the tests that take longest to the front, so that they are not left for the end."""

    def place(item: pytest.Item) -> int:
        return next(
            (n for n, start in enumerate(FIRST) if item.nodeid.startswith(start)), len(FIRST)
        )

    items.sort(key=place)


def scheduling(config: pytest.Config, log: Producer | None = None) -> LoadFileScheduling:
    """Schedule as `--dist loadfile` does, but keep what shares a build or a browser on one worker.

    Spread over the workers, the end-to-end tests would wait for one another's lock, and each
    worker would start a browser and make its pages. xdist would start files of few tests last.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            for together in TOGETHER:
                if nodeid.startswith(together):
                    return together
            return super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)
