// Which episodes are listed, in which order, under which headings.

const state = {
  task: '', agent: '', step: '', low: '', high: '', text: '', payee: '', sort: 'latest', grouping: GROUPING,
  current: null, other: null, turn: 0, layout: '', asked: false, scheme: '',
};

const chosen = () => {
  const low = state.low === '' ? -Infinity : Number(state.low), high = state.high === '' ? Infinity : Number(state.high);
  const task = state.task.toLowerCase(), text = state.text.toLowerCase();
  const bounded = state.low !== '' || state.high !== '';
  return episodes.filter((episode) => {
    if (task && !episode.task.toLowerCase().includes(task)) return false;
    if (state.step && when(episode) !== state.step) return false;
    const value = paid(episode, state.payee);
    if (bounded && (value === null || value < low || value > high)) return false;
    return !text || spoken(episode, state.agent).includes(text);
  });
};

const rank = (episode) => { const value = paid(episode, state.payee); return value === null ? -Infinity : value; };
const range = (group) => {
  const values = group.map(rank).filter(Number.isFinite);
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
};
const spreadOf = (group) => { const [low, high] = range(group); return high - low; };

const newest = (group) => -Math.max(...group.map((episode) => (episode.step === null ? -1 : episode.step)));
const ORDERS = {
  latest: { within: () => 0, alone: (a, b) => newest([a]) - newest([b]), groups: (a, b) => newest(a) - newest(b) },
  first: { within: () => 0, groups: () => 0 },
  high: { within: (a, b) => rank(b) - rank(a), groups: (a, b) => range(b)[1] - range(a)[1] },
  low: { within: (a, b) => rank(a) - rank(b), groups: (a, b) => range(a)[0] - range(b)[0] },
  spread: { within: (a, b) => rank(b) - rank(a), groups: (a, b) => spreadOf(b) - spreadOf(a) },
};
// two that are both -Infinity have no difference
const steady = (order) => (a, b) => { const found = order(a, b); return Number.isNaN(found) ? 0 : found; };

/** The rows of the list: a heading for every group of two or more, then its episodes. */
const listed = () => {
  const list = chosen(), order = ORDERS[state.sort];
  if (state.grouping === 'none') {
    list.sort(steady(order.alone || order.within));
    return list.map((episode) => ({ episode }));
  }
  const groups = [...bundle(list, state.grouping === 'task' ? (e) => JSON.stringify([e.env, e.task]) : (e) => e.group).values()];
  groups.sort(steady(order.groups));
  groups.forEach((group) => group.sort(steady(order.within)));
  return groups.flatMap((group) => [...(group.length > 1 ? [{ group }] : []), ...group.map((episode) => ({ episode, inside: group.length > 1 }))]);
};

const field = (label, control) => el('label', { class: 'field' }, el('span', null, label), control);
const select = (name, options, changed) => el('select', { 'data-filter': name, onchange: (event) => { state[name] = event.target.value; changed(); } },
  options.map(([value, text]) => el('option', { value, selected: state[name] === value }, text)));
const input = (name, attributes, changed) => {
  let waiting = 0;
  return el('input', { ...attributes, 'data-filter': name, value: state[name], oninput: (event) => {
    state[name] = event.target.value;
    clearTimeout(waiting);
    waiting = setTimeout(changed, 120);
  } });
};

/** The form above the list. */
const filterForm = (changed) => {
  const names = [['', 'all agents'], ...agents.map((name) => [name, name])];
  const kinds = [['siblings', 'group siblings'], ['task', 'group by task'], ['none', 'no groups']];
  const orders = [['latest', 'latest step first'], ['first', 'as recorded'], ['high', 'highest reward'], ['low', 'lowest reward'], ['spread', 'widest groups']];
  return el('form', { class: 'filters', role: 'search', 'aria-label': 'Filter episodes', onsubmit: (event) => event.preventDefault() },
    el('div', { class: 'pair' },
      field('text', input('text', { type: 'search', placeholder: 'in what they said', id: 'search' }, changed)),
      field('by', select('agent', names, changed))),
    el('div', { class: 'pair' },
      field('task', input('task', { type: 'search', placeholder: 'any task', list: 'tasks' }, changed)),
      steps.length ? field('step', select('step', [['', 'all steps'], ...steps.map((step) => [step, step])], changed)) : null),
    el('datalist', { id: 'tasks' }, tasks.slice(0, 500).map((task) => el('option', { value: task }))),
    el('div', { class: 'pair' },
      field('reward from', input('low', { type: 'number', step: 'any', placeholder: 'any' }, changed)),
      field('to', input('high', { type: 'number', step: 'any', placeholder: 'any' }, changed)),
      field('of', select('payee', [['', 'team'], ...agents.map((name) => [name, name])], changed))),
    el('div', { class: 'pair' },
      field('sort', select('sort', orders, changed)),
      field('groups', select('grouping', kinds, changed))));
};
