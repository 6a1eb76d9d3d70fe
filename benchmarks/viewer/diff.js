// Where two texts differ: line by line where they are lines, as programs and plans are, else word by word.

const LONGEST = 1200; // pieces that differ on each side; beyond, the whole stretch counts as different

const inLines = (text) => { const lines = text.trim().split('\n'); return lines.length > 1 && text.length / lines.length < 100; };
const words = (text) => text.match(/^\s+|\S+\s*/g) || [];
const lines = (text) => text.match(/[^\n]*\n|[^\n]+/g) || [];

/** [[whether both have it, text], ...] of `a` and of `b`, by a longest common subsequence of their lines or words. */
const differences = (first, second) => {
  const pieces = inLines(first) && inLines(second) ? lines : words;
  const a = pieces(first), b = pieces(second);
  const bare = [a.map((word) => word.trim()), b.map((word) => word.trim())];
  let head = 0, tail = 0;
  while (head < Math.min(a.length, b.length) && bare[0][head] === bare[1][head]) head += 1;
  while (tail < Math.min(a.length, b.length) - head && bare[0][a.length - 1 - tail] === bare[1][b.length - 1 - tail]) tail += 1;
  const kept = common(bare[0].slice(head, a.length - tail), bare[1].slice(head, b.length - tail));
  const stay = (list, inside) => list.map((_, n) => n < head || n >= list.length - tail || inside.has(n - head));
  return { a: joined(a, stay(a, kept.a)), b: joined(b, stay(b, kept.b)) };
};

const common = (a, b) => {
  const kept = { a: new Set(), b: new Set() };
  if (a.length > LONGEST || b.length > LONGEST) return kept;
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1
        : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { kept.a.add(i); kept.b.add(j); i += 1; j += 1; }
    else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return kept;
};

const joined = (list, same) => {
  const parts = [];
  list.forEach((word, n) => {
    const last = parts[parts.length - 1];
    if (last && last[0] === same[n]) last[1] += word;
    else parts.push([same[n], word]);
  });
  return parts;
};

/** A text marked, but not the white space after it. */
const changed = (kind, text) => { const bare = text.trimEnd(); return [bare ? el(kind, null, bare) : '', text.slice(bare.length)]; };

/** A side of `differences` as strings and marked elements. */
const shownDifferences = (side, kind) => side.flatMap(([same, text]) => (same ? [text] : changed(kind, text)));

/** The stretches of two long texts from shortly before their first difference: a table of siblings compares many. */
const around = (first, second) => {
  let at = 0;
  while (at < first.length && first[at] === second[at]) at += 1;
  const from = first.lastIndexOf(' ', Math.max(0, at - 60)) + 1;
  return [first.slice(from, from + 500), second.slice(from, from + 500)];
};

/** About `length` characters from shortly before the first difference, marked; null where nothing differs. */
const firstDifference = (side, length) => {
  const at = side.findIndex(([same, text]) => !same && text.trim() !== '');
  if (at < 0) return null;
  const before = at > 0 ? side[at - 1][1].trimEnd() : '';
  const parts = before ? [`… ${before.slice(-24)} `] : [];
  let room = length;
  for (const [same, text] of side.slice(at)) {
    if (room <= 0) { parts.push('…'); break; }
    parts.push(...(same ? [text.slice(0, room)] : changed('ins', text.slice(0, room))));
    room -= text.length;
  }
  return parts;
};
