"""Which tests share a worker of pytest-xdist, and which begin first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

ONE_BUILD = "tests/e2e/"
FIRST = (
    ONE_BUILD,
    "tests/integration/run/",
)  # they wait more than they work, and one file takes minutes


def longest_first(items: list[pytest.Item]) -> None:
    """What takes longest begins first: begun in the order of names it would be all that is left to do."""

    def place(item: pytest.Item) -> int:
        return next(
            (n for n, start in enumerate(FIRST) if item.nodeid.startswith(start)), len(FIRST)
        )

    items.sort(key=place)


def scheduling(config: pytest.Config, log: Producer | None = None) -> LoadFileScheduling:
    """As `--dist loadfile`, but the end-to-end tests are one file, and files begin in the order of their tests.

    Those tests all need the same build of the engine. Spread over workers they wait for each other's lock while the
    tests that could use the time stand in their queues; begun last, which is xdist's order for files of few tests,
    the build and the experiments after it are all that is left to do.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return ONE_BUILD if nodeid.startswith(ONE_BUILD) else super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)
