"""Key states of the page and of the site as pictures, compared with those that are kept in pictures/.

A picture is half as large as the screen, and both are blurred a little, so that another release of the browser is no
other picture; a missing variant, another colour or a moved line is. After a change that is meant, keep new ones,
and look
at each of them before they are committed:

    KEEP_PICTURES=1 pytest tests/integration/report/test_pictures.py -k keep
"""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from browsing import drawn
from PIL import Image, ImageFilter

pytestmark = [pytest.mark.integration, pytest.mark.long]

KEPT = Path(__file__).parent / "pictures"
FONT = "DejaVu Sans"
MOST_BYTES = 100_000  # of a picture
BLUR = 1.5  # pixels
OTHER = 40  # of 255 levels of a colour, after blurring
SHARE = 0.002  # of the pixels may be other ones
SIZE = 4  # pixels that a side may be longer or shorter


class State(NamedTuple):
    """Which page, how it is looked at, what is done to it, and the part that is pictured."""

    page: str
    part: str
    width: int = 1400
    scheme: str = "light"
    address: str = ""
    media: str = "screen"


STATES = {
    "trials-hovered": State("page", "#figure-trials"),
    "trials-relative-dark": State("page", "#figure-trials", scheme="dark", address="relative=1"),
    "trial-kept": State("page", "#trial", address="trial=4"),
    "phases": State("page", "#figure-rates"),
    "spread-dark": State("rounds_page", "#figure-spread", scheme="dark"),
    "rounds": State("rounds_page", "#figure-rounds"),
    "memory-dark": State("page", "#figure-memory", scheme="dark", address="cases=0"),
    "fragmentation-phone": State("page", "#figure-fragmentation", 390, address="cases=1"),
    "table-dark": State("page", "[data-case] .scroll", scheme="dark", address="filter=latency"),
    "table-phone": State("page", "[data-case] .scroll", 390, address="filter=rss"),
    "comparison-paper": State("page", "section.comparison", 750, media="print"),
    "site-history": State("site", "#history-charts", 1200),
}


@pytest.fixture
def picture(browser, request):
    """picture(name, css) of a state, as large as it is kept; `css` changes the page."""
    contexts = []

    def take(name, css=""):
        state = STATES[name]
        path = request.getfixturevalue(state.page)
        path = path / "spec-nightly.html" if path.is_dir() else path
        context = browser.new_context(
            viewport={"width": state.width, "height": 900}, color_scheme=state.scheme
        )
        contexts.append(context)
        tab = context.new_page()
        tab.emulate_media(media=state.media)
        tab.goto(path.as_uri() + (f"#{state.address}" if state.address else ""), wait_until="load")
        if css:  # as a sheet: the page's policy allows no style element that is added
            tab.evaluate(
                "css => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css);"
                " document.adoptedStyleSheets = [sheet]; }",
                css,
            )
        part = tab.locator(state.part).first
        if state.part.startswith("#figure"):
            drawn(tab, state.part.removeprefix("#figure-"))
        part.scroll_into_view_if_needed()
        if name.endswith("hovered"):
            hover(tab)
        shot = Image.open(io.BytesIO(part.screenshot(animations="disabled"))).convert("RGB")
        return shot.resize((shot.width // 2, shot.height // 2), Image.Resampling.BOX)

    yield take
    for context in contexts:
        context.close()


def hover(tab):
    plot = tab.locator("#figure-trials .plot").first
    x, y = plot.evaluate("""box => {
        const s = box.chart.getOption().series.findIndex(s => s.type === 'scatter');
        const p = box.chart.convertToPixel({ seriesIndex: s }, box.chart.getOption().series[s].data[2].value);
        const r = box.getBoundingClientRect(); return [r.x + p[0], r.y + p[1]]; }""")
    tab.mouse.move(x, y)
    plot.get_by_text("block 3").wait_for()


def difference(results, kept):
    """In words; empty where they are alike."""
    if max(abs(a - b) for a, b in zip(results.size, kept.size, strict=True)) > SIZE:
        return f"it is {results.size}, not {kept.size}"
    size = tuple(map(min, results.size, kept.size))
    new, old = (
        np.asarray(
            single.crop((0, 0, *size)).filter(ImageFilter.GaussianBlur(BLUR)), dtype=np.int16
        )
        for single in (results, kept)
    )
    share = float((np.abs(new - old).max(axis=2) > OTHER).mean())
    return f"{share:.2%} of its pixels are other ones" if share > SHARE else ""


@pytest.fixture(scope="module")
def font():
    """The pictures hold text: they can be compared only where it is written in the same font."""
    results = subprocess.run(
        ["fc-match", FONT, "family"], capture_output=True, text=True, check=True
    )
    if FONT not in results.stdout:
        pytest.skip(f"the pictures are in {FONT}, and {results.stdout.strip()} stands for it here")


@pytest.mark.skipif("KEEP_PICTURES" not in os.environ, reason="keeps new ones")
@pytest.mark.parametrize("name", STATES)
@pytest.mark.usefixtures("font")
def test_keep(picture, name):
    KEPT.mkdir(exist_ok=True)
    picture(name).save(KEPT / f"{name}.png", optimize=True)
    assert (KEPT / f"{name}.png").stat().st_size <= MOST_BYTES


@pytest.mark.parametrize("name", STATES)
@pytest.mark.usefixtures("font")
def test_it_looks_as_it_did(picture, name, tmp_path):
    results = picture(name)
    results.save(tmp_path / f"{name}.png")
    messages = difference(results, Image.open(KEPT / f"{name}.png"))
    assert messages == "", f"{messages}: see {tmp_path / name}.png"


@pytest.mark.usefixtures("font")
def test_every_kept_picture_is_of_a_state():
    assert {path.stem for path in KEPT.glob("*.png")} == set(STATES)


@pytest.mark.parametrize(
    ("name", "css"),
    [
        ("memory-dark", ".plot path[fill='#9db9d9'] { fill: #993333 }"),
        ("table-phone", "td.better, td.worse { display: none !important }"),
        ("comparison-paper", ".strip .ci { visibility: hidden }"),
        ("site-history", ".plot path[stroke='#d55e00'] { display: none }"),
    ],
)
@pytest.mark.usefixtures("font")
def test_what_is_missing_or_has_another_colour_is_reported(picture, name, css):
    assert difference(picture(name, css), Image.open(KEPT / f"{name}.png")) != ""
