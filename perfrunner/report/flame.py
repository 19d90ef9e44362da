"""Draw flame graphs as SVG: a box is a function in one chain of callers, as wide as its share of the samples.

The outermost caller is at the bottom. A differential flame graph shows two profiles: a box is as wide as the mean of
both shares, so that functions of only one profile are visible. Its colour shows the difference, from blue (less than
the baseline) to red (more); a tooltip has the values. The colours are ColorBrewer's RdBu, which colour-blind readers
can distinguish, with a slightly darker middle that is visible on white.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from perfrunner.measure.cpu_profile import KERNEL_MARK
from perfrunner.report.numbers import minus

if TYPE_CHECKING:
    from perfrunner.measure.cpu_profile import Folded, Stack

ALL = "all"  # the frame below every stack
LONGEST_NAME = 72  # characters of a function name in a table; a tooltip has the full name
_INNERMOST = re.compile(r"<[^<>]*>")  # innermost template arguments
_EMPTIED = "\0"
_ARROW, _ARROW_KEPT = "operator->", "operator\1"  # this > does not end a template

WIDTH, ROW = 1200.0, 17.0  # units of the picture
LEAST_WIDTH = 0.002  # share of the narrowest box; a pointer cannot hit narrower ones
TEXT_FROM, CHARACTER = 34.0, 6.3  # minimum width of a box with a name; units per character
LESS, EVEN, MORE = (33, 102, 172), (234, 234, 234), (178, 24, 43)
FULL_COLOUR = 0.05  # difference of shares drawn in full colour, unless a larger one exists
PLAIN = {"function": "#f4d9a6", "library": "#d9dde3", "kernel": "#cbd8c0", "thread": "#e6e8eb"}
INK = "#222"  # of names on light boxes
DARK_BELOW = 0.45  # luminance of a box below which its name is white


@dataclass
class Frame:
    """A function in one chain of callers, with its callees, as shares of all samples of each variant."""

    name: str
    base: float = 0.0
    variant: float = 0.0
    callees: dict[str, Frame] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The mean of both shares, which also shows a frame that only one has. Callees never exceed their caller."""
        return (self.base + self.variant) / 2

    @property
    def difference(self) -> float:
        """The difference of the shares; positive if the variant spends a larger share than the baseline."""
        return self.variant - self.base


def frames(base: Folded, variant: Folded) -> Frame:
    """Merge both profiles into one tree of callers. One profile given twice yields that profile's own tree."""
    root = Frame(ALL)
    before, after = max(1, base.samples), max(1, variant.samples)
    for stack, count in base.counts.items():
        for frame in _chain(root, stack):
            frame.base += count / before
    for stack, count in variant.counts.items():
        for frame in _chain(root, stack):
            frame.variant += count / after
    return root


def _chain(root: Frame, stack: Stack) -> list[Frame]:
    """Return the frames of a stack from the root outwards, creating missing ones."""
    chain = [root]
    for name in stack:
        chain.append(chain[-1].callees.setdefault(name, Frame(name)))
    return chain


@dataclass(frozen=True)
class Box:
    """The position of a frame: `left` and `width` as shares, `depth` from the bottom (0: all samples)."""

    depth: int
    left: float
    width: float
    frame: Frame


def boxes(frame: Frame, depth: int = 0, left: float = 0.0) -> list[Box]:
    """Return the frame and those above it that are wide enough to see: callees above their caller, ordered by name."""
    placed = [Box(depth, left, frame.width, frame)]
    for name in sorted(frame.callees):
        callee = frame.callees[name]
        if callee.width >= LEAST_WIDTH:
            placed += boxes(callee, depth + 1, left)
        left += callee.width
    return placed


def scale_of_colours(placed: list[Box]) -> float:
    """Return the difference of shares that is drawn in full colour."""
    return max([FULL_COLOUR, *(abs(box.frame.difference) for box in placed)])


