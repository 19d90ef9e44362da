"""How much a host's CPUs were wanted during a trial: the kernel's own account of time in which some task waited.

It counts the tasks of the engine under test too, so it looks at the arm: a fact beside the numbers, no rule.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from perfrunner.cluster.transport import LinkLost, Transport
from perfrunner.errors import HostError

PATH = "/proc/pressure/cpu"
_SOME = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Pressure:
    """A reading: monotonic seconds here, and by host the microseconds in which some task waited, since its start."""

    at: float
    waited_us: dict[str, int]

    def share_since(self, before: Pressure) -> dict[str, float]:
        """By host, of the time since `before`; hosts whose kernel does not say are left out."""
        span = 1e6 * (self.at - before.at)
        both = self.waited_us.keys() & before.waited_us.keys()
        return {
            name: round((self.waited_us[name] - before.waited_us[name]) / span, 4)
            for name in sorted(both)
            if span > 0
        }


def read_pressure(hosts: Iterable[Transport]) -> Pressure:
    """Now, of all hosts that have the figure. LinkLost when a host cannot be asked."""
    found = {}
    for host in hosts:
        try:
            text = host.read_text(PATH)
        except LinkLost:
            raise
        except HostError:  # no such file: the kernel has no PSI
            continue
        if match := _SOME.search(text):
            found[host.name] = int(match[1])
    return Pressure(time.monotonic(), found)
