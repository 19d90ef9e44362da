"""Colours that differ for the colour-blind as well: variants of one dash pattern, and verdicts, in light and in dark.

Seen by a dichromat as G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, "A Physiologically-based Model for
Simulation of Color Vision Deficiency", IEEE TVCG 15(6), 2009, have it (severity 1.0, on linear RGB). A distance is
CIE 1976 (of L*a*b*, D65): about 2 is just seen side by side, black and white are 100 apart.
"""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations, pairwise

import numpy as np
import pytest

from perfrunner.report.charts.style import A_DASH, VARIANTS, VERDICT

SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
}  # fmt: skip
TO_XYZ = np.array([
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
])  # fmt: skip
WHITE = np.array([0.95047, 1.0, 1.08883])
OF_VARIANTS = 15.0  # that have the same dashes; marks differ besides
OF_VERDICTS = 20.0
OF_SHADES = 10.0  # of neighbours in the chart of memory
FROM_PAPER = 25.0
VERDICTS = ("better", "worse", "same", "unsure", "not comparable")


def linear(colour: str) -> np.ndarray:
    """#rrggbb as linear RGB, 0 to 1."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    share = TO_XYZ @ rgb / WHITE
    x, y, z = np.where(share > (6 / 29) ** 3, np.cbrt(share), share / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(single: str, other: str, sight: str) -> float:
    seen = [lab(np.clip(SIGHT[sight] @ linear(colour), 0, 1)) for colour in (single, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def of_page(scheme: str) -> dict[str, str]:
    """The page's named colours; dark ones replace some of the light ones."""
    css = files("perfrunner.report").joinpath("templates/report.css").read_text("utf-8")
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    results = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    if scheme == "dark":
        results |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark))
    return {
        name.replace("not-comparable", "not comparable"): value for name, value in results.items()
    }


def test_the_simulation_leaves_grey_alone_and_confuses_red_with_green():
    for sight in SIGHT:
        assert distance("#000000", "#ffffff", sight) == pytest.approx(100, abs=0.1)
        assert distance("#808080", "#808081", sight) < 1
    assert distance("#b8321b", "#8a5a00", "normal") > 35  # once worse and unsure
    assert distance("#b8321b", "#8a5a00", "deuteranopia") < 3


@pytest.mark.parametrize("sight", SIGHT)
def test_variants_of_the_same_dashes_differ(sight):
    near = {
        (single, other): round(distance(VARIANTS[single], VARIANTS[other], sight), 1)
        for single, other in combinations(range(len(VARIANTS)), 2)
        if single // A_DASH == other // A_DASH
    }
    assert {pair: d for pair, d in near.items() if d < OF_VARIANTS} == {}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_verdicts_differ(scheme, sight):
    page = of_page(scheme)
    near = {
        pair: round(distance(page[pair[0]], page[pair[1]], sight), 1)
        for pair in combinations(VERDICTS, 2)
    }
    assert {pair: d for pair, d in near.items() if d < OF_VERDICTS} == {}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_differs_from_its_paper_and_a_shade_from_the_next(scheme, sight):
    page = of_page(scheme)
    drawn = [*VARIANTS, *(page[verdict] for verdict in VERDICTS)]
    assert min(distance(colour, page["paper"], sight) for colour in drawn) >= FROM_PAPER
    shades = [page[f"shade-{n}"] for n in range(5)]
    for single, other in pairwise(shades):
        assert distance(single, other, sight) >= OF_SHADES


def test_files_have_the_verdicts_of_the_page():
    assert {verdict: of_page("light")[verdict] for verdict in VERDICTS} == VERDICT
