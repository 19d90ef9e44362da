// The page's behaviour: its state (kept in the address), figures, tables, hover, copy and download.
'use strict';
(() => {
  const content = JSON.parse(document.getElementById('data').textContent);
  const data = content.charts, $ = (id) => document.getElementById(id), all = (what, from = document) => [...from.querySelectorAll(what)];
  document.documentElement.classList.add('scripted');
  const results = content.report.results.map((r) => ({ ...r, v: data.variants.indexOf(r.variant), c: data.cases.indexOf(r.bucket === '-' ? r.workload : `${r.workload} · ${r.bucket}`) }));
  const first = $('metric').value, tables = all('table.results'), columns = (place) => (tables[place] ? tables[place].tHead.rows[0].cells.length : 0);
  const everything = () => ({ metric: first, variants: new Set(data.variants.keys()), cases: new Set(data.cases.keys()), relative: false, log: false, time: false, trial: null, filter: '', sort: {}, zoom: {} });
  let state = everything(), charts = [], linking = false, later = 0;

  // -- the address

  function readAddress() {
    state = everything();
    if (!location.hash.includes('=')) return;
    const given = new URLSearchParams(location.hash.slice(1)), list = (key, count) => new Set(given.get(key).split(',').filter(Boolean).map(Number).filter((n) => Number.isInteger(n) && n >= 0 && n < count));
    if (Object.hasOwn(data.metrics, given.get('metric'))) state.metric = given.get('metric');
    if (given.has('variants')) state.variants = list('variants', data.variants.length);
    if (given.has('cases')) state.cases = list('cases', data.cases.length);
    for (const key of ['relative', 'log', 'time']) state[key] = given.get(key) === '1';
    if (/^\d+$/.test(given.get('trial')) && data.trials[given.get('trial')]) state.trial = Number(given.get('trial'));
    state.filter = given.get('filter') || '';
    for (const [, table, down, column] of (given.get('sort') || '').matchAll(/(\d+)\.(-?)(\d+)/g)) if (columns(table) > column) state.sort[table] = { column: Number(column), up: !down };
    for (const [, figure, start, end] of (given.get('zoom') || '').matchAll(/([\w-]+):([\d.]+)~([\d.]+)/g)) if (Number(start) < Number(end) && end <= 100) state.zoom[figure] = [Number(start), Number(end)];
  }
  function writeAddress() {
    const usual = everything(), given = new URLSearchParams();
    if (state.metric !== usual.metric) given.set('metric', state.metric);
    for (const key of ['variants', 'cases']) if (state[key].size !== usual[key].size) given.set(key, [...state[key]].join(','));
    for (const key of ['relative', 'log', 'time']) if (state[key]) given.set(key, '1');
    if (state.trial !== null) given.set('trial', state.trial);
    if (state.filter) given.set('filter', state.filter);
    const sorts = Object.entries(state.sort).map(([table, { column, up }]) => `${table}.${up ? '' : '-'}${column}`), zooms = Object.entries(state.zoom).map(([figure, [start, end]]) => `${figure}:${start}~${end}`);
    if (sorts.length) given.set('sort', sorts.join(','));
    if (zooms.length) given.set('zoom', zooms.join(','));
    const hash = given.toString();
    history.replaceState(null, '', hash ? `#${hash}` : location.pathname + location.search);
  }

  // -- figures

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) key in made && key !== 'style' ? (made[key] = value) : made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  const watcher = new IntersectionObserver((seen) => seen.forEach((e) => e.isIntersecting && draw(e.target)), { rootMargin: '300px' });

  function show() {
    charts.forEach((c) => c.dispose());
    charts = [];
    const figures = perfrunnerFigures(data, state, results).map((figure) => {
      const n = figure.columns || Math.min(4, figure.plots.length);
      const grid = element('div', { className: 'grid', style: `--n: ${n}; --n-paper: ${n % 3 ? Math.min(2, n) : 3}` });
      const legend = element('p', { className: 'legend' }, ...(figure.legend || []).map(([name, colour, path]) => element('span', { className: 'entry' }, perfrunnerMark(colour, path), name)), figure.words || '');
      const made = element('figure', { id: `figure-${figure.id}` }, element('figcaption', {}, figure.title), tools(figure, grid), legend, grid);
      for (const plot of figure.plots) {
        const box = element('div', { className: 'plot', tabIndex: 0, role: 'img', 'aria-label': `${figure.title} ${plot.option.aria.label.description}` });
        const { link = figure.id, start = 0, end = 100 } = plot.option.dataZoom[0] || {};
        Object.assign(box, { plot, link, whole: [start, end] });
        grid.append(element('div', {}, element('h3', {}, plot.name), box));
        watcher.observe(box);
      }
      return made;
    });
    $('plots').replaceChildren(...figures);
    rows();
    showTrial();
  }
  // Updates that do not redraw the figures.
  function rows() {
    for (const part of all('[data-case]')) part.hidden = !state.cases.has(Number(part.dataset.case));
    for (const part of all('[data-profile]')) part.hidden = !state.variants.has(Number(part.dataset.profile));
    for (const row of all('tr[data-variant]')) row.hidden = !state.variants.has(Number(row.dataset.variant)) || !row.textContent.toLowerCase().includes(row.closest('.results') ? state.filter.toLowerCase() : '');
    tables.forEach(ordered);
    writeAddress();
  }

  function draw(box) {
    watcher.unobserve(box);
    if (box.chart || !box.isConnected) return;
    const chart = (box.chart = echarts.init(box, null, { renderer: 'svg' }));
    if (state.zoom[box.link] && box.plot.option.dataZoom.length) [box.plot.option.dataZoom[0].start, box.plot.option.dataZoom[0].end] = state.zoom[box.link];
    chart.setOption(box.plot.option);
    charts.push(chart);
    perfrunnerPoints(box, chart, (point) => point.trial !== undefined && choose(point.trial), (name) => light(data.variants.indexOf(name), chart));
    chart.on('datazoom', () => linked(box));
  }
  // The other linked plots follow (same figure or kind of time): the zoom is a share of their axes.
  function linked(box) {
    if (linking) return;
    linking = true;
    const [start, end] = [box.chart.getOption().dataZoom[0].start, box.chart.getOption().dataZoom[0].end].map((share) => +share.toFixed(2));
    const whole = [start, end].every((share, n) => Math.abs(share - box.whole[n]) < 0.01);
    if (whole) delete state.zoom[box.link];
    else state.zoom[box.link] = [start, end];
    clearTimeout(later);
    later = setTimeout(writeAddress, 150);  // a wheel sends many events a second, and browsers limit changes of the address
    for (const other of all('.plot')) if (other.chart && other !== box && other.link === box.link) perfrunnerZoom(other.chart, ...(whole ? other.whole : [start, end]));
    linking = false;
  }

  // The buttons of a chart. `picture()` is {width, height, text}, `rows()` its data.
  const button = (text, act) => element('button', { type: 'button', onclick: act }, text);
  const saving = (id, picture, rows, ...more) => element('div', { className: 'tools script' },
    button('Save SVG', () => save(`${id}.svg`, 'image/svg+xml', picture().text)),
    button('Save PNG', () => png(`${id}.png`, picture())),
    button('Save CSV', () => save(`${id}.csv`, 'text/csv', lined(rows()))), ...more);
  function tools(figure, grid) {
    const boxes = () => all('.plot', grid);
    return saving(figure.id, () => together(figure, boxes()), () => points(figure), button('Zoom out', () => boxes().slice(0, 1).forEach((b) => { draw(b); perfrunnerZoom(b.chart, ...b.whole); })));
  }
  // A figure as one picture: title, legend, and plots below each other.
  function together(figure, boxes) {
    const width = Math.max(...boxes.map((b) => b.clientWidth)), head = heading(figure, width);
    let y = head.height;
    const parts = boxes.map((box) => {
      draw(box);
      const inner = box.chart.renderToSVGString(), top = y;
      y += box.clientHeight + 24;
      return `${words(8, top + 16, box.plot.name, 'font-weight="bold"')}<g transform="translate(0,${top + 22})">${inner.slice(inner.indexOf('<svg'))}</g>`;
    });
    return { width, height: y, text: `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y}"><rect width="100%" height="100%" fill="${paper()}"/>${head.text}${parts.join('')}</svg>` };
  }
  const words = (x, y, text, more = '') => `<text x="${x}" y="${y}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" ${more} fill="${ink()}">${text.replace(/&/g, '&amp;').replace(/</g, '&lt;')}</text>`;
  // Title, marks with names, and text, wrapped to the width of the picture.
  function heading(figure, width) {
    const pen = document.createElement('canvas').getContext('2d'), parts = [], marks = (figure.legend || []).map(([name, colour, path]) => [name, colour, path || 'M0 0H10V10H0Z']);
    let x = 8, y = 18;
    const put = (text, font, mark) => {
      pen.font = `${font} 12px "DejaVu Sans", Verdana, sans-serif`;
      const long = pen.measureText(text).width + (mark ? 16 : 0);
      if (x > 8 && x + long > width - 8) { x = 8; y += 18; }
      if (mark) parts.push(`<path transform="translate(${x},${y - 10})" d="${mark[1]}" fill="${mark[0]}"/>`);
      parts.push(words(x + (mark ? 16 : 0), y, text, `font-weight="${font}"`));
      x += long + (mark ? 14 : 4);
    };
    const sentence = (text, font) => { for (const word of text.split(' ')) put(word, font); };
    sentence(figure.title, 'bold');
    x = 8;
    y += 20;
    for (const [name, colour, path] of marks) put(name, 'normal', [colour, path]);
    if (figure.words) sentence(figure.words, 'normal');
    return { height: y + 10, text: parts.join('') };
  }
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(), ink = () => variable('--ink'), paper = () => variable('--paper');
  function png(name, picture) {
    const image = new Image(), from = URL.createObjectURL(new Blob([picture.text], { type: 'image/svg+xml' }));
    image.onload = () => {
      const canvas = element('canvas', { width: 2 * picture.width, height: 2 * picture.height }), pen = canvas.getContext('2d');
      pen.scale(2, 2);
      pen.drawImage(image, 0, 0);
      URL.revokeObjectURL(from);
      canvas.toBlob((blob) => download(name, blob));
    };
    image.src = from;
  }
  function points(figure) {
    const lines = [['plot', 'series', 'x', 'y']];
    for (const plot of figure.plots) for (const s of plot.option.series) for (const d of s.data) {
      const point = d && (d.value || d);
      if (point && point[1] !== null && s.name !== 'pairs') lines.push([plot.name, s.name, ...point]);
    }
    return lines;
  }
  const lined = (lines) => lines.map((l) => l.map(field).join(',')).join('\n') + '\n';
  const field = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  // The changes of the first chart for the shown cases: estimated factors (effect ratio) or differences.
  function changes() {
    const own = ['metric', 'unit', 'workload', 'bucket', 'variant', 'baseline', 'n', 'effect', 'estimate'];
    const its = results.filter((r) => r.primary && r.estimate !== null && state.cases.has(r.c) && state.variants.has(r.v));
    return [[...own, 'low', 'high', 'verdict'], ...its.map((r) => [...own.map((key) => r[key]), ...(r.estimate_ci95 || ['', '']), r.verdict ?? ''])];
  }
  const comparison = document.querySelector('section.comparison');
  comparison.querySelector('.panels').after(saving('comparison', () => perfrunnerPictured(comparison, variable('--page'), variable('--faint')), changes));
  const save = (name, type, text) => download(name, new Blob([text], { type }));
  function download(name, blob) {
    const link = element('a', { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // -- a trial

  function choose(index) { state.trial = index; writeAddress(); showTrial(); $('trial').scrollIntoView({ block: 'nearest' }); }
  function showTrial() {
    const box = $('trial'), trial = data.trials[state.trial];
    box.hidden = !trial;
    if (!trial) return;
    const head = `${data.variants[trial.v]}, ${data.cases[trial.c]}, block ${trial.b}${trial.a > 1 ? `, attempt ${trial.a}` : ''}${trial.s === 'ok' ? '' : ` (${trial.s})`}`;
    const at = (name) => `${trial.d}/${name}`.split('/').map(encodeURIComponent).join('/');
    const links = trial.d ? [...data.files[trial.f].flatMap((name) => [element('a', { href: at(name) }, name), ' ']), element('a', { href: at('') }, 'all raw data')] : ['The raw files are not next to this page.'];
    const metrics = Object.entries(trial.m).map(([id, value]) => {
      const [factor, unit] = data.metrics[id]?.scales[trial.c] || [1, ''];
      return element('div', {}, element('dt', {}, id), element('dd', {}, `${+(value / factor).toPrecision(5)} ${unit}`));
    });
    box.replaceChildren(element('h3', {}, head), element('p', {}, ...links), element('dl', { className: 'facts' }, ...metrics), element('button', { type: 'button', onclick: () => { state.trial = null; writeAddress(); showTrial(); } }, 'Close'));
  }

  // -- hovering highlights a variant everywhere

  function light(variant, but) {
    for (const part of all('[data-variant]')) part.classList.toggle('lit', Number(part.dataset.variant) === variant);
    for (const chart of charts) if (chart !== but) chart.dispatchAction(variant < 0 ? { type: 'downplay' } : { type: 'highlight', seriesName: data.variants[variant] });
  }
  for (const part of all('[data-variant]')) {
    part.addEventListener('mouseenter', () => light(Number(part.dataset.variant)));
    part.addEventListener('mouseleave', () => light(-1));
  }

  // -- tables

  const shownRows = (table) => [all('thead th', table), ...all('tbody tr', table).filter((r) => !r.hidden).map((r) => [...r.children])].map((cells) => cells.map((c) => c.textContent.replace(/\s+/g, ' ').trim()));
  async function copy(button) {
    const rows = shownRows(button.closest('.tools').nextElementSibling.querySelector('table'));
    const markdown = () => [rows[0], rows[0].map(() => '--'), ...rows.slice(1)].map((r) => `| ${r.map((c) => c.replaceAll('|', '\\|')).join(' | ')} |`).join('\n');
    await copied(button, button.dataset.copy === 'csv' ? rows.map((r) => r.map(field).join(',')).join('\n') : markdown());
  }
  async function copied(button, content) {
    const text = button.textContent;
    try {
      await navigator.clipboard.writeText(content);
      button.textContent = 'Copied';
    } catch { button.textContent = 'The browser does not allow copying'; }
    setTimeout(() => { button.textContent = text; }, 1500);
  }
  for (const button of all('[data-copy]')) button.addEventListener('click', () => copy(button));
  const heads = (table) => all('thead th', table);
  tables.forEach((table, place) => heads(table).forEach((head, column) => {
    const button = element('button', { type: 'button', className: 'sort' }, head.textContent.trim());
    button.addEventListener('click', () => {
      const now = state.sort[place];
      state.sort[place] = { column, up: !(now && now.column === column && now.up) };
      ordered(table, place);
      writeAddress();
    });
    head.replaceChildren(button);
  }));
  // Sort by the state; without an order, as in the report.
  function ordered(table, place) {
    const { column, up } = state.sort[place] || {}, body = table.tBodies[0], rows = (table.own ||= [...body.rows]);
    heads(table).forEach((head, n) => (n === column ? head.setAttribute('aria-sort', up ? 'ascending' : 'descending') : head.removeAttribute('aria-sort')));
    const value = (row) => { const c = row.children[column], v = c.dataset.value ?? c.textContent.trim(); return v === '' || Number.isNaN(Number(v)) ? v : Number(v); };
    const before = (a, b) => (a === b ? 0 : a === '' ? 1 : b === '' ? -1 : (typeof a === typeof b ? a < b : typeof a === 'number') === up ? -1 : 1);
    body.append(...(column === undefined ? rows : rows.map((r) => [value(r), r]).sort((a, b) => before(a[0], b[0])).map(([, r]) => r)));
    grouped(table);
  }
  // The first shown row of each metric has a line above it, and its name on a small screen.
  function grouped(table) {
    let before = null;
    for (const row of table.tBodies[0].rows) if (!row.hidden) { row.classList.toggle('first', row.dataset.metric !== before); before = row.dataset.metric; }
  }

  // -- controls

  function fill() {
    $('metric').value = state.metric;
    for (const [name, chosen] of [['variant', state.variants], ['case', state.cases]]) for (const box of all(`[name=${name}]`)) box.checked = chosen.has(Number(box.value));
    for (const key of ['relative', 'log', 'time']) $(key).checked = state[key];
    $('filter').value = state.filter;
  }
  $('controls').addEventListener('change', () => {
    state.metric = $('metric').value;
    const chosen = (name) => new Set(all(`[name=${name}]:checked`).map((b) => Number(b.value)));
    Object.assign(state, { variants: chosen('variant'), cases: chosen('case'), relative: $('relative').checked, log: $('log').checked, time: $('time').checked });
    show();
  });
  $('controls').addEventListener('submit', (e) => e.preventDefault());
  $('controls').addEventListener('reset', (e) => { e.preventDefault(); state = everything(); fill(); show(); });
  $('address').addEventListener('click', () => copied($('address'), location.href));
  $('all-trials').addEventListener('click', () => save('trials.csv', 'text/csv', everyTrial()));
  // Measured values in their units.
  function everyTrial() {
    const metrics = [...new Set(content.trials.flatMap((t) => Object.keys(t.metrics)))], own = ['block', 'attempt', 'position', 'workload', 'bucket', 'variant', 'build_id', 'status', 'started_at', 'finished_at'];
    const lines = [[...own, ...metrics], ...content.trials.map((t) => [...own.map((key) => t[key] ?? ''), ...metrics.map((id) => t.metrics[id] ?? '')])];
    return lined(lines);
  }
  $('filter').addEventListener('input', () => { state.filter = $('filter').value; rows(); });
  window.addEventListener('hashchange', () => { readAddress(); fill(); show(); });
  window.addEventListener('resize', () => charts.forEach((c) => c.resize()));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
  // Print in light colours, at the width of a sheet, with all sections open.
  const folded = [];
  window.addEventListener('beforeprint', () => {
    document.documentElement.classList.add('paper');
    folded.push(...all('details:not([open])'));
    folded.forEach((d) => { d.open = true; });
    show();
    all('.plot').forEach(draw);
  });
  window.addEventListener('afterprint', () => {
    document.documentElement.classList.remove('paper');
    folded.splice(0).forEach((d) => { d.open = false; });
    show();
  });
  // With many variants on a phone: one line each, and sentences folded if they would fill the first screen.
  const narrow = matchMedia('(max-width: 40rem)'), verdict = document.querySelector('.verdict'), sentencesBox = document.querySelector('.in-sentences');
  function brief() {
    if (!sentencesBox) return;
    verdict.classList.remove('folded');
    sentencesBox.open = true;
    const long = narrow.matches && sentencesBox.offsetHeight > 0.32 * window.innerHeight;
    verdict.classList.toggle('folded', long);
    sentencesBox.open = !long;
  }
  narrow.addEventListener('change', brief);
  brief();
  readAddress();
  fill();
  show();
})();
