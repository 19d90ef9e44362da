// The site: search in lists, and the history of a spec's primary metrics.
'use strict';
(() => {
  const rows = [...document.querySelectorAll('.experiments tbody tr')], search = document.getElementById('search');
  const texts = rows.map((row) => row.textContent.toLowerCase());
  if (search) {
    const apply = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => { row.hidden = !words.every((w) => texts[i].includes(w)); shown += !row.hidden; });
      document.getElementById('found').textContent = words.length ? `${shown} of ${rows.length}` : '';
      history.replaceState(null, '', search.value ? `#${encodeURIComponent(search.value)}` : location.pathname);
    };
    try { search.value = decodeURIComponent(location.hash.slice(1)); } catch { search.value = location.hash.slice(1); }  // an unencoded percent sign
    search.addEventListener('input', apply);
    if (search.value) apply();
  }

  const holder = document.getElementById('history-charts'), given = document.getElementById('data');
  if (!holder || !given) return;
  const data = JSON.parse(given.textContent), css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }[c]));
  const minus = (text) => String(text).replace('-', '\u2212');
  const charts = [], variants = [...new Set(data.charts.flatMap((h) => h.series.filter((s) => s.effect !== null).map((s) => s.variant)))];
  const markOf = (variant) => perfrunnerMarks[(variants.indexOf(variant) + 1) % perfrunnerMarks.length];
  const colourOf = (variant) => data.colours[(variants.indexOf(variant) + 1) % data.colours.length];

  // A change below 1 % does not fill the chart.
  function atLeast(values, { effect, unit }) {
    const low = Math.min(...values), high = Math.max(...values), middle = (low + high) / 2;
    return high - low < 2 && (effect === 'ratio' || unit === '%') ? { min: Math.floor(middle - 1), max: Math.ceil(middle + 1), interval: 1 } : {};
  }

  function option(history, benchCase, series) {
    const all = series.flatMap((s) => s.runs.flatMap((r) => [r.value, ...(r.ci95 || [])]));
    const large = series[0].effect === 'ratio' && all.some((f) => f > data.large || f < 1 / data.large);
    const value = (s, v) => (s.effect === 'ratio' && !large ? 100 * (v - 1) : v);
    const unit = large ? `factor against ${series[0].baseline}` : series[0].effect === 'ratio' ? `% against ${series[0].baseline}` : series[0].unit === '%' ? `points against ${series[0].baseline}` : `${series[0].unit} against ${series[0].baseline}`;
    const drawn = series.flatMap((s) => {
      const colour = colourOf(s.variant);
      const points = s.runs.map((r, i) => ({ value: [Date.parse(r.created_at), value(s, r.value)], experiment: r.experiment,
        tip: [`<b>${escaped(s.variant)}</b>`, escaped(`${s.texts[i]} against ${s.baseline}`), escaped(r.experiment), `${r.blocks} blocks`, `build ${escaped(r.build_id)}`, r.commit && `commit ${escaped(r.commit)} ${escaped(r.title)}`,
          ...s.levels.filter((l, k) => k && l.first === i).map((l) => `<b>${escaped(s.verdicts[s.levels.indexOf(l)])}</b> from here on, p ${l.p.toPrecision(2)}`)].filter(Boolean).join('<br>') }));
      const levels = s.levels.flatMap((l) => [[s.runs[l.first].created_at, value(s, l.value)], [s.runs[l.last].created_at, value(s, l.value)], [s.runs[l.last].created_at, null]]);  // no line leads to the next
      const bars = s.runs.filter((r) => r.ci95).map((r) => [r.created_at, ...r.ci95.map((end) => value(s, end))]);
      return [
        { type: 'scatter', name: s.variant, symbol: `path://${markOf(s.variant)}`, symbolSize: 8, itemStyle: { color: colour }, emphasis: { focus: 'series' }, data: points,
          markLine: { silent: true, symbol: 'none', lineStyle: { color: css('--worse'), type: 'dashed' }, label: { formatter: (p) => p.name, color: css('--ink'), fontSize: 10 },
            data: s.levels.slice(1).map((l, k) => ({ name: s.verdicts[k + 1], xAxis: s.runs[l.first].created_at })) } },
        { type: 'line', name: s.variant, symbol: 'none', silent: true, lineStyle: { color: colour, width: 2 }, data: levels },
        { type: 'custom', name: s.variant, silent: true, clip: true, data: bars, encode: { x: 0, y: [1, 2] }, renderItem: (_, api) => {
          const [x, y1] = api.coord([api.value(0), api.value(1)]), [, y2] = api.coord([api.value(0), api.value(2)]);
          return { type: 'line', shape: { x1: x, y1, x2: x, y2 }, style: { stroke: colour, lineWidth: 1.2, opacity: 0.6 } };
        } },
      ];
    });
    const ink = css('--ink'), soft = css('--soft'), steps = large ? perfrunnerFactors(all) : {};
    const axis = (label) => ({ axisLabel: { color: ink, fontSize: 11, hideOverlap: true, ...label }, axisLine: { lineStyle: { color: soft } }, splitLine: { lineStyle: { color: css('--grid') } }, nameTextStyle: { color: soft } });
    return { animation: false, textStyle: { fontFamily: 'DejaVu Sans, Verdana, sans-serif' }, grid: { left: 66, right: 20, top: 20, bottom: 30 },
      tooltip: { trigger: 'item', triggerOn: 'none', confine: true, backgroundColor: css('--paper'), borderColor: soft, textStyle: { color: ink, fontSize: 12 }, formatter: (p) => (p.data && p.data.tip) || '' },
      xAxis: { type: 'time', ...axis(), axisTick: { show: false }, splitLine: { show: false } },
      yAxis: { ...(large ? {} : { type: 'value', scale: true, boundaryGap: ['8%', '8%'], ...atLeast(all.map((v) => value(series[0], v)), series[0]) }), name: unit, nameLocation: 'middle', nameGap: 46, ...axis({ formatter: minus, ...steps.label }), ...steps },
      dataZoom: [{ type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false, filterMode: 'none' }], series: drawn };
  }

  function show() {
    charts.splice(0).forEach((c) => c.dispose());
    holder.replaceChildren();
    for (const history of data.charts) {
      const figure = document.createElement('figure'), grid = document.createElement('div');
      grid.className = 'grid';
      const legend = Object.assign(document.createElement('p'), { className: 'legend' });
      for (const variant of variants.filter((v) => history.series.some((s) => s.variant === v && s.effect !== null))) {
        const entry = Object.assign(document.createElement('span'), { className: 'entry' });
        entry.append(perfrunnerMark(colourOf(variant), markOf(variant)), variant);
        legend.append(entry);
      }
      figure.append(Object.assign(document.createElement('figcaption'), { textContent: `Did ${history.metric} change from run to run?` }), legend, grid);
      holder.append(figure);
      const cases = new Map();
      for (const s of history.series) if (s.effect !== null) { const name = s.bucket === '-' ? s.workload : `${s.workload} · ${s.bucket}`; cases.set(name, [...(cases.get(name) || []), s]); }
      grid.style.setProperty('--n', Math.min(2, cases.size));
      for (const [name, series] of cases) {
        const box = Object.assign(document.createElement('div'), { className: 'plot', tabIndex: 0 }), around = document.createElement('div');
        box.setAttribute('role', 'img');
        box.setAttribute('aria-label', `History of ${history.metric} on ${name}: ${series.map((s) => `${s.variant}, ${s.runs.length} runs, ${s.levels.length} levels`).join('; ')}`);
        around.append(Object.assign(document.createElement('h3'), { textContent: name }), box);
        grid.append(around);
        const chart = (box.chart = echarts.init(box, null, { renderer: 'svg' }));
        chart.setOption(option(history, name, series));
        perfrunnerPoints(box, chart, (point) => { const link = data.links[point.experiment]; if (link) location.href = link; });
        charts.push(chart);
      }
      if (!cases.size) figure.append(Object.assign(document.createElement('p'), { className: 'soft', textContent: 'No run has it on two variants.' }));
    }
  }
  show();
  window.addEventListener('resize', () => charts.forEach((c) => c.resize()));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
  // Print in light colours, at the width of a sheet.
  for (const [event, paper] of [['beforeprint', true], ['afterprint', false]])
    window.addEventListener(event, () => { document.documentElement.classList.toggle('paper', paper); show(); });
})();
