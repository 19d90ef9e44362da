"""Parse quantities such as `5s`, `10m`, `1%`, `256`, `1KiB` and `100k`, and sets of CPUs such as `"0-3,8"`.

Parsed values are plain numbers: seconds (float), bytes and counts (int), shares (float, 1 % = 0.01).
k, M and G are powers of 1000; Ki, Mi and Gi are powers of 1024. A bare number is in the base unit, so
a parsed value can be written and read again. CPUs are in the kernel's list format, `auto` (chosen by the host's
topology) or `any`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
FACTORS = {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30,
}  # fmt: skip

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_DURATION = re.compile(rf"{_NUMBER}\s*(ms|s|min|m|h|d)")
_COUNT = re.compile(rf"{_NUMBER}\s*(Ki|Mi|Gi|k|K|M|G|)")
_SIZE = re.compile(rf"{_NUMBER}\s*(Ki|Mi|Gi|k|K|M|G|)B?")
_PERCENT = re.compile(rf"{_NUMBER}\s*%")
_EXACT = 2.0**53  # below it, a float that is a whole number is the one that was written
MOST = 2**63 - 1  # largest count or size that the engine and SQLite can store

A_DURATION = "a duration such as 5s, 1.5m or 2h"
A_COUNT = "a whole number such as 1000, 100k or 5M"
A_SIZE = "a size in bytes such as 256, 4k or 1MiB"
A_SHARE = "a percentage such as 1%"


def number_of(value: object) -> float | None:
    """Return the value as a finite number; None for anything else, including bool."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
        return None
    return number if math.isfinite(number) else None


def parse_duration(value: object) -> float:
    """Parse a duration and return seconds. Raises ValueError."""
    number = number_of(value)
    if number is not None and number >= 0:
        return number
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        return float(match[1]) * SECONDS[match[2]]
    raise ValueError(f"expected {A_DURATION}")


def parse_count(value: object) -> int:
    """Parse a count. Raises ValueError."""
    return _whole(value, _COUNT, A_COUNT)


def parse_size(value: object) -> int:
    """Parse a size and return bytes. Raises ValueError."""
    return _whole(value, _SIZE, A_SIZE)


def share_of(value: object) -> float | None:
    """Return a percentage as a share (`10%` is 0.1, `300%` is 3) and a number as it is; else None."""
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        return float(match[1]) / 100
    return number_of(value)


def parse_share(value: object) -> float:
    """Parse a share from 0 to 1: `1%` is 0.01, a bare number is a share. Raises ValueError."""
    share = share_of(value)
    if share is not None and 0 <= share <= 1:
        return share
    raise ValueError(f"expected {A_SHARE} (or a number from 0 to 1)")


def parse_percent(value: object) -> float:
    """Parse a percentage from 0 to 100: `80` and `80%` are both 80. Raises ValueError."""
    number = number_of(value)
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        number = float(match[1])
    if number is None or not 0 <= number <= 100:
        raise ValueError("expected a percentage from 0 to 100")
    return number


def _whole(value: object, pattern: re.Pattern[str], wanted: str) -> int:
    """Return the exact whole number; floats would lose digits of 1.001k and of 2**53 + 1."""
    number: Decimal | None = None
    if isinstance(value, str) and (match := pattern.fullmatch(value.strip())):
        number = Decimal(match[1]) * FACTORS[match[2]]
    elif (number_of(value) is not None and isinstance(value, int)) or (
        isinstance(value, float) and abs(value) < _EXACT
    ):
        number = Decimal(value)
    if number is None or not 0 <= number <= MOST or number != int(number):
        raise ValueError(f"expected {wanted}")
    return int(number)


AUTO, ANY = "auto", "any"
_WANTED = 'expected CPUs such as 0, [0, 2] or "0-3,8", or auto, or any'
_RANGE = r" *[0-9]{1,5} *(- *[0-9]{1,5} *)?"
_HIGHEST_CPU = 99_999
_LIST = re.compile(rf"{_RANGE}(,{_RANGE})*")


def parse_cpus(value: object) -> str:
    """Return the set in the kernel's list format (`0-3,8`), or `auto` or `any`. Raises ValueError."""
    if value in (AUTO, ANY):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, list | tuple):
        if not value or not all(type(n) is int and 0 <= n <= _HIGHEST_CPU for n in value):
            raise ValueError(_WANTED)
        return cpu_list(value)
    if not isinstance(value, str) or not _LIST.fullmatch(value):
        raise ValueError(_WANTED)
    return cpu_list(cpu_numbers(value))


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
