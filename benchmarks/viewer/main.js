// The page as a whole: address, keys, colours.

const KEYS = [
  ['j  k', 'next, previous episode'], ['→  ←', 'next, previous turn'], [']  [', 'next, previous sibling'],
  ['c', 'compare with a sibling, and back'], ['o', 'open or close what they were asked'], ['v', 'turns as rows or as columns'],
  ['/', 'search in what they said'], ['t', 'light or dark'], ['?', 'these keys'], ['Esc', 'close, leave a field'],
];

const view = el('main', { id: 'view', tabindex: '-1' });
const help = el('dialog', { id: 'help', 'aria-label': 'Keys' }, el('h2', null, 'Keys'),
  el('dl', null, KEYS.map(([key, act]) => [el('dt', null, key.split('  ').map((each) => el('kbd', null, each))), el('dd', null, act)])), el('form', { method: 'dialog' }, el('button', null, 'close')));

const address = () => {
  if (!state.current) return '';
  const two = state.other ? `~${state.other.id}` : '';
  return `#${state.current.id}${two}${state.turn ? `/t${state.turn + 1}` : ''}`;
};

/** Draw what the state says, and say it in the address. */
const show = (keepPlace) => {
  const { current, other } = state;
  view.replaceChildren(...[current ? (other ? compareView(current, other) : episodeView(current)) : empty()].flat(3).filter(Boolean));
  if (!keepPlace) view.scrollTop = 0;
  document.title = current ? `${current.task} ${when(current)} · ${data.title}` : `${data.title} · Palaver episodes`;
  if (location.hash !== address()) history.replaceState(null, '', address() || location.pathname);
  list.follow();
};

const empty = () => el('p', { class: 'card' }, episodes.length ? 'No episode fits the filters.' : 'There are no episodes here yet.');

const open = (episode) => {
  if (!episode) return;
  Object.assign(state, { current: episode, other: null, turn: 0 });
  document.body.classList.add('reading');
  show();
  if (side.offsetParent === null) document.getElementById('heading').focus(); // on a narrow screen the list has gone
};
const compare = (first, second) => { Object.assign(state, { current: first, other: second, turn: 0 }); show(); };

const goTo = (n) => {
  const turns = Math.max(state.current.turns.length, state.other ? state.other.turns.length : 0);
  state.turn = Math.max(0, Math.min(turns - 1, n));
  for (const node of view.querySelectorAll('.here[id^="turn-"], nav.turns .here')) { node.classList.remove('here'); node.removeAttribute('aria-current'); }
  const there = document.getElementById(`turn-${state.turn}`), chip = view.querySelector(`nav.turns [data-turn="${state.turn}"]`);
  if (there) { there.classList.add('here'); there.scrollIntoView({ block: 'nearest' }); }
  if (chip) { chip.classList.add('here'); chip.setAttribute('aria-current', 'step'); }
  history.replaceState(null, '', address());
};

/** Go where the address says; false where it names no episode. */
const follow = () => {
  const found = /^#([^~/]+)(?:~([^/]+))?(?:\/t(\d+))?$/.exec(location.hash);
  const episode = found && byId.get(found[1]);
  if (!episode) return false;
  Object.assign(state, { current: episode, other: (found[2] && byId.get(found[2])) || null, turn: 0 });
  document.body.classList.add('reading');
  show();
  if (found[3]) goTo(Number(found[3]) - 1);
  return true;
};

const scheme = () => {
  const dark = state.scheme ? state.scheme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  state.scheme = dark ? 'light' : 'dark';
  document.documentElement.style.setProperty('color-scheme', state.scheme);
};

const sibling = (by) => {
  const group = siblingsOf(state.current);
  open(group[(group.indexOf(state.current) + by + group.length) % group.length]);
};

const ACTS = {
  j: () => open(list.beside(1)), k: () => open(list.beside(-1)),
  ArrowRight: () => goTo(state.turn + 1), ArrowLeft: () => goTo(state.turn - 1),
  ']': () => sibling(1), '[': () => sibling(-1),
  c: () => { const other = rival(state.current); if (state.other) open(state.current); else if (other) compare(state.current, other); },
  o: () => { state.asked = !state.asked; show(true); },
  v: () => { state.layout = inRows(state.current) ? 'columns' : 'rows'; show(true); },
};
const ALWAYS = { '/': () => document.getElementById('search').focus(), t: scheme, '?': () => help.showModal() };

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const inside = event.target.closest('input, select, textarea');
  if (inside) { if (event.key === 'Escape') inside.blur(); return; }
  if (event.key === 'Escape' && state.other) { open(state.current); return; }
  const act = Object.hasOwn(ALWAYS, event.key) ? ALWAYS[event.key] : state.current && Object.hasOwn(ACTS, event.key) ? ACTS[event.key] : null;
  if (!act) return;
  event.preventDefault();
  act();
});
list.box.addEventListener('keydown', (event) => {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
  event.preventDefault();
  open(list.beside(event.key === 'ArrowDown' ? 1 : -1));
});
window.addEventListener('hashchange', follow);
window.addEventListener('resize', () => list.draw());

const refilter = () => {
  list.fill();
  if (!state.current || !list.place.has(state.current.id)) { Object.assign(state, { current: list.order[0] || null, other: null, turn: 0 }); }
  show(true);
  list.box.scrollTop = 0; // what the new order puts first
  list.draw();
};

const side = el('aside', { 'aria-label': 'Episodes' },
  el('header', null, el('h1', { title: data.source }, data.title), el('div', { class: 'tools' }, button('◐', scheme, { 'aria-label': 'light or dark' }), button('?', () => help.showModal(), { 'aria-label': 'keys', id: 'keys' }))),
  data.notes.length ? el('details', { class: 'notes' }, el('summary', null, count(data.notes.length, 'note')), data.notes.map((note) => el('p', null, note))) : null,
  filterForm(refilter), list.status, list.box);
const back = button('☰ episodes', () => document.body.classList.remove('reading'), { class: 'menu' });
document.getElementById('app').append(side, back, view, help);
list.fill();
if (!follow()) { state.current = list.order[0] || null; show(); }
