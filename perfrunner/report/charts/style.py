"""Define the style of charts and save them.

Colours are distinguishable without red and green. Text, grid and edges use placeholder colours that an
inlined SVG replaces by those of the page, so that it follows light and dark mode.
"""

from __future__ import annotations

import io
import re
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import factor_label, factor_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1c1e22"
FAINT = "#8a9099"
GRID = "#dfe3e8"
PAPER = "#ffffff"
# On a page these are used in light mode and replaced by the page's colours in dark mode.
PAGE_COLOURS = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
}
# Colour, mark and dashes identify a variant, so that a dozen differ in print and for colour-blind readers.
VARIANTS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8172b3", "#a0522d",
    "#c51b7d", "#999933", "#5a5fd0", "#9aa7b3",
)  # fmt: skip
MARKERS = ("o", "^", "s", "D", "v", "P", "h", "X", "*", "p", "<", ">")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.4)))
A_DASH = 4  # variants that share dashes; their colours differ enough
VERDICT = {
    "better": "#007a57",
    "worse": "#861a14",
    "same": "#0a58f0",
    "unsure": "#966000",
    "not comparable": "#5a2bab",
}
WIDTH = 7.6  # inches
TITLE_LETTERS, TITLE_LINE = 88, 0.19  # a line of a figure's title, and its inches
PNG_DPI = 150
PNG_PACKED = {"compress_level": 3}  # two thirds of the time of 6, files a tenth larger
SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "perfrunner",
    "svg.fonttype": "none",
    "text.hinting": "none",  # invisible at 150 dots per inch, but a tenth of the time
    "text.parse_math": False,  # two dollars in the title of a commit are no formula
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # the default place; without it every pass searches for overlapping ticks
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": True,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Apply our settings regardless of the user's matplotlibrc, and restore the previous ones."""
    import matplotlib as mpl
    from matplotlib import collections, figure, legend  # noqa: F401  # once, before others are forked
    from matplotlib.backends import backend_agg, backend_svg  # noqa: F401  # before others are forked

    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams  # the stubs name each key; ours are a mapping
        settings.update(SETTINGS)
        yield


def new_figure(height: float) -> Figure:
    """Return a figure without pyplot: no global state and no window system. `height` is in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=PNG_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(
    count: int, height: float, *, legend: float = 0.0, columns: int = 2, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` axes in rows of at most `columns`.

    `height`: inches per row; `legend`: additional inches; `share_y`: use one y axis.
    """
    columns = min(columns, count)
    lines = -(-count // columns)
    figure = new_figure(height * lines + legend + 0.2)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=share_y)
    axes = list(grid.flat)
    for spare in axes[count:]:
        spare.set_visible(False)
    return figure, axes[:count]


def entitle(figure: Figure, title: str) -> None:
    """Add a title above the figure and make room for it. Call it before the layout."""
    lines = textwrap.wrap(title, TITLE_LETTERS)
    room = TITLE_LINE * len(lines) + 0.1
    height = figure.get_figheight() + room
    figure.set_figheight(height)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, 1 - room / height))
    figure.text(0.08 / WIDTH, 1 - 0.06 / height, "\n".join(lines), va="top", fontsize=10.5,
                fontweight="bold")  # fmt: skip


def svg_bytes(figure: Figure) -> bytes:
    """Return an SVG file; the same figure gives the same bytes."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    _lay_out(figure)
    out = io.BytesIO()
    canvas: Any = FigureCanvasSVG(figure)  # its printers have no types
    canvas.print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def png_bytes(figure: Figure) -> bytes:
    """Return a PNG of 150 dots per inch."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    _lay_out(figure)
    canvas: Any = figure.canvas  # of the layout: it has measured every text
    if not isinstance(canvas, FigureCanvasAgg):
        canvas = FigureCanvasAgg(figure)
    canvas.draw()
    out = io.BytesIO()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")  # paper is opaque
    picture.save(out, "png", dpi=(PNG_DPI, PNG_DPI), **PNG_PACKED)
    return out.getvalue()


def _lay_out(figure: Figure) -> None:
    """Lay the figure out once for both files; savefig would do it twice for each."""
    engine: Any = figure.get_layout_engine()
    if engine is not None:
        for axes in figure.axes:
            for drawn in (
                *axes.lines,
                *axes.collections,
            ):  # they lie within the axes, or are cut there
                drawn.set_in_layout(False)
            for axis in (axes.xaxis, axes.yaxis):
                if (
                    not axis.get_label_text()
                ):  # otherwise each pass searches a place for it next to all ticks
                    axis.set_label_coords(0.5, 0.0)
        engine.execute(figure)
        below_title = engine.get().get("rect", (0, 0, 1, 1))
        for legend in figure.legends:
            legend.set_bbox_to_anchor(below_title, transform=figure.transFigure)
        figure.set_layout_engine("none")


def inline_svg(svg: bytes, name: str, label: str) -> str:
    """Return the SVG element for a page, with unique ids, the page's colours and a label."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    # otherwise the rule also applies to the page's own charts
    text = re.sub(r"(<style[^>]*>)\*\{", r"\1svg.chart *{", text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    verdicts = {colour: f"var(--{verdict})" for verdict, colour in VERDICT.items()}
    for colour, variable in {**PAGE_COLOURS, **verdicts}.items():
        text = text.replace(colour, variable)
    escaped = label.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escaped}" class="chart" ', 1)


def number_axis(axis: Any) -> None:
    """Label ticks as 1.85M instead of 1.85 with a separate 1e6; k and M are powers of 1000."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def draw_lines(
    axes: Axes, lines: Sequence[Sequence[tuple[float, float]]], colours: Any, **look: Any
) -> None:
    """Draw many lines as one collection, which takes a tenth of the time."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(lines, colors=colours, **{"zorder": 2, **look}))


def factor_axis(axes: Axes) -> None:
    """Make x a logarithmic axis of factors. Call it after drawing: the steps depend on the limits."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(factor_steps(*axes.get_xlim())))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: factor_label(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def variant_line(index: int) -> dict[str, Any]:
    """Return the colour and the dashes of a variant's line."""
    return {
        "color": VARIANTS[index % len(VARIANTS)],
        "linestyle": DASHES[index // A_DASH % len(DASHES)],
    }


def short_number(value: float) -> str:
    """Return a number in short form: 1.85M, 400k, 21.5."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{prefix}"
    return f"{value:.4g}"


def legend_height(entries: int, columns: int) -> float:
    """Return the height in inches of a legend above the panels."""
    return 0.17 * -(-entries // columns) + 0.1


def legend_columns(names: Sequence[str]) -> int:
    """Return the number of legend columns that fit the width with the longest name."""
    longest = max((len(name) for name in names), default=1)
    return max(1, min(4, len(names), int(WIDTH / (0.068 * longest + 0.45))))
