// A board of blocks: the plan, and what stands; cells are drawn on canvases, layer by layer.

const board = { block: '', from: null };
const MOST_DRAWN = 400; // commands that one stroke adds

const probe = el('span', { hidden: true });
document.body.append(probe);

/** A colour of the style as a canvas reads it. */
const ink = (name) => {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};

/** What the commands of a text would place: [x, y, z, block], each cell counted from the corner of the world. */
const planned = (scene, text) => {
  const [ox, oy, oz] = scene.origin;
  const cells = [];
  for (const line of text.split('\n')) {
    const set = /^\s*\/?setblock\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(\S+)/.exec(line);
    const fill = /^\s*\/?fill\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(\S+)/.exec(line);
    const found = scene.verb === 'fill' ? fill : set;
    if (!found) continue;
    const n = found.slice(1, -1).map(Number);
    const block = found[found.length - 1].replace(/^minecraft:/, '');
    if (!scene.blocks.includes(block)) continue;
    const [a, b, c, d, e, f] = n.length === 3 ? [...n, ...n] : n;
    const range = (from, to, low, size) => { // of one axis, within the world
      const out = [];
      for (let k = Math.max(Math.min(from, to) - low, 0); k <= Math.min(Math.max(from, to) - low, size - 1); k += 1) out.push(k);
      return out;
    };
    for (const x of range(a, d, ox, scene.shape[0])) for (const y of range(b, e, oy, scene.shape[1])) for (const z of range(c, f, oz, scene.shape[2])) cells.push([x, y, z, block]);
    if (cells.length > 40000) break;
  }
  return cells;
};

/** Row and column of a cell in the grid of its layer; a world one cell deep is seen from the front. */
const placeOf = (scene, x, y, z) => (scene.shape[2] > 1 ? [y, z, x] : [0, scene.shape[1] - 1 - y, x]);
const cellAt = (scene, layer, row, column) => (scene.shape[2] > 1 ? [column, layer, row] : [column, scene.shape[1] - 1 - row, 0]);

const sideOf = (scene) => Math.max(8, Math.min(scene.shape[2] > 1 ? 16 : 24, Math.floor(600 / scene.shape[0])));

/** One layer on a canvas. `codes` are blocks of cells, `ghost` those of the plan beneath, `drafts` cells of typed commands. */
const layerView = (scene, label, codes, ghost, drafts) => {
  const side = sideOf(scene);
  const rows = codes.length, columns = codes[0].length;
  const canvas = el('canvas', { width: String(2 * columns * side + 2), height: String(2 * rows * side + 2), role: 'img', 'aria-label': label,
    style: { width: `${columns * side + 1}px`, 'aspect-ratio': `${columns * side + 1} / ${rows * side + 1}` } });
  const pen = canvas.getContext('2d');
  pen.scale(2, 2);
  const color = (code) => (scene.any_block && !ghost ? ink('--muted') : scene.palette[code - 1][1]);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const code = codes[row][column], wanted = ghost ? ghost[row][column] : 0;
      const box = [column * side + 0.5, row * side + 0.5, side, side];
      pen.globalAlpha = 1;
      if (code) { pen.fillStyle = color(code); pen.fillRect(...box); }
      else if (wanted) { pen.globalAlpha = 0.22; pen.fillStyle = scene.any_block ? ink('--muted') : scene.palette[wanted - 1][1]; pen.fillRect(...box); }
      pen.globalAlpha = 1;
      pen.lineWidth = 1;
      pen.strokeStyle = ink('--line');
      pen.strokeRect(...box);
      if (ghost && code && (scene.any_block ? !wanted : code !== wanted)) { pen.strokeStyle = ink('--bad'); pen.lineWidth = 2; pen.strokeRect(box[0] + 1.5, box[1] + 1.5, side - 3, side - 3); }
    }
  }
  for (const [row, column, block] of drafts) {
    const known = scene.palette.find(([name]) => name === block);
    pen.fillStyle = known ? known[1] : ink('--card');
    pen.fillRect(column * side + 3, row * side + 3, side - 5, side - 5);
    pen.strokeStyle = ink('--s1');
    pen.lineWidth = 1.5;
    pen.setLineDash([3, 2]);
    pen.strokeRect(column * side + 2.5, row * side + 2.5, side - 4, side - 4);
    pen.setLineDash([]);
  }
  return canvas;
};

