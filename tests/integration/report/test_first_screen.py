"""The first screen as a picture, on a desk and on a telephone, in light and in dark: what lies where, and is drawn.

Of each part its box and its ink (the share of pixels in it that differ from a neighbour) are compared with what was
kept: within what another font moves. After a change of the page that is meant, look at the page and keep the new ones:

    KEEP_FIRST_SCREENS=1 pytest tests/integration/report/test_first_screen.py -k keep
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytestmark = [pytest.mark.integration, pytest.mark.long]

KEPT = Path(__file__).parent / "first_screens.json"
PARTS = ("h1", ".sentences", ".panels", ".panels .strip", ".compared")
SIZES = [(1400, 900), (390, 844)]
EDGE = 24  # of 255 levels of grey, from a pixel to the one next to or below it
MOVED = 60  # pixels: two lines of text
FAINTER = 2.0  # times


@pytest.fixture
def first_screen(browser, page):
    """first_screen(size, scheme, css) -> of each part on it [left, top, right, bottom, ink]; `css` changes the page."""

    def take(size, scheme="light", css=""):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        tab = context.new_page()
        tab.goto(page.as_uri(), wait_until="load")
        if css:  # as a sheet: the page's policy allows no style element that is added
            tab.evaluate(
                "css => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css);"
                " document.adoptedStyleSheets = [sheet]; }",
                css,
            )
        boxes = {part: tab.locator(part).first.bounding_box() for part in PARTS}
        ink = edges(Image.open(io.BytesIO(tab.screenshot())))
        context.close()
        there = {part: box for part, box in boxes.items() if box and box["y"] < size[1]}
        return {part: seen(box, ink) for part, box in there.items()}

    return take


def edges(picture):
    grey = np.asarray(picture.convert("L"), dtype=np.int16)
    ink = np.zeros(grey.shape, dtype=bool)
    ink[:, 1:] |= np.abs(np.diff(grey, axis=1)) > EDGE
    ink[1:] |= np.abs(np.diff(grey, axis=0)) > EDGE
    return ink


def seen(box, ink):
    """The box within the screen, and its ink."""
    left, top = round(box["x"]), round(box["y"])
    right = min(round(box["x"] + box["width"]), ink.shape[1])
    bottom = min(round(box["y"] + box["height"]), ink.shape[0])
    inside = ink[top:bottom, left:right]
    return [left, top, right, bottom, round(float(inside.mean()), 4) if inside.size else 0.0]


def differences(results, expected):
    """In words; empty where the screens are alike."""
    messages = []
    for part, (*sides, ink) in expected.items():
        if part not in results:
            messages.append(f"{part} is gone")
            continue
        *now, own = results[part]
        if max(abs(a - b) for a, b in zip(now, sides, strict=True)) > MOVED:
            messages.append(f"{part} is at {now}, not {sides}")
        if not ink / FAINTER <= own <= ink * FAINTER:
            messages.append(f"{part} has {own} of ink, not {ink}")
    return messages


def kept(size):
    return json.loads(KEPT.read_text())[f"{size[0]}x{size[1]}"]


@pytest.mark.skipif("KEEP_FIRST_SCREENS" not in os.environ, reason="keeps new ones")
def test_keep(first_screen):
    screens = []
    for size in SIZES:
        rows = [f'  "{part}": {numbers}' for part, numbers in first_screen(size).items()]
        screens.append(f' "{size[0]}x{size[1]}": {{\n' + ",\n".join(rows) + "\n }")
    KEPT.write_text("{\n" + ",\n".join(screens) + "\n}\n")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_first_screen_is_as_it_was(first_screen, size, scheme):
    expected = kept(size)
    assert set(expected) >= {".sentences", ".panels", ".panels .strip"}
    assert differences(first_screen(size, scheme), expected) == []


@pytest.mark.parametrize("size", SIZES)
def test_a_screen_that_lost_its_sentences_or_chart_is_reported(first_screen, size):
    for part in (".sentences", ".panels"):
        for how in ("visibility: hidden", "display: none"):
            results = first_screen(size, css=f"{part} {{ {how} !important }}")
            assert any(output.startswith(part) for output in differences(results, kept(size))), (
                part,
                how,
            )


@pytest.mark.parametrize("size", SIZES)
def test_another_font_is_no_other_screen(first_screen, size):
    results = first_screen(size, css="body { font-family: 'DejaVu Serif', serif !important }")
    assert differences(results, kept(size)) == []
