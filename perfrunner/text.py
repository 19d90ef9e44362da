"""Text on its way in and out: bytes that are not UTF-8, streams that cannot hold every character, counts in words.

Python keeps an undecodable byte of a file name, an argument or a commit title as a lone surrogate, which no JSON
document, page or database accepts. Such text is made readable where it enters a record.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import IO, Any

from perfrunner.errors import harmless

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ERRORS = "perfrunner.nearest"  # the name of `nearest` among Python's error handlers

_UNSTORABLE = re.compile("[\ud800-\udfff\0]")  # PostgreSQL has no NUL in a text either
_NEAREST = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "·": ".", "•": "*", "±": "~", "×": "x", "…": "...",  # noqa: RUF001
    "→": "->", "←": "<-", "≥": ">=", "≤": "<=", "≈": "~", "µ": "u", "μ": "u", "Δ": "d",
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "✓": "+", "✗": "x", "\u202f": " ", "\u2009": " ",  # noqa: RUF001
}  # fmt: skip


def readable(text: str) -> str:
    """Return the text with each undecodable byte, and each NUL, as U+FFFD."""
    return _UNSTORABLE.sub(REPLACEMENT, text)


def all_readable(value: Any) -> Any:
    """Return a JSON-like value with every text in it, keys too, made readable."""
    return _mapped(value, readable)


def all_harmless(value: Any) -> Any:
    """Return a JSON-like value, its keys too, with escaped control characters: they could steer a terminal."""
    return _mapped(value, lambda text: harmless(readable(text)))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): _mapped(child, change) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(child, change) for child in value]
    return value


def never_refuse(stream: IO[str] | None) -> None:
    """Make a stream write the nearest characters for those that its encoding lacks (Latin-1, LANG=C).

    A stream that is not Python's own text stream is left as it is.
    """
    codecs.register_error(ERRORS, nearest)
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors=ERRORS)


def nearest(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace what cannot be encoded: a minus sign by `-`, an accented letter by the letter, all else by `?`.

    An error handler of Python's codecs; numbers stay numbers whatever the encoding is.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(map(_nearest, error.object[error.start : error.end]))
    return text, error.end


def _nearest(character: str) -> str:
    if character in _NEAREST:
        return _NEAREST[character]
    base = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return base or "?"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: `1 block`, `2 blocks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def product_of(variants: int, cases: int, blocks: int) -> str:
    """Return what a run consists of: `2 variants x 1 case x 10 blocks`."""
    counts = ((variants, "variant"), (cases, "case"), (blocks, "block"))
    return " x ".join(count_of(number, noun) for number, noun in counts)
