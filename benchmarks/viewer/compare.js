// Two episodes side by side: what differs in what was said, and what that was worth.

const choice = (current, family, change, label) => el('select', { 'aria-label': label, onchange: (event) => change(byId.get(event.target.value)) },
  family.map((each) => el('option', { value: each.id, selected: each === current }, `${when(each) ? `${when(each)} ` : ''}#${siblingsOf(each).indexOf(each) + 1}: ${returns(each)}`)));

const differenceTable = (first, second) => {
  const [one, two] = [sumOfParts(first), sumOfParts(second)];
  const names = [...new Set([...one.keys(), ...two.keys()])];
  const line = (name, a, b, strong) => el('tr', { class: a === b ? 'zero' : null }, el('th', { scope: 'row' }, strong ? el('b', null, name) : name),
    el('td', { class: 'num' }, figure(a), bar(a, strong ? largest : largestPart)), el('td', { class: 'num' }, figure(b), bar(b, strong ? largest : largestPart)),
    el('td', { class: `num ${b > a ? 'good' : b < a ? 'bad' : ''}` }, a === b ? '=' : figure(b - a, true)));
  return el('div', { class: 'card difference' }, el('table', null,
    el('thead', null, el('tr', null, ['paid for', 'left', 'right', 'change'].map((name, n) => el('th', { scope: 'col', class: n ? 'num' : null }, name)))),
    el('tbody', null, line('reward', finite(first.total) || 0, finite(second.total) || 0, true),
      names.map((name) => line(name, one.get(name) || 0, two.get(name) || 0)))));
};

const half = (episode, turn, agent, pieces, words) => {
  const said = turn && turn.said.find(([who]) => who === agent);
  if (!said) return el('div', { class: 'text empty' }, turn ? 'waits' : 'had ended');
  return el('div', { class: 'half' }, el('p', { class: 'size' }, count(said[2], 'word'), pieces.every(([same]) => same) && pieces.length ? ', the same' : '', ' ', el('b', null, figure(turn.rewards[agent], true))),
    prose(texts[said[1]], shownDifferences(pieces, words)), said[4] ? el('p', { class: 'taken' }, 'taken for: ', el('b', null, said[4])) : null);
};

const pairOfTurns = (first, second, n) => {
  const [one, two] = [first.turns[n], second.turns[n]];
  const names = first.agents.length >= second.agents.length ? first.agents : second.agents;
  return el('article', { class: n === state.turn ? 'card turn here' : 'card turn', id: `turn-${n}`, 'aria-label': `turn ${n + 1}` },
    first.turns.length > 1 || second.turns.length > 1 ? el('h3', null, `Turn ${n + 1}`) : null,
    names.map((name, agent) => {
      const found = differences(saidIn(one, agent), saidIn(two, agent));
      return [el('h4', null, dot(agent), el('b', null, name)),
        el('div', { class: 'halves' }, half(first, one, agent, found.a, 'del'), half(second, two, agent, found.b, 'ins'))];
    }),
    el('div', { class: 'halves' }, [one, two].map((turn) => (turn ? el('div', { class: 'half' }, picture(turn, n), turn.reason ? el('p', { class: 'reason' }, turn.reason) : null, verdict(turn), measurements(turn.metrics)) : el('div')))));
};

/** The view of two episodes. */
const compareView = (first, second) => {
  const family = [...new Set([...siblingsOf(first), ...sameTask(first), second, ...siblingsOf(second)])].slice(0, 400);
  if (!family.includes(first)) family.unshift(first);
  if (!family.includes(second)) family.unshift(second);
  const turns = Math.max(first.turns.length, second.turns.length);
  const tools = el('div', { class: 'tools' },
    button('exchange sides', () => compare(second, first)), button('back to the episode', () => open(first), { id: 'back' }));
  return [
    el('header', { class: 'top' }, el('div', null, el('h2', { tabindex: '-1', id: 'heading', dir: 'auto' }, first.task), el('p', { class: 'facts' }, el('span', null, 'two episodes compared'))), el('div', { class: 'worth' }, tools)),
    el('div', { class: 'halves heads' }, el('div', { class: 'half' }, choice(first, family, (to) => compare(to, second), 'episode on the left')),
      el('div', { class: 'half' }, choice(second, family, (to) => compare(first, to), 'episode on the right'))),
    differenceTable(first, second),
    Array.from({ length: turns }, (_, n) => pairOfTurns(first, second, n)),
  ];
};
