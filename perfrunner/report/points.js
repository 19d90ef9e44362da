// The points of an ECharts chart in `box`, by mouse and by keys.
// perfrunnerPoints(box, chart, act): act(item) where a point is clicked, or chosen by keys: ← → go from point to point,
// ↑ ↓ from series to series, Enter acts; + − and Escape (or a double click) zoom. What has a `tip` is a point.
'use strict';
(() => {
  const zoom = window.perfrunnerZoom = (chart, start, end) => {
    if (chart.getOption().dataZoom.length) chart.dispatchAction({ type: 'dataZoom', start: Math.max(0, start), end: Math.min(100, end) });
  };

  // An arm's mark, by its place: a path in a box of 10 by 10, for charts and legends.
  window.perfrunnerMarks = ['M0 5a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z', 'M5 0L10 10H0Z', 'M0 0H10V10H0Z', 'M5 0L10 5L5 10L0 5Z', 'M0 0H10L5 10Z',
    'M3.4 0H6.6V3.4H10V6.6H6.6V10H3.4V6.6H0V3.4H3.4Z', 'M2.5 0.7H7.5L10 5L7.5 9.3H2.5L0 5Z', 'M0 0H10L0 10H10Z',
    'M5 0L6.5 3.5L10 3.8L7.3 6.2L8.1 10L5 7.9L1.9 10L2.7 6.2L0 3.8L3.5 3.5Z', 'M5 0L10 3.9L8.1 10H1.9L0 3.9Z', 'M0 5L10 0V10Z', 'M10 5L0 10V0Z'];
  // An arm's dashes, and how they look in a legend: with more arms than a few, colours alone do not tell them.
  const FEW = 4, DASHES = ['solid', [7, 3], [2, 2]], SAMPLES = ['M0 3.5H10V6.5H0Z', 'M0 3.5H4.2V6.5H0ZM5.8 3.5H10V6.5H5.8Z', 'M0 3.5H2V6.5H0ZM4 3.5H6V6.5H4ZM8 3.5H10V6.5H8Z'];
  window.perfrunnerDash = (arm) => DASHES[Math.floor(arm / FEW) % DASHES.length];
  window.perfrunnerSample = (arm, arms) => (arms > FEW ? SAMPLES[Math.floor(arm / FEW) % SAMPLES.length] : '');
  // The mark of a legend; without a path a square.
  window.perfrunnerMark = (colour, path) => {
    const mark = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), drawn = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    for (const [key, value] of [['class', 'mark'], ['viewBox', '0 0 10 10'], ['aria-hidden', 'true']]) mark.setAttribute(key, value);
    drawn.setAttribute('d', path || 'M0 0H10V10H0Z');
    drawn.setAttribute('fill', colour);
    mark.append(drawn);
    return mark;
  };

  window.perfrunnerPoints = (box, chart, act) => {
    // ECharts' own `click` is the browser's, which gives none where the point was redrawn in between, as hovering it does.
    let pressed = null;
    chart.on('mousedown', (e) => { pressed = e.data; });
    chart.on('mouseup', (e) => { if (e.data && e.data === pressed && e.event.event.button === 0) act(e.data); });
    chart.getZr().on('dblclick', () => zoom(chart, 0, 100));
    const at = { s: -1, i: 0 };
    box.addEventListener('keydown', (event) => { if (key(event, chart, at, act)) event.preventDefault(); });
    box.addEventListener('blur', () => chart.dispatchAction({ type: 'hideTip' }));
  };

  // Whether the key means something here.
  function key(event, chart, at, act) {
    const option = chart.getOption(), usable = option.series.map((s, n) => [s, n]).filter(([s]) => s.data.some((d) => d && d.tip)).map(([, n]) => n);
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (move && usable.length) {
      const now = usable.indexOf(at.s);
      at.s = usable[now < 0 ? 0 : (now + move[0] + usable.length) % usable.length];
      const points = option.series[at.s].data, step = move[1] || 1;
      let i = now < 0 || move[0] ? 0 : at.i + move[1];
      while (points[i] && !points[i].tip) i += step;
      at.i = Math.max(0, Math.min(points.length - 1, i));
      chart.dispatchAction({ type: 'showTip', seriesIndex: at.s, dataIndex: at.i });
      tell(points[at.i]);
    } else if (event.key === 'Enter') {
      const point = at.s >= 0 && option.series[at.s].data[at.i];
      if (!point) return false;
      act(point);
    } else if (event.key === '+' || event.key === '-') {
      const z = option.dataZoom[0];
      if (z) { const d = (z.end - z.start) * (event.key === '+' ? 0.2 : -0.3333); zoom(chart, z.start + d, z.end - d); }
    } else if (event.key === 'Escape') {
      zoom(chart, 0, 100);
      chart.dispatchAction({ type: 'hideTip' });
    } else return false;
    return true;
  }

  // For those who do not see it.
  const told = document.createElement('p');
  Object.assign(told, { id: 'told', className: 'hidden' }).setAttribute('aria-live', 'polite');
  document.body.append(told);
  function tell(point) {
    if (point && point.tip) told.textContent = new DOMParser().parseFromString(point.tip.replaceAll('<br>', ', '), 'text/html').body.textContent;
  }
})();
