// Exports the first chart, which is HTML so that it needs no script, as a picture and as data.
'use strict';
(() => {
  const EDGE = 12;  // pixels around the picture
  const plain = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
  const HATCHED = (colour) => `<defs><pattern id="hatched" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2" height="5" fill="${colour}"/></pattern></defs>`;

  // The visible boxes and texts of `part` at their positions. `paper`: background, `faint`: hatching and axes.
  window.perfrunnerPictured = (part, paper, faint) => {
    const frame = part.getBoundingClientRect(), boxes = [], words = [], pen = document.createElement('canvas').getContext('2d');
    const seen = (e) => e.checkVisibility() && !e.closest('.hidden, .tools');
    for (const e of part.querySelectorAll('.swatch, .strip i, .key, .axis div')) {
      const r = e.getBoundingClientRect(), style = getComputedStyle(e), x = r.left - frame.left, y = r.top - frame.top;
      if (!seen(e) || !r.width) continue;
      const fill = style.backgroundImage === 'none' ? style.backgroundColor : 'url(#hatched)';
      if (e.matches('.axis div')) boxes.push(`<path d="M${x} ${y}h${r.width}" stroke="${faint}"/>`);
      else if (e.matches('.point')) boxes.push(`<path d="M${x} ${y + r.height / 2}l${r.width / 2} ${-r.height / 2}l${r.width / 2} ${r.height / 2}l${-r.width / 2} ${r.height / 2}Z" fill="${fill}"/>`);
      else boxes.push(`<rect x="${x}" y="${y}" width="${r.width}" height="${r.height}" fill="${fill}"/>`);
    }
    const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT), range = document.createRange();
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      const e = node.parentElement, style = getComputedStyle(e);
      if (!seen(e)) continue;
      pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const r = range.getBoundingClientRect();
        if (!r.width) continue;
        const y = r.top - frame.top + pen.measureText(word).fontBoundingBoxAscent;
        words.push(`<text x="${r.left - frame.left}" y="${y}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="${parseFloat(style.fontSize)}" font-weight="${style.fontWeight}" fill="${style.color}">${plain(word)}</text>`);
      }
    }
    const [width, height] = [frame.width, frame.height].map((side) => Math.ceil(side) + 2 * EDGE);
    return { width, height, text: `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${-EDGE} ${-EDGE} ${width} ${height}">${HATCHED(faint)}<rect x="${-EDGE}" y="${-EDGE}" width="${width}" height="${height}" fill="${paper}"/>${boxes.join('')}${words.join('')}</svg>` };
  };
})();
