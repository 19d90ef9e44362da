"""Parse sets of CPUs: `0`, `[0, 2]`, `"0-3,8"`, `auto` (chosen by the host's topology) or `any`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator

AUTO, ANY = "auto", "any"
_WANTED = 'expected CPUs such as 0, [0, 2] or "0-3,8", or auto, or any'
_LIST = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*")


def parse_cpus(value: object) -> str:
    """Return the set in the kernel's list format (`0-3,8`), or `auto` or `any`. Raises ValueError."""
    if value in (AUTO, ANY):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, list | tuple):
        if not value or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in value):
            raise ValueError(_WANTED)
        return cpu_list(value)
    if not isinstance(value, str) or not _LIST.fullmatch(value.replace(" ", "")):
        raise ValueError(_WANTED)
    return cpu_list(cpu_numbers(value.replace(" ", "")))


def cpu_numbers(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as `0-3,8` in ascending order. Raises ValueError."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if last and int(last) < int(first):
            raise ValueError(_WANTED)
        numbers.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(numbers))


def cpu_list(numbers: Iterable[int]) -> str:
    """Format CPUs in the kernel's list format: `(0, 1, 2, 3, 8)` as `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


Cpus = Annotated[str, BeforeValidator(parse_cpus)]
