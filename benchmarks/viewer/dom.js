// Elements from data. Text is always set as text: nothing on this page is ever parsed as HTML.

/** An element: `on*` are listeners, `style` maps properties to values, false and null attributes are left out. */
const el = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, to] of Object.entries(value)) node.style.setProperty(key, to);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
};

/** A number for people; what is not finite comes as its name. */
const figure = (value, sign) => {
  if (typeof value !== 'number') return String(value);
  const size = Math.abs(value) < 1e-9 ? 0 : Math.abs(value); // less is what adding up leaves over
  const text = size === 0 || size >= 0.001 ? size.toFixed(size >= 100 ? 0 : size < 0.1 ? 3 : 2) : size.toPrecision(2);
  const short = Number.isInteger(Number(text)) ? String(Number(text)) : text;
  return (size && value < 0 ? '−' : sign && size ? '+' : '') + short;
};

const finite = (value) => (typeof value === 'number' ? value : null);
const count = (number, thing) => `${number.toLocaleString('en')} ${thing}${number === 1 ? '' : 's'}`;

/** A bar of a value on a scale from 0 to `most`. */
const bar = (value, most) => {
  const share = Math.min(100, (100 * Math.abs(finite(value) || 0)) / (most || 1));
  return el('span', { class: 'track', 'aria-hidden': 'true' },
    el('span', { class: value < 0 ? 'fill minus' : 'fill', style: { width: `${share}%` } }));
};

const button = (label, act, attributes) => el('button', { type: 'button', onclick: act, ...attributes }, label);

/** The dot that stands for an agent everywhere on the page. */
const dot = (place) => el('span', { class: `dot s${1 + (place % 7)}`, 'aria-hidden': 'true' });

/** Whether a text reads like a program: it is set in a fixed pitch. */
const isCode = (text) => /^(```|def |class |import |from \S+ import |    \S)/m.test(text);

/** A text with the words that are searched for marked. */
const marked = (text, wanted) => {
  if (!wanted) return [text];
  const low = text.toLowerCase();
  const parts = [];
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0 && parts.length < 400; at = low.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), el('mark', null, text.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
};

const LONG = 1600;

/** What somebody said or was shown; a long one can be opened. `pieces` are strings and elements. */
const prose = (text, pieces) => {
  const said = text.trim() !== '';
  const kind = said ? (isCode(text) ? 'text code' : 'text') : 'text empty';
  const node = el('div', { class: text.length > LONG ? `${kind} clamped` : kind, dir: 'auto' }, said ? pieces || text : 'says nothing');
  if (text.length <= LONG) return node;
  const more = button(`show all ${text.length.toLocaleString('en')} characters`, () => {
    node.classList.remove('clamped');
    more.remove();
  }, { class: 'unclamp' });
  return [node, more];
};