const cellOf = (scene, canvas, event, layer) => {
  const box = canvas.getBoundingClientRect();
  const across = scene.shape[0], down = scene.shape[2] > 1 ? scene.shape[2] : scene.shape[1];
  const clamp = (share, size) => Math.max(0, Math.min(size - 1, Math.floor(share * size)));
  return cellAt(scene, layer, clamp((event.clientY - box.top) / box.height, down), clamp((event.clientX - box.left) / box.width, across));
};

/** Commands that place the chosen block in all cells between two of one layer. */
const stroke = (scene, from, to) => {
  const at = (cell) => cell.map((n, k) => n + scene.origin[k]);
  const low = from.map((n, k) => Math.min(n, to[k])), high = from.map((n, k) => Math.max(n, to[k]));
  if (scene.verb === 'fill') return [`/fill ${at(low).join(' ')} ${at(high).join(' ')} ${board.block}`];
  const lines = [];
  for (let y = low[1]; y <= high[1]; y += 1) for (let z = low[2]; z <= high[2]; z += 1) for (let x = low[0]; x <= high[0]; x += 1) lines.push(`/setblock ${at([x, y, z]).join(' ')} ${board.block}`);
  return lines.slice(0, MOST_DRAWN);
};

/** The board; `draw(lines)` takes commands of a stroke, null where no answer is wanted. */
const boardScene = (scene, text, draw) => {
  if (!scene.blocks.includes(board.block)) board.block = scene.blocks.find((name) => name !== 'air') || scene.blocks[0];
  const drafts = scene.layers.map(() => []);
  for (const [x, y, z, block] of planned(scene, draw ? text : '')) {
    const [layer, row, column] = placeOf(scene, x, y, z);
    drafts[layer].push([row, column, block]);
  }
  const flat = scene.shape[2] === 1;
  const named = ([heading], what) => (flat ? `${what}, seen from the front` : `${what}, ${heading}`);
  const figureOf = (entry, canvas) => el('figure', null, canvas, flat ? null : el('figcaption', null, entry[0].replace('layer ', 'y = ')));
  const target = scene.layers.map((entry) => figureOf(entry, layerView(scene, named(entry, 'plan'), entry[1], null, [])));
  const stands = scene.layers.map((entry, layer) => {
    const canvas = layerView(scene, named(entry, 'built'), entry[2], entry[1], drafts[layer]);
    if (draw) {
      canvas.classList.add('drawn');
      canvas.addEventListener('pointerdown', (event) => { board.from = [layer, cellOf(scene, canvas, event, layer)]; canvas.setPointerCapture(event.pointerId); });
      canvas.addEventListener('pointerup', (event) => { if (board.from && board.from[0] === layer) draw(stroke(scene, board.from[1], cellOf(scene, canvas, event, layer))); board.from = null; });
    }
    return figureOf(entry, canvas);
  });
  const choices = scene.blocks.map((name) => {
    const known = scene.palette.find(([block]) => block === name);
    return el('button', { type: 'button', class: 'block', 'aria-pressed': String(name === board.block), disabled: !draw,
      onclick: (event) => { board.block = name; for (const each of event.currentTarget.parentNode.children) each.setAttribute('aria-pressed', String(each === event.currentTarget)); } },
    el('i', { style: known ? { background: known[1] } : {} }), name);
  });
  const whose = scene.everything ? 'all blocks' : 'your own blocks; those of others are not shown to you';
  return el('section', { class: flat ? 'card board flat' : 'card board', 'aria-label': 'Board' },
    el('div', { class: 'panels' },
      el('div', null, el('h3', null, 'Plan'), el('div', { class: 'layers' }, target)),
      el('div', null, el('h3', null, 'Built', el('span', { class: 'sum' }, whose)), el('div', { class: 'layers' }, stands))),
    el('div', { class: 'blocks', role: 'group', 'aria-label': 'block to draw with' }, choices),
    draw ? el('p', { class: 'zero' }, `Press on a cell of what is built, or drag over several, to add a /${scene.verb} command; dashed cells are commands not yet sent.`) : null);
};
