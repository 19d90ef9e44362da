"""The HTML report in a real browser is readable: at every width, in light and dark, on paper, by a screen reader."""

from __future__ import annotations

import pytest
from browsing import contrast, drawn, violations
from playwright.sync_api import expect as playwright_expect

pytestmark = [pytest.mark.integration, pytest.mark.long]


A4 = 703  # CSS pixels between margins of 12 mm

# What is wider than its place on the sheet, or reaches beyond it.
CLIPPED = """() => {
    const told = [], sheet = document.documentElement.clientWidth + 1;
    for (const e of document.querySelectorAll('.scroll'))
        if (e.scrollWidth > e.clientWidth + 1) told.push(e.className + ' is cut: ' + e.textContent.trim().slice(0, 60));
    for (const svg of document.querySelectorAll('.plot svg')) {
        const plot = svg.closest('.plot'), wide = svg.getBoundingClientRect().width;
        if (Math.abs(wide - plot.clientWidth) > 2) told.push(`${plot.ariaLabel}: ${wide} in ${plot.clientWidth}`);
    }
    for (const e of document.querySelectorAll('p, li, dd, td, th, .plot'))
        if (e.getBoundingClientRect().right > sheet) told.push('beyond: ' + e.textContent.trim().slice(0, 60));
    return told; }"""


def on_paper(tab):
    """Print as a reader does: the page is laid out for the screen first, and for the sheet without a resize."""
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": A4, "height": 1000})
    assert tab.locator("details:not([open])").count() == 0


@pytest.mark.parametrize("width", [390, 750, 1400, 2400])
@pytest.mark.parametrize("which", ["page", "three_metrics", "rounds_page"])
def test_on_paper_nothing_is_cut_and_the_folds_are_open(browser, request, tmp_path, which, width):
    path = request.getfixturevalue(which)
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.add_init_script("addEventListener('resize', e => e.stopImmediatePropagation())")
    tab.goto(path.as_uri(), wait_until="load")
    on_paper(tab)
    findings = [
        tab.locator(".plot svg").count() - tab.locator(".plot").count(),
        tab.evaluate(CLIPPED),
    ]
    words = tab.evaluate(ILLEGIBLE)
    tab.pdf(path=tmp_path / "page.pdf", format="A4")
    context.close()
    assert findings == [0, []]
    assert words == []
    assert (tmp_path / "page.pdf").stat().st_size > 50_000


def test_paper_leaves_out_what_it_has_twice_and_says_so(visit):
    tab = visit(1400)
    assert tab.locator(".screen").count() > 10
    assert not tab.locator(".on-paper").is_visible()
    size = "e => parseFloat(getComputedStyle(e).fontSize)"
    on_paper(tab)
    assert tab.locator(".screen:visible").count() == 0
    assert tab.locator(".on-paper").is_visible()
    assert tab.locator("table.results").first.evaluate(size) >= 9


def test_after_printing_the_page_is_as_it_was(visit):
    tab = visit(1400)
    closed = tab.locator("details:not([open])").count()
    wide = drawn(tab, "trials").locator(".plot").first.bounding_box()["width"]
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details:not([open])").count() == 0
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details:not([open])").count() == closed
    assert closed > 0
    assert drawn(tab, "trials").locator(".plot svg").first.bounding_box()["width"] == pytest.approx(
        wide, abs=16
    )


