"""Folded stacks: how often each chain of callers was seen, `outermost;…;innermost count`, a line each.

The format of Brendan Gregg's flame graph tools (github.com/brendangregg/FlameGraph), so that a profile can be given to
them, to speedscope or to inferno. The first frame is the thread's name without its number: which of several alike had
the work differs between two runs of one program.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from perfrunner.errors import TrialError

Stack: TypeAlias = tuple[str, ...]

UNKNOWN = "[unknown]"
KERNEL_MARK = "_[k]"  # of a function of the kernel, as stackcollapse-perf.pl writes it
# A part that a compiler moved out of a function is the function: which parts it moves differs between builds.
_CLONE = re.compile(r"(?: \[clone [^]]*\]|\.(?:constprop|isra|part|cold|lto_priv)(?:\.\d+)*)+$")
_NUMBER = re.compile(r"(?<=[^\d\s])[-_:#./ ]*\d+$")  # of a thread among its like
_SYMBOL_VERSION = re.compile(r"@@?[A-Z][\w.]*$")


@dataclass(frozen=True)
class Folded:
    """Samples by stack, the outermost frame first."""

    counts: Mapping[Stack, int]

    @property
    def samples(self) -> int:
        return sum(self.counts.values())

    def text(self) -> str:
        """Of a file; the same for the same samples."""
        return "".join(f"{';'.join(stack)} {n}\n" for stack, n in sorted(self.counts.items()))


def fold(lines: Iterable[str]) -> Folded:
    """What `perf script -F comm,ip,sym,dso` prints: a thread's name, its frames from the innermost out, an empty line.

    TrialError for anything else.
    """
    counts: Counter[Stack] = Counter()
    thread, frames = "", list[str]()
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if not text:
            if thread:
                counts[_stack(thread, frames)] += 1
            thread, frames = "", []
        elif line[0].isspace() and thread:
            frames.append(_frame(text, number))
        elif not line[0].isspace() and not thread:
            thread = _clean(_NUMBER.sub("", text))
        else:
            raise TrialError(f"perf script, line {number}: no sample: {text[:200]}")
    if thread:
        counts[_stack(thread, frames)] += 1
    return Folded(counts)


def added(profiles: Iterable[Folded]) -> Folded:
    """Of several processes as one."""
    total: Counter[Stack] = Counter()
    for profile in profiles:
        total.update(profile.counts)
    return Folded(total)


def parse_folded(text: str, where: str) -> Folded:
    """A file of folded stacks. TrialError, with its line, for one that is none."""
    counts: Counter[Stack] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdigit():
            raise TrialError(f"{where}:{number}: no folded stack: {line[:200]}")
        counts[tuple(stack.split(";"))] += int(count)
    return Folded(counts)


def _stack(thread: str, frames: list[str]) -> Stack:
    return (thread, *_joined(reversed(frames)))


def _joined(frames: Iterable[str]) -> Iterator[str]:
    """Without repetitions of a library that tells no names: how many of its frames were seen means nothing."""
    last = ""
    for frame in frames:
        if frame != last or not frame.startswith("["):
            yield frame
        last = frame


def _frame(text: str, number: int) -> str:
    """`  ADDRESS FUNCTION (FILE)`: the function, or the file in brackets where that tells no name."""
    address, _, rest = text.strip().partition(" ")
    if not rest.endswith(")") or not re.fullmatch(r"[0-9a-f]+", address):
        raise TrialError(f"perf script, line {number}: no frame: {text[:200]}")
    name, _, place = rest.replace(" (deleted)", "").rpartition(" (")
    file = place[:-1].rsplit("/", 1)[-1].strip("[]")
    kernel = place.startswith("[") and file != "unknown" and file not in ("vdso", "vsyscall")
    if name in ("", UNKNOWN):
        return f"[{file}]"
    return f"{_plain(name)}{KERNEL_MARK if kernel else ''}"


def _plain(name: str) -> str:
    return _clean(_SYMBOL_VERSION.sub("", _CLONE.sub("", name)))


def _clean(name: str) -> str:
    """A frame in a line of frames."""
    return " ".join(name.replace(";", ":").split())
