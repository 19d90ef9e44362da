// Makes the points of an ECharts chart in `box` usable by mouse and keyboard.
// perfrunnerPoints(box, chart, act, lit): the point nearest the pointer shows its tooltip, and calls
// lit(name of its series, or null). A click or Enter calls act(item). ← → move from point to point, ↑ ↓ from series to
// series; + − and Escape (or a double click) zoom. Every item with a `tip` is a point. `box.whole`: the shares of the
// axis that are visible without zoom.
'use strict';
(() => {
  const zoom = window.perfrunnerZoom = (chart, start, end) => {
    if (chart.getOption().dataZoom.length) chart.dispatchAction({ type: 'dataZoom', start: Math.max(0, start), end: Math.min(100, end) });
  };

  // The mark of a variant by its index: a path in a box of 10 by 10, for charts and legends.
  window.perfrunnerMarks = ['M0 5a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z', 'M5 0L10 10H0Z', 'M0 0H10V10H0Z', 'M5 0L10 5L5 10L0 5Z', 'M0 0H10L5 10Z',
    'M3.4 0H6.6V3.4H10V6.6H6.6V10H3.4V6.6H0V3.4H3.4Z', 'M2.5 0.7H7.5L10 5L7.5 9.3H2.5L0 5Z', 'M0 0H10L0 10H10Z',
    'M5 0L6.5 3.5L10 3.8L7.3 6.2L8.1 10L5 7.9L1.9 10L2.7 6.2L0 3.8L3.5 3.5Z', 'M5 0L10 3.9L8.1 10H1.9L0 3.9Z', 'M0 5L10 0V10Z', 'M10 5L0 10V0Z'];
  // The dashes of a variant, and their look in a legend: colours alone do not distinguish many variants.
  const FEW = 4, DASHES = ['solid', [7, 3], [2, 2]], SAMPLES = ['M0 3.5H10V6.5H0Z', 'M0 3.5H4.2V6.5H0ZM5.8 3.5H10V6.5H5.8Z', 'M0 3.5H2V6.5H0ZM4 3.5H6V6.5H4ZM8 3.5H10V6.5H8Z'];
  window.perfrunnerDash = (variant) => DASHES[Math.floor(variant / FEW) % DASHES.length];
  window.perfrunnerSample = (variant, variants) => (variants > FEW ? SAMPLES[Math.floor(variant / FEW) % SAMPLES.length] : '');
  // The mark of a legend entry; a square without a path.
  window.perfrunnerMark = (colour, path) => {
    const mark = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), drawn = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    for (const [key, value] of [['class', 'mark'], ['viewBox', '0 0 10 10'], ['aria-hidden', 'true']]) mark.setAttribute(key, value);
    drawn.setAttribute('d', path || 'M0 0H10V10H0Z');
    drawn.setAttribute('fill', colour);
    mark.append(drawn);
    return mark;
  };

  // The text of a factor (times or divided by), and an axis for factors with a label at no change.
  window.perfrunnerFactor = (f) => `${f >= 1 ? '\u00d7' : '\u00f7'}${(f >= 1 ? f : 1 / f).toLocaleString('en-US', { maximumSignificantDigits: 3 })}`;
  window.perfrunnerFactors = (values) => {
    const low = Math.min(1, ...values) / 1.1, high = Math.max(1, ...values) * 1.1, decades = [...Array(Math.ceil(Math.max(Math.log10(high), -Math.log10(low))) + 1).keys()];
    let steps = [];
    for (const firsts of [[1], [1, 3], [1, 2, 5], [1, 1.2, 1.5, 2, 3, 5, 7]]) {
      const above = decades.flatMap((d) => firsts.map((m) => m * 10 ** d));
      steps = [...new Set([...above, ...above.map((f) => 1 / f)])].filter((f) => f >= low && f <= high).sort((a, b) => a - b);
      if (steps.length >= 3) break;
    }
    const every = Math.ceil(steps.length / 7), first = steps.indexOf(1) % every;
    const customValues = steps.filter((_, n) => n % every === first);
    return { type: 'log', min: low, max: high, axisTick: { customValues }, minorTick: { show: false }, label: { customValues, formatter: window.perfrunnerFactor } };
  };

  const REACH = 24;  // pixels from the pointer to a point, or to the line that leads to it
  window.perfrunnerPoints = (box, chart, act, lit = () => {}) => {
    const at = { s: -1, i: 0, item: null };
    let known = null, pressed = null;
    const lines = () => (known && known.width === chart.getWidth() ? known : (known = Object.assign(places(chart), { width: chart.getWidth() })));
    const hide = () => {
      if (!at.item) return;
      at.item = null;
      for (const action of [{ type: 'downplay', seriesIndex: at.s, dataIndex: at.i }, { type: 'downplay' }, { type: 'hideTip' }]) chart.dispatchAction(action);
      lit(null);
    };
    const show = (s, i, item, name) => {
      if (at.item === item) return;
      hide();
      Object.assign(at, { s, i, item });
      // The order matters: a point of a line has no element, so no tooltip, until it is highlighted.
      for (const type of ['highlight', 'showTip']) chart.dispatchAction({ type, seriesIndex: s, dataIndex: i });
      lit(name);
    };
    const zr = chart.getZr();
    chart.on('datazoom', () => { known = null; });
    zr.on('mousemove', (e) => {
      if (e.event.buttons) return;
      const found = nearest(lines(), e.offsetX, e.offsetY);
      if (found) show(found.line.s, found.point.i, found.point.item, found.line.name);
      else hide();
    });
    // The chart's `globalout` needs a mouseout, which browsers do not send if the element under the pointer has been
    // redrawn, as hovering does.
    box.addEventListener('mouseleave', hide);
    // Browsers send no `click` if the point was redrawn in between, as hovering does.
    zr.on('mousedown', () => { pressed = at.item; });
    zr.on('mouseup', (e) => { if (at.item && at.item === pressed && e.event.button === 0) act(at.item); });
    const out = () => zoom(chart, ...(box.whole || [0, 100]));
    zr.on('dblclick', out);
    box.addEventListener('keydown', (event) => { if (key(event, chart, at, { act, show, hide, out }, lines)) event.preventDefault(); });
    box.addEventListener('blur', hide);
  };

  // The visible points with a tooltip by series, with null between them.
  function places(chart) {
    return chart.getOption().series.map((series, s) => ({ s, name: series.name, joined: series.type === 'line', points: series.data.map((item, i) => {
      if (!item || !item.tip) return null;
      const [x, y] = chart.convertToPixel({ seriesIndex: s }, item.value);
      return chart.containPixel('grid', [x, y]) ? { i, item, x, y } : null;
    }) })).filter((line) => line.points.some(Boolean));
  }
  function nearest(lines, x, y) {
    let found = null, least = REACH;
    for (const line of lines) line.points.forEach((point, n) => {
      if (!point) return;
      const next = (line.joined && line.points[n + 1]) || point, [dx, dy] = [next.x - point.x, next.y - point.y];
      const share = Math.min(1, Math.max(0, ((x - point.x) * dx + (y - point.y) * dy) / (dx * dx + dy * dy || 1)));
      const off = Math.hypot(point.x + share * dx - x, point.y + share * dy - y);
      if (off <= least) [found, least] = [{ line, point: share < 0.5 ? point : next }, off];  // later ones are drawn on top
    });
    return found;
  }

  // Returns whether the key is handled.
  function key(event, chart, at, { act, show, hide, out }, lines) {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key], z = chart.getOption().dataZoom[0];
    if (move) {
      const usable = lines(), now = usable.findIndex((line) => line.s === at.s);
      if (!usable.length) return false;
      const line = usable[now < 0 ? 0 : (now + move[0] + usable.length) % usable.length], points = line.points.filter(Boolean);
      const stand = points.findIndex((point) => point.i >= at.i);
      const point = points[now < 0 || move[0] ? 0 : Math.max(0, Math.min(points.length - 1, (stand < 0 ? points.length : stand) + move[1]))];
      show(line.s, point.i, point.item, line.name);
      tell(point.item);
    } else if (event.key === 'Enter') {
      if (!at.item) return false;
      act(at.item);
    } else if (event.key === '+' || event.key === '-') {
      if (z) { const d = (z.end - z.start) * (event.key === '+' ? 0.2 : -0.3333); zoom(chart, z.start + d, z.end - d); }
    } else if (event.key === 'Escape') {
      out();
      hide();
    } else return false;
    return true;
  }

  // For screen readers.
  const announcement = document.createElement('p');
  Object.assign(announcement, { id: 'announcement', className: 'hidden' }).setAttribute('aria-live', 'polite');
  document.body.append(announcement);
  function tell(point) {
    if (point && point.tip) announcement.textContent = new DOMParser().parseFromString(point.tip.replaceAll('<br>', ', '), 'text/html').body.textContent;
  }
})();
