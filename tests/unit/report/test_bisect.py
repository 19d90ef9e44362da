"""The page and the chart of a bisection take the title of any commit."""

from __future__ import annotations

from perfrunner.bisect.search import BisectState, Step
from perfrunner.report.bisect import draw, markdown

TITLE = "use $HOME^_ and $PATH|`x` *a* <b>b</b>"
STATE = BisectState(
    "s", "ops_per_s", "a" * 40, "b" * 40,
    [
        Step("b" * 40, TITLE, "good", "", estimate=1.0, low=0.9, high=1.1),
        Step("c" * 40, "second", "skip", "does not build:\nerror | `x`"),
    ],
)  # fmt: skip


def test_dollars_in_a_title_are_no_formula() -> None:
    svg, png = draw(STATE, ["b" * 40, "c" * 40])
    assert TITLE.partition("|")[0] in svg.decode()
    assert png.startswith(b"\x89PNG")


def test_a_title_is_no_markup() -> None:
    page = markdown(STATE, f"The first bad commit is {TITLE}", "c.svg")
    escaped = r"use $HOME^\_ and $PATH\|\`x\` \*a\* \<b>b\</b>"
    assert f"**The first bad commit is {escaped}**" in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert f"| {escaped} | good |" in rows[1]
    assert r"does not build: error \| \`x\` |" in rows[2]
