// Zooms flame graphs: a click widens a box and its callees to the whole width; its callers stay below it.
// The boxes come from report/flame.py: data-x and data-w are shares, data-d the row from the bottom.
'use strict';
for (const svg of document.querySelectorAll('svg.flame')) {
  const width = svg.viewBox.baseVal.width, character = 6.3, boxes = [...svg.querySelectorAll('g')].map((g) => {
    const label = g.querySelector('title').textContent;
    return { g, rect: g.querySelector('rect'), x: +g.dataset.x, w: +g.dataset.w, d: +g.dataset.d, name: g.dataset.d === '0' ? 'all samples' : label.slice(0, label.lastIndexOf(': ')) };
  });
  const named = ({ g, rect, name }, left, wide) => {
    let text = g.querySelector('text');
    const letters = Math.floor((wide - 4) / character);
    if (letters < 5) return text && text.remove();
    if (!text) {
      text = document.createElementNS(svg.namespaceURI, 'text');
      text.setAttribute('y', +rect.getAttribute('y') + 12);
      const [r, v, b] = [1, 3, 5].map((at) => parseInt(rect.getAttribute('fill').slice(at, at + 2), 16));
      if (0.299 * r + 0.587 * v + 0.114 * b < 0.45 * 255) text.setAttribute('class', 'light');
      g.append(text);
    }
    text.setAttribute('x', left + 3);
    text.textContent = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
  };
  const widen = (chosen) => {
    const end = chosen.x + chosen.w, little = 1e-5;
    for (const box of boxes) {
      const caller = box.d < chosen.d && box.x <= chosen.x + little && box.x + box.w >= end - little;
      const inside = box.d >= chosen.d && box.x >= chosen.x - little && box.x + box.w <= end + little;
      box.g.style.display = caller || inside ? '' : 'none';
      if (!caller && !inside) continue;
      const left = caller ? 0 : (width * (box.x - chosen.x)) / chosen.w, wide = caller ? width : (width * box.w) / chosen.w;
      box.rect.setAttribute('x', left);
      box.rect.setAttribute('width', Math.max(0.5, wide - 0.6));
      box.g.style.opacity = caller ? 0.6 : '';
      named(box, left, wide);
    }
  };
  for (const box of boxes) box.g.addEventListener('click', () => widen(box));
}