def test_the_rows_of_a_table_lie_in_its_columns(visit):
    """The first row of a metric has the class of the first screen's name, and once had its grid."""
    tab = visit(1400)
    rows = tab.locator("table.results tbody tr")
    assert set(rows.evaluate_all("r => r.map(e => getComputedStyle(e).display)")) == {"table-row"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_is_light_whatever_the_screen_is(visit, scheme):
    tab = visit(750, scheme=scheme)
    drawn(tab, "trials")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")  # still on the screen
    label = drawn(tab, "trials").locator(".plot text").first
    assert contrast(label.evaluate("e => getComputedStyle(e).fill"), "rgb(255, 255, 255)") >= 4.5
    words = tab.locator("h2").first.evaluate("e => getComputedStyle(e).color")
    assert contrast(words, "rgb(255, 255, 255)") >= 4.5
    assert tab.locator("#figure-trials .legend .entry").first.is_visible()  # no controls there
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    label = (
        drawn(tab, "trials").locator(".plot text").first.evaluate("e => getComputedStyle(e).fill")
    )
    ground = tab.locator(".controls").evaluate("e => getComputedStyle(e).backgroundColor")
    assert contrast(label, ground) >= 4.5


def test_the_columns_of_results_are_all_seen_on_a_desk(visit):
    tab = visit(1400)
    cut = tab.evaluate(
        "[...document.querySelectorAll('table.results')].map(t => [t.scrollWidth, t.parentElement.clientWidth])"
    )
    assert len(cut) == 8  # of each case what matters, and the rest
    assert [(table, room) for table, room in cut if table > room] == []


@pytest.mark.parametrize("width", [390, 1400, 800, 2400])
def test_three_metrics_are_compared_side_by_side_without_touching(browser, three_metrics, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.goto(three_metrics.as_uri(), wait_until="load")
    panels = tab.locator(".comparison .effects")
    findings = panels.evaluate_all(
        "p => p.map(e => [e.querySelector('table').offsetWidth, e.clientWidth])"
    )
    end = tab.locator(".comparison").bounding_box()
    labels = tab.locator(".comparison .axis span:visible").evaluate_all(
        "s => s.map(e => e.getBoundingClientRect()).map(r => [r.y, r.left, r.right])"
    )
    context.close()
    assert len(findings) == 3
    assert [(table, room) for table, room in findings if table > room] == []
    assert width != 1400 or end["y"] + end["height"] <= 900  # the first screen
    for single, other in zip(sorted(labels), sorted(labels)[1:], strict=False):
        assert single[0] != other[0] or single[2] <= other[1], (single, other)


@pytest.mark.parametrize("which", ["page", "three_metrics"])
def test_verdicts_of_two_words_stay_in_their_panels_at_any_width(browser, request, which):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(request.getfixturevalue(which).as_uri(), wait_until="load")
    words = tab.locator(".comparison td.word")
    words.evaluate_all("w => w.forEach(e => e.lastChild.replaceWith('\u00a0worse (small)'))")
    beyond = {}
    for width in (390, *range(640, 2401, 80)):
        tab.set_viewport_size({"width": width, "height": 900})
        beyond[width] = words.evaluate_all(
            "w => w.map(e => e.getBoundingClientRect().right - e.closest('.effects').getBoundingClientRect().right)"
        )
    context.close()
    assert {width: max(over) for width, over in beyond.items() if max(over) > 1} == {}


def test_a_telephone_shows_what_came_out_of_each_row(visit):
    tab = visit(390)
    row = tab.locator("table.results").first.locator("tbody tr").nth(1)
    for text in ("jemalloc-5.1.0", "M ops/s", "%", "better"):
        assert text in row.inner_text()
    for case in row.locator("td:visible").all():
        box = case.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390, case.inner_text()


# Of each chart: its words that reach out of it, and the pairs that lie on each other (those that stand aslant aside).
ILLEGIBLE = """() => [...document.querySelectorAll('.plot')].flatMap(plot => {
    const frame = plot.getBoundingClientRect(), told = [], say = text => told.push(plot.ariaLabel + ': ' + text);
    const words = [...plot.querySelectorAll('text')].filter(e => e.textContent.trim()).map(e => ({
        text: e.textContent, box: e.getBoundingClientRect(), aslant: ![0, 1, -1].includes(+e.getCTM().b.toFixed(3)) }));
    const outside = b => b.left < frame.left - 2 || b.right > frame.right + 2 || b.top < frame.top - 2
        || b.bottom > frame.bottom + 2;
    const common = (a, b, low, high) => Math.min(a[high], b[high]) - Math.max(a[low], b[low]);
    words.forEach((one, n) => {
        if (outside(one.box)) say(one.text + ' is cut');
        for (const other of words.slice(n + 1)) {
            const level = !one.aslant && !other.aslant, on = (low, high) => common(one.box, other.box, low, high);
            if (level && on('left', 'right') > 2 && on('top', 'bottom') > 3) say(one.text + ' on ' + other.text);
        }
    });
    return told; })"""


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("which", ["page", "rounds_page", "many_variants"])
def test_the_words_of_a_chart_are_neither_cut_nor_on_each_other(browser, request, which, width):
    path = request.getfixturevalue(which)
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.goto(path.as_uri(), wait_until="load")
    for plot in tab.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    playwright_expect(tab.locator(".plot svg")).to_have_count(tab.locator(".plot").count())
    findings = tab.evaluate(ILLEGIBLE)
    context.close()
    assert findings == []


def test_words_that_lie_on_each_other_are_found(visit):
    tab = visit()
    plot = drawn(tab, "trials").locator(".plot").first
    assert tab.evaluate(ILLEGIBLE) == []
    plot.evaluate("b => b.chart.setOption({ yAxis: { axisLabel: { fontSize: 40 } } })")
    assert tab.evaluate(ILLEGIBLE) != []


@pytest.mark.parametrize("width", [360, 390, 800, 1400, 2400])
def test_the_page_itself_never_scrolls_sideways(visit, width):
    tab = visit(width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    tab.evaluate(f"document.querySelectorAll('li, dd, p').forEach(e => e.append('{64 * 'f'}'))")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width  # as a build's digest is
    assert drawn(tab, "trials").locator(".plot").first.bounding_box()["width"] >= 280


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1400, 2400])
@pytest.mark.parametrize("which", ["page", "three_metrics", "rounds_page", "many_variants"])
def test_axe_finds_no_violation_in_any_page_at_any_width(browser, request, which, width, scheme):
    path = request.getfixturevalue(which)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(path.as_uri() + "#trial=4", wait_until="load")
    findings = violations(tab)
    context.close()
    assert findings == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_with_its_ground(visit, scheme):
    tab = visit(scheme=scheme)
    ground = tab.locator(".controls").evaluate("e => getComputedStyle(e).backgroundColor")
    for selector in ("h2", ".soft", ".word.better", ".word.worse", ".word.unsure", "dt"):
        colour = tab.locator(selector).first.evaluate("e => getComputedStyle(e).color")
        assert contrast(colour, ground) >= 4.5, (selector, colour, ground)
    label = (
        drawn(tab, "trials").locator(".plot text").first.evaluate("e => getComputedStyle(e).fill")
    )
    assert contrast(label, ground) >= 4.5


# Elements that show a verdict's colour in a row, or a clause, without its mark or its word next to them.
BY_COLOUR_ALONE = """() => {
    const told = { better: ['✔', 'better'], worse: ['✘', 'worse'], same: ['=', 'same'], unsure: ['?', 'unsure'] };
    const plain = e => e.checkVisibility() ? e.innerText ?? '' : '';
    const all = verdict => [...document.querySelectorAll('.' + verdict)];
    return Object.entries(told).flatMap(([verdict, signs]) => all(verdict).filter(e => {
        const row = e.closest('tr') ?? e;
        const its = [row, ...row.querySelectorAll('*')].filter(p => p.matches('.' + verdict));
        return e.checkVisibility() && !signs.some(sign => its.map(plain).join(' ').includes(sign));
    }).map(e => verdict + ': ' + (e.closest('tr') ?? e).textContent.trim().slice(0, 60))); }"""


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("which", ["page", "many_variants"])
def test_no_verdict_is_distinguished_by_its_colour_alone(browser, request, which, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.goto(request.getfixturevalue(which).as_uri(), wait_until="load")
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    findings = tab.evaluate(BY_COLOUR_ALONE)
    tab.evaluate("document.querySelectorAll('td.word').forEach(e => { e.textContent = ''; })")
    without = tab.evaluate(BY_COLOUR_ALONE)
    context.close()
    assert findings == []
    assert without != []
