// An episode among its siblings: the same task, the same step, other answers. And the same task at other steps.

const MOST_SIBLINGS = 64, MOST_OTHERS = 12;

/** The episode shown, then a row for every sibling, the best first: what it was paid for what, and where its words leave those of the episode shown. */
const siblingTable = (episode) => {
  const group = siblingsOf(episode);
  if (group.length < 2) return null;
  const others = group.filter((each) => each !== episode).sort(steady((a, b) => rank(b) - rank(a)));
  const kept = [episode, ...others.slice(0, MOST_SIBLINGS - 1)];
  const sums = new Map(kept.map((each) => [each, sumOfParts(each)]));
  const names = [...new Set([...sums.values()].flatMap((parts) => [...parts.keys()]))];
  const telling = names.filter((name) => !alike(kept.map((each) => sums.get(each).get(name) || 0)));
  const [low, high] = range(group);
  return el('details', { class: 'card siblings', open: state.family !== false, ontoggle: (event) => { state.family = event.target.open; } },
    el('summary', null, el('b', null, count(group.length, 'sibling')), ` answered this task together, paid ${figure(low)} to ${figure(high)}`),
    el('div', { class: 'wide' }, el('table', null,
      el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'sibling'), el('th', { scope: 'col', class: 'num' }, 'reward'),
        telling.map((name) => el('th', { scope: 'col', class: 'num' }, name)),
        episode.agents.map((name, n) => el('th', { scope: 'col' }, dot(n), name)), el('th', null, el('span', { class: 'unseen' }, 'compare')))),
      el('tbody', null, kept.map((each) => siblingRow(episode, each, group, telling, sums))))),
    telling.length < names.length ? el('p', { class: 'measured' }, 'paid alike: ', names.filter((name) => !telling.includes(name)).map((name) => `${name} ${figure(sums.get(episode).get(name) || 0)}`).join(', ')) : null,
    group.length > kept.length ? el('p', { class: 'measured' }, `${group.length - kept.length} siblings with lower rewards are not shown here`) : null);
};

const sumOfParts = (episode) => {
  const { rows: found } = totals(episode);
  return new Map(found.map(([name, values]) => [name, values.reduce((sum, value) => sum + value, 0) / values.length]));
};

/** Where an agent first leaves what it says in the episode shown; null where it never does. */
const departure = (episode, each, place) => {
  const turns = Math.max(episode.turns.length, each.turns.length);
  for (let n = 0; n < turns; n += 1) {
    const [ours, theirs] = [saidIn(episode.turns[n], place), saidIn(each.turns[n], place)];
    if (ours !== theirs) {
      const label = turns > 1 ? el('span', { class: 'zero' }, `turn ${n + 1}: `) : '';
      return [label, firstDifference(differences(...around(ours, theirs)).b, 100) || (theirs.trim() ? 'less of the same' : 'says nothing')];
    }
  }
  return null;
};

const siblingRow = (episode, each, group, telling, sums) => {
  const here = each === episode;
  const most = (name) => Math.max(...[...sums.values()].map((parts) => Math.abs(parts.get(name) || 0)), 1e-9);
  const said = episode.agents.map((_, place) => {
    if (here) return el('td', { class: 'said' }, el('div', { dir: 'auto' }, (saidIn(each.turns[0], place) || 'says nothing').slice(0, 110)));
    const found = departure(episode, each, place);
    return el('td', { class: found ? 'said' : 'said zero' }, el('div', { dir: 'auto' }, found || 'the same'));
  });
  return el('tr', { class: here ? 'here' : null, 'aria-current': here ? 'true' : null },
    el('th', { scope: 'row' }, button(`#${group.indexOf(each) + 1}`, () => open(each), { class: 'link' })),
    el('td', { class: 'num' }, el('b', null, returns(each)), bar(rank(each), largest)),
    telling.map((name) => { const value = sums.get(each).get(name) || 0; return el('td', { class: 'num' }, figure(value), bar(value, most(name))); }),
    said, el('td', null, here ? null : button('compare', () => compare(episode, each), { class: 'small' })));
};

/** The same task at other steps, or elsewhere in the file: a pill for every step, which opens its best episode. */
const elsewhere = (episode) => {
  const others = sameTask(episode).filter((each) => each.group !== episode.group);
  if (!others.length) return null;
  const groups = [...bundle(others, (each) => when(each) || each.group).values()];
  groups.sort((a, b) => (a[0].kind === 'eval' ? 0 : 1) - (b[0].kind === 'eval' ? 0 : 1) || a[0].at - b[0].at);
  const pill = (group) => {
    const best = group.reduce((top, each) => (rank(each) > rank(top) ? each : top));
    const [low, high] = range(group).map((value) => figure(value));
    const paidFor = group.length === 1 ? brief(best.returns, best.total) : low === high ? `${group.length} × ${low}` : `${group.length} × ${low} to ${high}`;
    return el('span', { class: 'pill' },
      button([when(best) || `line ${best.line + 1}`, ' ', el('b', null, paidFor)], () => open(best), { class: 'link' }),
      button('compare', () => compare(episode, best), { class: 'small', 'aria-label': `compare with the best of ${when(best) || `line ${best.line + 1}`}` }));
  };
  return el('div', { class: 'others' }, el('span', { class: 'label' }, 'the same task at'), groups.slice(0, MOST_OTHERS).map(pill),
    groups.length > MOST_OTHERS ? el('span', { class: 'zero' }, `and ${groups.length - MOST_OTHERS} more`) : null);
};

/** Whom to compare an episode with unless somebody is named: the best sibling, for the best the worst, else another step. */
const rival = (episode) => {
  const group = siblingsOf(episode).filter((each) => each !== episode).sort(steady((a, b) => rank(b) - rank(a)));
  if (group.length) return rank(group[0]) > rank(episode) ? group[0] : group[group.length - 1];
  return sameTask(episode).find((each) => each !== episode) || null;
};