def flame_svg(root: Frame, label: str) -> str:
    """Draw one profile. `label` describes it in a sentence."""
    placed = boxes(root)
    return _svg(placed, label, [_kind_colour(box) for box in placed], [_tooltip(b) for b in placed])


def difference_svg(root: Frame, label: str) -> str:
    """Draw the difference of two profiles, the second against the first."""
    placed = boxes(root)
    full = scale_of_colours(placed)
    colours = [colour_of(box.frame.difference / full) for box in placed]
    return _svg(placed, label, colours, [_difference_tooltip(box) for box in placed])


def standalone(svg: str) -> str:
    """Return a drawing as a file of its own, with the styles that the page gives it."""
    style = f"<style>text{{font:11px monospace;fill:{INK}}}text.light{{fill:#fff}}</style>"
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f">{style}", 1
    )


def colour_of(place: float) -> str:
    """Return the colour of a difference: -1 is much less than the baseline, 0 equal, 1 much more."""
    end = MORE if place > 0 else LESS
    part = min(1.0, abs(place))
    mixed = (round(e + (f - e) * part) for e, f in zip(EVEN, end, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _kind_colour(box: Box) -> str:
    name = box.frame.name
    if box.depth <= 1:
        return PLAIN["thread"]
    if name.endswith(KERNEL_MARK):
        return PLAIN["kernel"]
    return PLAIN["library" if name.startswith("[") else "function"]


def _tooltip(box: Box) -> str:
    return f"{box.frame.name}: {percent_of(box.frame.variant)} of the samples"


def _difference_tooltip(box: Box) -> str:
    frame = box.frame
    return (
        f"{frame.name}: baseline {percent_of(frame.base)}, this variant {percent_of(frame.variant)},"
        f" {points(frame.difference)} points"
    )


def _svg(placed: list[Box], label: str, colours: list[str], tooltips: list[str]) -> str:
    height = ROW * (1 + max(box.depth for box in placed))
    size = f'viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" height="{height:g}"'
    parts = [f'<svg class="flame" role="img" aria-label="{escape(label)}" {size}>']
    for box, colour, text in zip(placed, colours, tooltips, strict=True):
        x, y = box.left * WIDTH, height - ROW * (box.depth + 1)
        width = max(0.5, box.width * WIDTH - 0.6)
        parts.append(
            f'<g data-x="{box.left:.5f}" data-w="{box.width:.5f}" data-d="{box.depth}"><title>{escape(text)}</title>'
            f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{ROW - 1:g}" fill="{colour}"/>'
            f"{_name(box, x, y, width, colour)}</g>"
        )
    return "".join([*parts, "</svg>"])


def _name(box: Box, x: float, y: float, width: float, colour: str) -> str:
    if width < TEXT_FROM:
        return ""
    letters = int((width - 4) / CHARACTER)
    name = "all samples" if box.frame.name == ALL else box.frame.name
    ink = ' class="light"' if _luminance(colour) < DARK_BELOW else ""
    return f'<text x="{x + 3:.1f}" y="{y + 12:g}"{ink}>{escape(short_name(name, letters))}</text>'


def _luminance(colour: str) -> float:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def percent_of(share: float) -> str:
    """Return a share in percent: 0.1234 is `12.3 %`, zero is `-`."""
    return f"{_hundredths(share)} %" if share else "-"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    text = _hundredths(abs(difference))
    return f"+{text}" if difference > 0 else minus(f"-{text}")


def _hundredths(share: float) -> str:
    return f"{100 * share:.{1 if share >= 0.01 else 2}f}"


def short_name(function: str, most: int = LONGEST_NAME) -> str:
    """Shorten a function's name: drop template arguments first, then cut the end."""
    if len(function) <= most:
        return function
    name = function.replace(_ARROW, _ARROW_KEPT)
    while (inner := _INNERMOST.sub(_EMPTIED, name)) != name:
        name = inner
    name = name.replace(_EMPTIED, "<>").replace(_ARROW_KEPT, _ARROW)
    return name if len(name) <= most else f"{name[: most - 1]}…"
