// perfrunnerOnPoint(chart, act): act(item) where a point of an ECharts chart was pressed and released.
// ECharts' own `click` is the browser's, which gives none where the point was redrawn in between, as hovering it does.
'use strict';
window.perfrunnerOnPoint = (chart, act) => {
  let pressed = null;
  chart.on('mousedown', (e) => { pressed = e.data; });
  chart.on('mouseup', (e) => { if (e.data && e.data === pressed && e.event.event.button === 0) act(e.data); });
};
