// The list of episodes. Only the rows that can be seen are on the page, so that thousands cost nothing.

const HEAD = 44, ROW = 46, BEYOND = 8;

const list = {
  rows: [], tops: [0],
  box: el('div', { class: 'list', role: 'listbox', tabindex: '0', 'aria-label': 'Episodes', id: 'list' }),
  inner: el('div', { class: 'inner', role: 'presentation' }),
  status: el('p', { class: 'counted', role: 'status', id: 'counted' }),
};
list.box.append(list.inner);

/** Read the filters again. */
list.fill = () => {
  list.rows = listed();
  list.tops = [0];
  for (const row of list.rows) list.tops.push(list.tops[list.tops.length - 1] + (row.group ? HEAD : ROW));
  list.order = list.rows.filter((row) => row.episode).map((row) => row.episode);
  list.place = new Map(list.order.map((episode, n) => [episode.id, n]));
  list.inner.style.setProperty('height', `${list.tops[list.tops.length - 1]}px`);
  const shown = list.order.length;
  list.status.textContent = shown === episodes.length ? count(shown, 'episode') : `${shown.toLocaleString('en')} of ${count(episodes.length, 'episode')}`;
  list.draw();
};

/** Put the rows on the page that can be seen. */
list.draw = () => {
  const top = list.box.scrollTop, bottom = top + (list.box.clientHeight || 800);
  let first = list.tops.findIndex((at) => at > top) - 1;
  if (first < 0) first = 0;
  let last = first;
  while (last < list.rows.length && list.tops[last] < bottom) last += 1;
  const nodes = [];
  for (let n = Math.max(0, first - BEYOND); n < Math.min(list.rows.length, last + BEYOND); n += 1) {
    const row = list.rows[n];
    const node = row.group ? groupHead(row.group) : episodeRow(row);
    node.style.setProperty('top', `${list.tops[n]}px`);
    nodes.push(node);
  }
  list.inner.replaceChildren(...nodes);
  const here = state.current && list.place.has(state.current.id) ? `row-${state.current.at}` : null;
  if (here) list.box.setAttribute('aria-activedescendant', here);
  else list.box.removeAttribute('aria-activedescendant');
};

/** Bring the episode that is shown into view. */
list.follow = () => {
  const n = list.rows.findIndex((row) => row.episode === state.current);
  if (n >= 0) {
    const top = list.tops[n], bottom = list.tops[n + 1];
    const head = n > 0 && list.rows[n - 1].group ? HEAD : 0;
    if (top - head < list.box.scrollTop) list.box.scrollTop = top - head;
    else if (bottom > list.box.scrollTop + list.box.clientHeight) list.box.scrollTop = bottom - list.box.clientHeight;
  }
  list.draw();
};

/** The episode `by` places further in the list; the first where the one shown is not listed. */
list.beside = (by) => {
  const at = state.current ? list.place.get(state.current.id) : undefined;
  return list.order[at === undefined ? 0 : Math.max(0, Math.min(list.order.length - 1, at + by))];
};

const [LOW, HIGH] = range(episodes);
const along = (value) => `${HIGH > LOW ? Math.round((200 * (Math.min(HIGH, Math.max(LOW, value)) - LOW)) / (HIGH - LOW)) / 2 : 50}%`;

/** A dot for every reward; those that would hide each other are one. The episodes shown come last, so on top. */
const dots = (group) => {
  const shownOnes = group.filter((episode) => episode === state.current || episode === state.other);
  const places = new Set(group.map((episode) => along(rank(episode))));
  return [...[...places].map((left) => el('i', { style: { left } })),
    ...shownOnes.map((episode) => el('i', { style: { left: along(rank(episode)) }, class: episode === state.current ? 'here' : 'other' }))];
};

const groupHead = (group) => {
  const [low, high] = range(group);
  const span = low === high ? figure(low) : `${figure(low)} to ${figure(high)}`;
  const one = state.grouping === 'siblings' ? when(group[0]) : '';
  return el('div', { class: 'row head', role: 'presentation' },
    el('span', { class: 'name' }, group[0].task),
    el('span', { class: 'more' }, `${one ? `${one} · ` : ''}${group.length} × ${span}`),
    el('span', { class: 'dots', 'aria-hidden': 'true' }, dots(group)));
};

const episodeRow = ({ episode, inside }) => {
  const here = episode === state.current;
  const first = episode.turns.flatMap((turn) => turn.said).find(([, text]) => texts[text].trim() !== '');
  const words = first ? texts[first[1]].slice(0, 120) : 'nobody says anything';
  const about = inside && state.grouping === 'siblings' ? `#${siblingsOf(episode).indexOf(episode) + 1}` : inside ? when(episode) || `#${episode.line + 1}` : [episode.task, when(episode)].filter(Boolean).join(' · ');
  return el('div', {
    class: `row episode${here ? ' here' : ''}${inside ? ' inside' : ''}${episode === state.other ? ' other' : ''}`, role: 'option', id: `row-${episode.at}`,
    'aria-selected': here ? 'true' : 'false', 'data-id': episode.id, onclick: () => open(episode),
    'aria-label': `${episode.task} ${when(episode)}, reward ${returns(episode)}`,
  },
  el('span', { class: 'value' }, state.payee ? figure(rank(episode)) : brief(episode.returns, episode.total), bar(state.payee ? rank(episode) : worth(episode), largest)),
  el('span', { class: 'what' }, el('b', null, about), episode.stop === 'terminated' ? null : el('em', null, episode.stop), el('span', { dir: 'auto' }, words)));
};

list.box.addEventListener('scroll', () => list.draw(), { passive: true });
