"""Parse the engine's memory over time: the JSON lines of `kvctl sample`.

Each line is one instant: /proc of the engine process and `STAT memory` are read immediately after each other,
so that both terms of a fragmentation formula belong together. Values are bytes and seconds. A value that the
allocator does not report is absent from `stat`; it is never taken as 0.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.errors import TrialError


@dataclass(frozen=True)
class Sample:
    """The state of one engine process at one instant, or the sum over several processes."""

    t: float  # unix seconds on the engine's host
    rss: int
    pss: int
    pss_file: int | None  # the part of pss that maps files; None from older kernels and load tools
    lazyfree: int
    anon_huge: int
    vsz: int
    stacks_vsz: int | None
    cpu_s: float
    threads: int
    stat: Mapping[str, float]

    @property
    def rss_true(self) -> int:
        """Rss without pages that were returned by MADV_FREE but not yet reclaimed (old jemalloc frees lazily)."""
        return self.rss - self.lazyfree

    def stat_value(self, key: str) -> float | None:
        """Return a value of STAT memory; None if it is absent."""
        return self.stat.get(key)


def parse_samples(text: str, where: str) -> list[Sample]:
    """Parse every complete line. A torn last line is ignored, because a signal stops the sampler.

    Any other unreadable line raises TrialError: a hole in the series must not remain unnoticed.
    """
    lines = text.split("\n")
    complete, tail = lines[:-1], lines[-1]
    samples = [
        _parse(line, f"{where}:{number}") for number, line in enumerate(complete, 1) if line.strip()
    ]
    if tail.strip():
        with contextlib.suppress(TrialError):  # torn by the stop signal
            samples.append(_parse(tail, f"{where}:{len(lines)}"))
    return samples


def _parse(line: str, where: str) -> Sample:
    try:
        document = json.loads(line)
        stat = document["stat"]
        stacks, files = document.get("stacks_vsz"), document.get("pss_file")
        return Sample(
            t=float(document["t"]),
            rss=int(document["rss"]),
            pss=int(document["pss"]),
            pss_file=None if files is None else int(files),
            lazyfree=int(document["lazyfree"]),
            anon_huge=int(document["anon_huge"]),
            vsz=int(document["vsz"]),
            stacks_vsz=None if stacks is None else int(stacks),
            cpu_s=float(document["cpu_user_s"]) + float(document["cpu_sys_s"]),
            threads=int(document["threads"]),
            stat=numbers(stat),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrialError(f"{where}: not a sample ({error!r})") from None


def numbers(group: Mapping[str, Any]) -> dict[str, float]:
    """Return the numeric values of a STAT group, without the textual ones."""
    values: dict[str, float] = {}
    for key, value in group.items():
        try:
            values[key] = float(value)
        except (TypeError, ValueError):
            continue
    return values


def add_nodes(per_node: Sequence[Sample]) -> Sample:
    """Add the samples of several engine nodes. A value that one node lacks is absent from the sum."""
    if not per_node:
        raise ValueError("no samples to add")
    shared = set(per_node[0].stat).intersection(*(sample.stat for sample in per_node[1:]))
    return Sample(
        t=max(s.t for s in per_node),
        rss=sum(s.rss for s in per_node),
        pss=sum(s.pss for s in per_node),
        pss_file=_sum_of_all([s.pss_file for s in per_node]),
        lazyfree=sum(s.lazyfree for s in per_node),
        anon_huge=sum(s.anon_huge for s in per_node),
        vsz=sum(s.vsz for s in per_node),
        stacks_vsz=_sum_of_all([s.stacks_vsz for s in per_node]),
        cpu_s=sum(s.cpu_s for s in per_node),
        threads=sum(s.threads for s in per_node),
        stat={key: sum(s.stat[key] for s in per_node) for key in sorted(shared)},
    )


def _sum_of_all(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)
