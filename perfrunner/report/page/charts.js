// Builds the ECharts options of each figure from the embedded data. It draws nothing itself.
'use strict';
(() => {
  const markOf = (v) => perfrunnerMarks[v % perfrunnerMarks.length];
  const lineOf = (data, v, width, more = {}) => ({ color: data.colours[v], width, type: perfrunnerDash(v), ...more });
  const MEMORY = ['mapped', 'resident', 'allocated', 'mem_used', 'payload'];  // outermost first
  const shades = () => MEMORY.map((_, n) => css(`--shade-${n}`));
  const HELD = ['mapped', 'mapped_no_store', 'rss', 'rss_plain', 'rss_now', 'rss_now_no_store', 'rss_settled'];
  const ASKED = ['fragmentation', 'fragmentation_payload'];  // filled marks, hollow marks
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const minus = (text) => String(text).replace('-', '\u2212');
  const prefixed = (v) => {
    for (const [f, p] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) if (Math.abs(v) >= f) return minus(`${+(v / f).toPrecision(4)}${p}`);
    return minus(+v.toPrecision(4));
  };
  // An axis from 0 that ends on a tick.
  const upTo = (top) => {
    const rough = (top || 1) / 4, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    return { min: 0, max: Math.ceil(top / step - 1e-9) * step || step, interval: step };
  };
  // An axis that contains both values, and starts and ends on ticks.
  const around = (low, high) => {
    const { interval } = upTo(high - low);
    return { min: Math.floor(low / interval + 1e-9) * interval, max: Math.ceil(high / interval - 1e-9) * interval, interval };
  };
  const duration = (us) => (us >= 1e6 ? `${+(us / 1e6).toPrecision(4)} s` : us >= 1e3 ? `${+(us / 1e3).toPrecision(4)} ms` : `${+us.toPrecision(4)} µs`);
  const median = (values) => {
    const s = [...values].sort((a, b) => a - b), h = s.length >> 1;
    return s.length % 2 ? s[h] : (s[h - 1] + s[h]) / 2;
  };
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

  // [t, median of the curves] at the times of the longest one, while at least half of them last.
  function across(curves) {
    const longest = curves.reduce((a, b) => (b.length > a.length ? b : a));
    return longest.map(([t]) => [t, curves.map((c) => at(c, t)).filter((v) => v !== null)]).filter(([, ys]) => ys.length >= curves.length / 2).map(([t, ys]) => [t, median(ys)]);
  }
  function at(curve, t) {
    if (t < curve[0][0] || t > curve[curve.length - 1][0]) return null;
    const i = curve.findIndex((p) => p[0] >= t);
    if (i === 0) return curve[0][1];
    const [x0, y0] = curve[i - 1], [x1, y1] = curve[i];
    return y0 + (y1 - y0) * (t - x0) / (x1 - x0);
  }

  function base(state, x, y, series, more = {}) {
    const ink = css('--ink'), soft = css('--soft'), grid = css('--grid');
    const axis = (given) => ({
      nameLocation: 'middle', nameGap: 26, nameTextStyle: { color: soft, fontSize: 11 }, scale: true,
      axisLabel: { color: ink, fontSize: 11, hideOverlap: true, formatter: prefixed, ...given.label }, axisLine: { lineStyle: { color: soft } },
      splitLine: { lineStyle: { color: grid } }, ...given,
    });
    return {
      animation: false, aria: { enabled: true, label: { description: more.label } },
      textStyle: { fontFamily: 'DejaVu Sans, Verdana, sans-serif' },
      grid: { left: 62, right: 14, top: 14, bottom: 42 },
      tooltip: { trigger: 'item', triggerOn: 'none', confine: true, backgroundColor: css('--paper'), borderColor: soft, textStyle: { color: ink, fontSize: 12 },
        formatter: (p) => (p.data && p.data.tip) || '' },
      xAxis: axis({ type: 'value', splitLine: { show: false }, ...x }), yAxis: axis({ type: state.log ? 'log' : 'value', nameGap: 48, ...y }),
      dataZoom: more.zoom === false ? [] : [{ type: 'inside', xAxisIndex: 0, zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false, filterMode: 'none', ...more.window }],
      series: series.map((s) => ({ ...s, silent: true })),  // only the nearest point reacts to the pointer (points.js)
    };
  }

  // Linked time axes: each is as long as the longest of its kind, regardless of the selection, so that a share of it
  // is the same time in all of them; a plot starts zoomed to its own part. Seconds of load are per variant, which
  // memory samples follow if a variant ran alone; samples of interleaved variants follow the clock.
  const BEFORE = 0.28;  // share of the measured time that earlier phases take on the axis, regardless of their length
  const ending = (curves) => Math.max(0, ...curves.map((p) => p[p.length - 1][0]));
  function reach(data, link) {
    const ofLoad = link === 'load', held = ending(data.memory.filter((m) => Boolean(m.l) === ofLoad).flatMap((m) => Object.values(m.k)));
    if (link === 'minutes') return [0, 1.03 * Math.max(...data.trials.map((t) => t.t))];
    const driven = ofLoad ? ending(data.rates.map((r) => r.p)) : 0;
    return [data.rates.some((r) => r.q) ? -BEFORE * driven : 0, Math.max(held, driven)];
  }
  function timeAxis(data, link, own) {
    const [min, max] = reach(data, link), share = (x) => (100 * (x - min)) / (max - min || 1);
    return { axis: { min, max }, window: own ? { link, start: share(own[0]), end: share(own[1]) } : { link } };
  }
  // The end of the measurement is rarely a round number; it is not a tick then.
  const odd = (x, last) => Math.abs(x - last) < 0.005 * last && Math.abs(x * 10 - Math.round(x * 10)) > 1e-6;  // approximate: the library rounds the ends of a zoom
  const ticks = (last) => ({ formatter: (x) => (x < 0 || odd(x, last) ? '' : prefixed(x)) });

  const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }[c]));
  const tip = (data, v, lines) => `<b>${escaped(data.variants[v])}</b><br>${lines.map(escaped).join('<br>')}`;
  // The trial of a point and the line of its tooltip; `is` selects it among the counted trials.
  const opens = (t) => (t.d ? ['Click (Enter): its logs and reproduce.sh'] : []);
  function behind(data, is) {
    const place = data.trials.findIndex((t) => t.n && is(t));
    return place < 0 ? { point: {}, words: [] } : { point: { trial: place }, words: opens(data.trials[place]) };
  }
  const emphasis = (focus = 'series') => ({ emphasis: { focus }, blur: { itemStyle: { opacity: 0.15 }, lineStyle: { opacity: 0.08 } } });
  // A metric's factor and unit in a case; magnitudes differ between cases.
  const scaleOf = (metric, c) => metric.scales[c] || [1, ''];
  const number = (value, [factor, unit]) => minus(`${+(value / factor).toPrecision(5)} ${unit}`.trim());

  function trials(data, state, c) {
    const metric = data.metrics[state.metric], id = state.metric, scale = scaleOf(metric, c), [factor, unit] = scale;
    const its = data.trials.map((t, i) => ({ ...t, i })).filter((t) => t.c === c && id in t.m);
    // A trial is paired as in the tables: with the baseline of its group, or of its block if its group has none.
    const baseline = {}, counted = its.filter((t) => t.n);
    for (const t of counted.filter((t) => t.v === 0)) for (const key of [t.b, `${t.b}/${t.e}`]) (baseline[key] ||= []).push(t.m[id]);
    const against = (t) => baseline[`${t.b}/${t.e}`] || baseline[t.b];
    const factors = state.relative && metric.effect === 'ratio', change = (t) => {
      if (!t.n || !against(t) || t.v === 0) return null;
      return factors ? t.m[id] / mean(against(t)) : (t.m[id] - mean(against(t))) / factor;
    };
    const large = factors && counted.filter((t) => state.variants.has(t.v)).map(change).some((f) => f !== null && (f > data.large || f < 1 / data.large));
    const value = (t) => (!state.relative ? t.m[id] / factor : factors && !large && change(t) !== null ? 100 * (change(t) - 1) : change(t));
    const changed = (t) => (large ? perfrunnerFactor(value(t)) : `${minus(+value(t).toPrecision(3))} ${relativeUnit(metric, unit)}`);
    const log = large || (state.log && !state.relative);
    const shown = its.filter((t) => state.variants.has(t.v) && value(t) !== null && !(log && value(t) <= 0));
    if (!shown.length) return null;
    const series = [];
    const blocks = [...new Set(shown.map((t) => t.b))].sort((a, b) => a - b);
    if (!state.time) {
      series.push({ type: 'custom', name: 'pairs', silent: true, z: 1, data: blocks.map((b) => {
        const ys = shown.filter((t) => t.b === b && t.n).map(value);
        return ys.length > 1 ? [b, Math.min(...ys), Math.max(...ys)] : null;
      }).filter(Boolean), encode: { x: 0, y: [1, 2] }, renderItem: (_, api) => {
        const [x, y1] = api.coord([api.value(0), api.value(1)]), [, y2] = api.coord([api.value(0), api.value(2)]);
        return { type: 'line', shape: { x1: x, y1, x2: x, y2 }, style: { stroke: css('--faint'), lineWidth: 1 } };
      } });
    }
    for (const v of state.variants) {
      const mine = shown.filter((t) => t.v === v);
      if (!mine.length) continue;
      const good = mine.filter((t) => t.n).map(value);
      series.push({
        type: state.time ? 'line' : 'scatter', name: data.variants[v], symbol: `path://${markOf(v)}`, symbolSize: 9, showSymbol: true,
        itemStyle: { color: data.colours[v], borderColor: css('--paper'), borderWidth: 0.8 }, lineStyle: lineOf(data, v, 1), z: 3, ...emphasis(),
        data: mine.sort((a, b) => a.t - b.t).map((t) => ({
          value: [state.time ? t.t : t.b, value(t)], trial: t.i, itemStyle: t.n ? {} : { opacity: 0.35 },
          tip: tip(data, v, [`${metric.name} ${number(t.m[id], scale)}`, ...(state.relative ? [`${changed(t)} against ${data.variants[0]}`] : []),
            `block ${t.b}${t.a > 1 ? `, attempt ${t.a}` : ''}, minute ${t.t.toFixed(1)}`, ...(t.n ? [] : [t.s === 'ok' ? 'in a discarded block: not counted' : t.s]), ...opens(t)]),
        })),
        markLine: good.length ? { silent: true, symbol: 'none', precision: -1, label: { show: false }, lineStyle: { color: data.colours[v], type: 'dashed', width: 1.2, opacity: 0.9 }, data: [{ yAxis: large ? Math.exp(mean(good.map(Math.log))) : mean(good) }] } : undefined,
      });
    }
    const label = `${metric.name} of every trial in ${data.cases[c]}, ${shown.length} trials of ${state.variants.size} variants`, minutes = state.time ? timeAxis(data, 'minutes') : null;
    return base({ ...state, log }, state.time ? { name: 'minutes since the first trial', ...minutes.axis, label: ticks(minutes.axis.max) } : { name: 'block', minInterval: 1, min: blocks[0] - 0.5, max: blocks[blocks.length - 1] + 0.5, label: { formatter: (v) => (Number.isInteger(v) ? v : '') } },
      { name: state.relative ? `${large ? 'factor' : relativeUnit(metric, unit)} against ${data.variants[0]}` : unit, ...(large ? perfrunnerFactors(shown.map(value)) : {}) }, series, { label, window: minutes?.window });
  }
  const relativeUnit = (metric, unit) => (metric.effect === 'ratio' ? '%' : unit === '%' ? 'points' : unit);

  function rounds(data, state, c) {
    const its = data.rounds.filter((r) => r.c === c && state.variants.has(r.v));
    if (!its.length) return null;
    const series = [];
    for (const r of its) {
      const colour = data.colours[r.v], points = [], levels = [];
      r.blocks.forEach((block, n) => {
        const { point, words } = behind(data, (t) => t.c === c && t.v === r.v && t.b === block.b);
        for (const [x, y] of block.p) points.push({ ...point, value: [n + 1 + x * 0.9, y], tip: tip(data, r.v, [`${minus(y.toFixed(r.d))} % against ${data.variants[0]}, median of a bin of rounds`, `block ${block.b}`, ...words]) });
        points.push([n + 1.92, null]);
        const text = tip(data, r.v, [`block ${block.b}: ${minus(block.robust.toFixed(r.d))} %`, `by totals ${minus(block.total.toFixed(r.d))} %`, ...words]);
        levels.push({ ...point, value: [n + 1, block.robust], tip: text }, { ...point, value: [n + 1.9, block.robust], tip: text }, [n + 1.92, null]);
      });
      series.push({ type: 'line', name: data.variants[r.v], showSymbol: false, data: points, lineStyle: { color: colour, width: 1, opacity: 0.55 }, itemStyle: { color: colour }, ...emphasis() });
      series.push({ type: 'line', name: data.variants[r.v], showSymbol: false, data: levels, lineStyle: lineOf(data, r.v, 3), itemStyle: { color: colour }, ...emphasis() });
    }
    const names = its[0].blocks.map((b) => b.b);
    // Rare bins are far out: the axis shows the middle 92 % of bins, and every estimate.
    const bins = its.flatMap((r) => r.blocks.flatMap((b) => b.p.map((p) => p[1]))).sort((a, b) => a - b), levels = its.flatMap((r) => r.blocks.flatMap((b) => [b.robust, b.total]));
    const low = Math.min(bins[Math.floor(0.04 * bins.length)], ...levels, 0), high = Math.max(bins[Math.ceil(0.96 * bins.length) - 1], ...levels, 0);
    return base({ ...state, log: false }, { name: 'block', min: 1, max: names.length + 1, interval: 1, label: { formatter: (v) => names[v - 1] ?? '' } },
      { name: `% against ${data.variants[0]}`, ...around(low, high) }, series, { label: `Change in the same round over the blocks of ${data.cases[c]}` });
  }

  // All rounds of all blocks: the spread of single rounds compared with the estimate.
  function spread(data, state, c) {
    const its = data.rounds.filter((r) => r.c === c && state.variants.has(r.v));
    if (!its.length) return null;
    const series = its.map((r) => ({ type: 'line', step: 'middle', name: data.variants[r.v], showSymbol: false, lineStyle: lineOf(data, r.v, 1.6), itemStyle: { color: data.colours[r.v] }, areaStyle: { color: data.colours[r.v], opacity: 0.12 }, ...emphasis(),
      data: r.bars.map((p) => ({ value: p, tip: tip(data, r.v, [`${p[1]} % of ${prefixed(r.n)} rounds: about ${minus(p[0].toFixed(1))} % against ${data.variants[0]}`, `all of them: ${minus(r.robust.toFixed(r.d))} %`]) })),
      markLine: { silent: true, symbol: 'none', precision: -1, label: { show: false }, lineStyle: { color: data.colours[r.v], type: 'dashed', width: 1.4 }, data: [{ xAxis: r.robust }] } }));
    return base({ ...state, log: false }, { name: `% against ${data.variants[0]} in the same round` }, { name: '% of rounds', min: 0, axisLine: { onZero: false, lineStyle: { color: css('--soft') } } }, series, { label: `Histogram of the changes of single rounds in ${data.cases[c]}` });
  }

  // A thin line for each trial, and a thick one for their median. `before(items, point, words)`: points of an earlier phase.
  function courses(data, state, c, its, text, before = () => []) {
    const series = [];
    for (const v of state.variants) {
      const mine = its.filter((r) => r.v === v);
      if (!mine.length) continue;
      const style = { name: data.variants[v], type: 'line', showSymbol: false, itemStyle: { color: data.colours[v] }, ...emphasis() };
      for (const r of mine) {
        const { point, words } = behind(data, (t) => t.c === c && t.v === v && t.b === r.b && t.e === r.e), more = [`block ${r.b}`, ...words];
        series.push({ ...style, lineStyle: lineOf(data, v, 0.7, { opacity: 0.35 }), data: before([r], point, more).concat(r.p.map((p) => ({ ...point, value: p, tip: tip(data, v, [text(p), ...more]) }))) });
      }
      series.push({ ...style, lineStyle: lineOf(data, v, 2.4), data: before(mine).concat(across(mine.map((r) => r.p)).map((p) => ({ value: p, tip: tip(data, v, [`median ${text(p)}`]) }))) });
    }
    return series;
  }

  function rates(data, state, c) {
    const its = data.rates.filter((r) => r.c === c && state.variants.has(r.v));
    if (!its.length) return null;
    const soft = css('--soft'), last = ending(its.map((r) => r.p)), earlier = its.filter((r) => r.q), left = -BEFORE * last;
    const phaseText = (q) => `${q[0]}: ${prefixed(q[2])} ops/s over ${q[1]} s`;
    const series = courses(data, state, c, its, (p) => `${prefixed(p[1])} ops/s at ${p[0]} s`, (some, point, words) => {
      const known = some.map((r) => r.q).filter(Boolean);
      if (!known.length) return [];
      const q = [known[0][0], +median(known.map((k) => k[1])).toPrecision(3), median(known.map((k) => k[2]))], lines = point ? [phaseText(q), ...words] : ['median', phaseText(q)];
      return [left, left * 0.05].map((x) => ({ ...point, value: [x, q[2]], tip: tip(data, some[0].v, lines) })).concat([[0, null]]);
    });
    const ramp = data.phases[c], area = (name, from, to, position, opacity) => [{ name, xAxis: from, label: { position }, itemStyle: { opacity } }, { xAxis: to }];
    const areas = [...(earlier.length ? [area(earlier[0].q[0], left, 0, 'insideTop', 0.8)] : []), ...(ramp ? [area('ramp, not counted', 0, ramp, 'insideBottom', 0.5)] : []), ...(its[0].n ? [area(its[0].n, ramp || 0, last, 'insideTop', 0)] : [])];
    if (areas.length) series[0].markArea = { silent: true, itemStyle: { color: css('--grid') }, label: { color: soft, fontSize: 10, distance: 2 }, data: areas };
    if (earlier.length) series[0].markLine = { silent: true, symbol: 'none', label: { show: false }, lineStyle: { color: soft, type: 'solid', width: 1 }, data: [{ xAxis: 0 }] };
    const { axis, window } = timeAxis(data, 'load', [earlier.length ? left : 0, last]);
    return base(state, { name: 'seconds of load', ...axis, ...(earlier.length ? { axisTick: { show: false } } : {}), label: ticks(last) },
      { name: 'operations per second', ...(state.log ? {} : { min: 0 }) }, series,
      { window, label: `Operations per second inside the trials of ${data.cases[c]}${earlier.length ? `, after ${earlier[0].q[0]}` : ''}` });
  }

  function churn(data, state, c) {
    const { trials = [], ends } = data.churn[c], its = trials.filter((r) => state.variants.has(r.v));
    if (!its.length) return null;
    const last = 1.01 * Math.max(ending(trials.map((r) => r.p)), ...ends.map(([x]) => x)), series = courses(data, state, c, its, (p) => `RSS ${prefixed(p[1])}B at ${p[0]} s`);
    series[0].markLine = { silent: true, symbol: 'none', lineStyle: { color: css('--soft'), type: 'dashed', width: 1 }, label: { color: css('--soft'), fontSize: 10, position: 'insideStartTop', formatter: (p) => p.name },
      data: ends.map(([x, name]) => ({ xAxis: x, name })) };
    return base({ ...state, log: false }, { name: 'seconds since the first item', min: 0, max: last, label: ticks(last) }, { ...upTo(Math.max(...its.flatMap((r) => r.p.map((p) => p[1])))), name: 'resident bytes' }, series,
      { label: `Resident memory of ${data.cases[c]}: ${ends.map(([x, name]) => `${name} at ${x} s`).join(', ')}` });
  }

  function memory(data, state, c, v) {
    const its = data.memory.filter((m) => m.c === c && m.v === v);
    if (!its.length) return null;
    const series = [], shade = shades();
    MEMORY.forEach((kind, n) => {
      const curves = its.map((m) => m.k[kind]).filter(Boolean);
      if (!curves.length) return;
      series.push({ type: 'line', name: kind, showSymbol: false, z: 2 + n, lineStyle: { color: shade[n], width: 1.2 }, itemStyle: { color: shade[n] }, areaStyle: { color: shade[n], opacity: 1, origin: 'start' },
        endLabel: { show: false }, data: across(curves).map((p) => ({ value: p, tip: tip(data, v, [`${kind} ${prefixed(p[1])}B at ${p[0]} s`]) })) });
    });
    const rss = its.map((m) => m.k.RSS).filter(Boolean);
    if (rss.length) {
      series.push({ type: 'line', name: 'RSS', showSymbol: false, z: 9, lineStyle: { color: css('--ink'), width: 2 }, itemStyle: { color: css('--ink') },
        data: across(rss).map((p) => ({ value: p, tip: tip(data, v, [`RSS ${prefixed(p[1])}B at ${p[0]} s`]) })) });
    }
    const top = Math.max(...data.memory.filter((m) => m.c === c).flatMap((m) => Object.values(m.k).flat().map((p) => p[1])));
    const last = ending(series.map((s) => s.data.map((d) => d.value))), { axis, window } = timeAxis(data, its[0].l ? 'load' : 'clock', [0, last]);
    return base({ ...state, log: false }, { name: its[0].l ? 'seconds of load' : 'seconds', ...axis, label: ticks(last) }, { ...upTo(top), name: 'bytes' }, series,
      { window, label: `Memory over time of ${data.variants[v]} in ${data.cases[c]}: ${series.map((s) => s.name).join(', ')}` });
  }

  function curve(data, state, c, op) {
    const its = data.latency.filter((l) => l.c === c && l.op === op && state.variants.has(l.v));
    if (!its.length) return null;
    const series = its.map((l) => ({ type: 'line', name: data.variants[l.v], showSymbol: false, lineStyle: lineOf(data, l.v, 2), itemStyle: { color: data.colours[l.v] }, ...emphasis(),
      data: l.curve.map(([p, y]) => ({ value: [100 / (100 - p), y], tip: tip(data, l.v, [`${op} p${+p.toFixed(3)}: ${duration(y)}`, `of ${prefixed(l.n)} operations`]) })) }));
    const label = (x) => ({ 2: '50', 10: '90', 100: '99', 1000: '99.9', 10000: '99.99' }[Math.round(x)] ?? '');
    return base({ ...state, log: true }, { type: 'log', name: 'percentile', label: { formatter: label } }, { name: 'latency', label: { formatter: duration } }, series, { label: `Latency of ${op} by percentile in ${data.cases[c]}` });
  }
  function bars(data, state, c, op) {
    const its = data.latency.filter((l) => l.c === c && l.op === op && state.variants.has(l.v));
    if (!its.length) return null;
    const series = its.map((l) => ({ type: 'line', step: 'middle', name: data.variants[l.v], showSymbol: false, lineStyle: lineOf(data, l.v, 1.6), itemStyle: { color: data.colours[l.v] },
      areaStyle: { color: data.colours[l.v], opacity: 0.12 }, ...emphasis(), data: l.bars.map((p) => ({ value: p, tip: tip(data, l.v, [`${p[1]} % of ${op}s take about ${duration(p[0])}`]) })) }));
    return base({ ...state, log: false }, { type: 'log', name: 'latency', label: { formatter: duration } }, { name: '% of operations', min: 0 }, series, { label: `Histogram of the latency of ${op} in ${data.cases[c]}` });
  }

  // As many digits as the interval justifies: two digits of its half-width.
  const digits = (low, high) => { const half = (high - low) / 2; return half > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(half)))) : 2; };

  function fragmentation(data, state, c, results) {
    const row = (stem, held, v) => results.find((r) => r.metric === `${stem}_${held}` && r.c === c && (v === undefined || r.v === v));
    const found = HELD.filter((held) => ASKED.some((stem) => row(stem, held)));
    if (!found.length) return null;
    const variants = [...state.variants], series = [];
    const text = (r, v) => {
      const n = r.ci95 ? digits(...r.ci95) : 1;
      return tip(data, v, [`${data.metrics[r.metric].name}: ${r.mean.toFixed(n)} %`, ...(r.ci95 ? [`95 % interval ${r.ci95.map((e) => e.toFixed(n)).join(' to ')}`] : [])]);
    };
    variants.forEach((v, n) => ASKED.forEach((stem, hollow) => {
      const rows = found.map((held, i) => [i + 1 + 0.72 / Math.max(3, variants.length) * (n - (variants.length - 1) / 2), row(stem, held, v)]).filter(([, r]) => r);
      series.push({ type: 'custom', name: data.variants[v], silent: true, data: rows.filter(([, r]) => r.ci95).map(([x, r]) => [x, ...r.ci95]), encode: { x: 0, y: [1, 2] }, renderItem: (_, api) => {
        const [x, y1] = api.coord([api.value(0), api.value(1)]), [, y2] = api.coord([api.value(0), api.value(2)]);
        return { type: 'line', shape: { x1: x, y1, x2: x, y2 }, style: { stroke: data.colours[v], lineWidth: 2.4 } };
      } });
      const mark = hollow ? { color: css('--paper'), borderColor: data.colours[v], borderWidth: 2 } : { color: data.colours[v] };
      series.push({ type: 'scatter', name: data.variants[v], symbol: `path://${markOf(v)}`, symbolSize: hollow ? 8 : 10, itemStyle: mark, ...emphasis(), data: rows.map(([x, r]) => ({ value: [x, r.mean], tip: text(r, v) })) });
    }));
    const level = window.innerWidth >= 1000, short = (held) => (level ? held.replace('_no_store', '\nno store').replace(/_(?!store)/, held.includes('_no_store') ? ' ' : '\n') : held.replace('_no_store', ', no store').replace('_', ' '));
    const option = base({ ...state, log: false }, { name: 'what is held', nameGap: level ? 36 : 62, min: 0.5, max: found.length + 0.5, interval: 1, label: { formatter: (x) => (found[Math.round(x) - 1] && Math.abs(x - Math.round(x)) < 0.01 ? short(found[Math.round(x) - 1]) : ''), customValues: found.map((_, i) => i + 1), hideOverlap: false, fontSize: 10, lineHeight: 12, rotate: level ? 0 : 40 } },
      { name: '% of it that is not used' }, series, { label: `Fragmentation by every formula in ${data.cases[c]}`, zoom: false });
    option.grid.bottom = level ? 56 : 82;
    return option;
  }

  // By case a band of the noise floor, and the variants' changes.
  function noise(data, state, one) {
    const cases = one.cases.filter((benchCase) => state.cases.has(benchCase.c)), variants = [...state.variants].filter((v) => v !== 0), series = [];
    if (!cases.length || !variants.length) return null;
    const n = (y) => digits(y[1], y[2]);
    series.push({ type: 'custom', name: 'noise floor', silent: true, z: 1, data: cases.map((benchCase, i) => [i + 1, ...benchCase.floor]), encode: { x: 0, y: [1, 2] }, renderItem: (_, api) => {
      const [left, low] = api.coord([api.value(0) - 0.42, api.value(1)]), [right, high] = api.coord([api.value(0) + 0.42, api.value(2)]);
      return { type: 'rect', shape: { x: left, y: high, width: right - left, height: low - high }, style: { fill: css('--grid'), stroke: css('--faint'), lineWidth: 0.6 } };
    } });
    variants.forEach((v, k) => {
      const rows = cases.map((benchCase, i) => [i + 1 + 0.72 / Math.max(3, variants.length) * (k - (variants.length - 1) / 2), benchCase.rows.find((r) => r.v === v), benchCase]).filter(([, r]) => r);
      series.push({ type: 'custom', name: data.variants[v], silent: true, z: 2, data: rows.map(([x, r]) => [x, r.y[1], r.y[2]]), encode: { x: 0, y: [1, 2] }, renderItem: (_, api) => {
        const [x, y1] = api.coord([api.value(0), api.value(1)]), [, y2] = api.coord([api.value(0), api.value(2)]);
        return { type: 'line', shape: { x1: x, y1, x2: x, y2 }, style: { stroke: data.colours[v], lineWidth: 2.4 } };
      } });
      series.push({ type: 'scatter', name: data.variants[v], symbol: `path://${markOf(v)}`, symbolSize: 10, itemStyle: { color: data.colours[v] }, z: 3, ...emphasis(), data: rows.map(([x, r, benchCase]) => ({ value: [x, r.y[0]],
        tip: tip(data, v, [`${data.cases[benchCase.c]}: ${minus(r.y[0].toFixed(n(r.y)))} ${one.unit} [${r.y.slice(1).map((e) => minus(e.toFixed(n(r.y)))).join(', ')}]`, `noise floor \u00b1${benchCase.floor[1].toPrecision(2)} ${one.unit}`]) })) });
    });
    const ends = cases.flatMap((benchCase) => [...benchCase.floor, ...benchCase.rows.filter((r) => state.variants.has(r.v)).flatMap((r) => r.y)]);
    const option = base({ ...state, log: false }, { min: 0.5, max: cases.length + 0.5, interval: 1, axisTick: { show: false }, axisLine: { onZero: false, lineStyle: { color: css('--soft') } }, label: { formatter: (x) => (cases[Math.round(x) - 1] && Math.abs(x - Math.round(x)) < 0.01 ? data.cases[cases[Math.round(x) - 1].c].replace(' \u00b7 ', '\n') : ''), customValues: cases.map((_, i) => i + 1), fontSize: 10, lineHeight: 12 } },
      { name: `${one.unit} against ${data.variants[0]}`, ...around(Math.min(...ends), Math.max(...ends)) }, series, { label: `Changes of ${data.metrics[one.m].name} and the noise floor`, zoom: false });
    return option;
  }

  // All figures for a state: an id, a title with the question, and plots (name, key of linked zoom, option).
  function figures(data, state, results) {
    const cases = [...state.cases], variants = [...state.variants], ops = [...new Set(data.latency.map((l) => l.op))];
    const each = (draw) => cases.map((c) => ({ name: data.cases[c], option: draw(c) })).filter((p) => p.option);
    const { name, drift } = data.metrics[state.metric], drifts = state.time && drift.some(Boolean) ? drift : null;
    const spoiled = data.trials.some((t) => !t.n && state.cases.has(t.c) && state.variants.has(t.v) && state.metric in t.m);
    // Each figure has a legend, because it may be saved or printed without the rest of the page.
    const legend = (marked, shown = variants) => shown.map((v) => [data.variants[v], data.colours[v], marked ? markOf(v) : perfrunnerSample(v, data.variants.length)]), others = variants.filter((v) => v !== 0);
    const all = [
      { id: 'trials', title: state.time ? `Did the machine drift? ${name}, trial after trial` : `How much do trials spread? ${name} of every trial, joined by block`, legend: legend(true, state.relative ? others : variants),
        words: `Dashed: the mean of a variant${spoiled ? '; faint: discarded, or in a discarded block, does not count' : ''}.${drifts ? ' Drift: of all variants, from the first block to the last, with its 95 % interval.' : ''}`,
        plots: cases.map((c) => ({ name: drifts?.[c] ? `${data.cases[c]}: drift ${drifts[c]}` : data.cases[c], option: trials(data, state, c) })).filter((p) => p.option) },
      { id: 'rounds', title: 'Does the change hold from round to round?', legend: legend(false, others), words: 'Thin: medians of some rounds each; thick: the estimate of a block.', plots: each((c) => rounds(data, state, c)) },
      { id: 'spread', title: 'How far do single rounds spread?', legend: legend(false, others), words: 'Dashed: the estimate of all of them; the outermost hundredth is left out.', plots: each((c) => spread(data, state, c)) },
      { id: 'noise', title: 'Is the change larger than the noise of this host?', legend: [...legend(true, others), ['the noise floor', css('--grid')]], words: 'What two runs of one build can seem to differ by. Bars: 95 % intervals.', columns: 2, plots: data.noise.map((one) => ({ name: data.metrics[one.m].name, option: noise(data, state, one) })).filter((p) => p.option) },
      { id: 'fragmentation', title: 'How much memory is held and not used, by every formula?', legend: legend(true), words: 'Filled: what is not mem_used; hollow: what is not payload (the bytes that were asked for).', columns: 2, plots: each((c) => fragmentation(data, state, c, results)) },
      ...ops.flatMap((op) => [
        { id: `latency-${op}`, title: `How long do ${op}s take, percentile by percentile?`, legend: legend(false), plots: each((c) => curve(data, state, c, op)) },
        { id: `histogram-${op}`, title: `How are the latencies of ${op}s distributed?`, legend: legend(false), plots: each((c) => bars(data, state, c, op)) },
      ]),
      { id: 'rates', title: 'Is throughput steady inside the trials?', legend: legend(false), words: 'Thin: trials; thick: their median.', plots: each((c) => rates(data, state, c)) },
      { id: 'churn', title: 'How much memory comes back when items are deleted?', legend: legend(false), words: 'Thin: trials; thick: their median.', plots: each((c) => churn(data, state, c)) },
      { id: 'memory', title: 'Where does memory go over time?', columns: variants.length,
        legend: [...MEMORY.map((kind, n) => [kind, shades()[n]]).reverse(), ['RSS: the line', css('--ink')]],
        plots: cases.flatMap((c) => variants.map((v) => ({ name: `${data.cases[c]}: ${data.variants[v]}`, option: memory(data, state, c, v) }))).filter((p) => p.option) },
    ];
    return all.filter((f) => f.plots.length);
  }
  window.perfrunnerFigures = figures;
})();
