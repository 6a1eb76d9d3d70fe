// Pieces of an episode that several views share.

/** Components with their bars; on one scale over all episodes, so that episodes can be compared by eye. */
const bars = (parts) => el('div', { class: 'bars' }, parts.map(([name, value]) => [
  el('span', { class: value === 0 ? 'zero' : null }, name), bar(value, largestPart), el('span', { class: value === 0 ? 'num zero' : 'num' }, figure(value))]));

/** Measurements that are not paid: those that are 0 stand together at the end. */
const measurements = (pairs) => {
  if (!pairs.length) return null;
  const zero = pairs.filter(([, value]) => value === 0).map(([name]) => name);
  return el('p', { class: 'measured' },
    pairs.filter(([, value]) => value !== 0).map(([name, value]) => [el('span', null, name, ' ', el('b', null, figure(value))), ' ']),
    zero.length ? el('span', { class: 'zero' }, `zero: ${zero.join(', ')}`) : null);
};

/** How many tests passed, as signs; which ones where the programs were run again. */
const verdict = (turn) => {
  const parts = [];
  if (turn.tests) {
    const [passed, total] = turn.tests;
    const said = `${figure(passed)} of ${figure(total)} tests passed`;
    const signs = total <= 24 ? Array.from({ length: total }, (_, n) => el('i', { class: n < passed ? 'pass' : 'fail' }, n < passed ? '✓' : '✗')) : [];
    parts.push(el('p', { class: passed === total ? 'tests pass' : 'tests fail' }, el('span', { class: 'signs', 'aria-hidden': 'true' }, signs), turn.reason.includes(said) ? null : said));
  }
  if (turn.program) {
    const { source, tests, fault, verdict: said, more } = turn.program;
    parts.push(el('details', { class: 'program', open: true }, el('summary', null, `the program as it ran: ${fault || said}`),
      el('pre', null, texts[source]),
      tests.length ? el('table', { class: 'ran' }, tests.map(([test, became, message]) => el('tr', null,
        el('td', { class: became === 'pass' ? 'pass' : 'fail' }, became), el('td', null, el('code', null, test)), el('td', null, message)))) : null,
      more > 0 ? el('p', null, `and ${count(more, 'more test')}`) : null));
  }
  return parts;
};

/** The actions that were offered, the one that was played among them. */
const offered = (turn, agent) => {
  const found = (turn.legal || []).find(([who]) => who === agent);
  if (!found || !found[1].length) return null;
  const said = turn.said.find(([who]) => who === agent);
  const played = said ? said[4] || texts[said[1]].trim() : '';
  return el('ul', { class: 'legal', 'aria-label': 'legal actions' }, found[1].map((action) => el('li', { class: action === played ? 'played' : null }, action)));
};

/** What an agent was shown; open where it is short and no first turn. */
const shown = (turn, agent, number) => {
  const found = turn.shown.find(([who]) => who === agent);
  if (!found || !texts[found[1]].trim()) return null;
  const text = texts[found[1]];
  const preview = text.replace(/\s+/g, ' ').slice(0, 140);
  const short = number > 0 && text.length <= 500;
  return el('details', { class: 'shown', open: short || state.asked },
    el('summary', null, el('span', { class: 'label' }, number ? 'told' : 'asked'), ' ', el('span', { class: 'preview', dir: 'auto' }, preview)),
    prose(text, marked(text, state.agent === '' ? state.text.toLowerCase() : '')));
};

const picture = (turn, number) => (turn.picture && turn.picture.startsWith('data:image/png;base64,')
  ? el('figure', { class: 'picture' }, el('img', { src: turn.picture, alt: `after turn ${number + 1}`, loading: 'lazy' })) : null);

/** The rewards of a turn in short. */
const earnings = (turn) => brief(turn.rewards, turn.reward);

/** What was paid to whom in a turn, why, and what was measured. */
const accounts = (turn, episode) => {
  const common = turn.parts.find(([agent]) => agent === -1);
  return el('div', { class: 'accounts' },
    common ? el('div', { class: 'paid' }, el('p', { class: 'payee' }, 'paid to every agent ', el('b', null, figure(turn.rewards[0]))), bars(common[1])) : null,
    el('div', { class: 'why' },
      common || alike(turn.rewards) || turn.parts.length ? null : el('p', { class: 'payee' }, turn.rewards.map((value, n) => [dot(n), episode.agents[n], ' ', el('b', null, figure(value, true)), ' '])),
      turn.reason ? el('p', { class: 'reason', dir: 'auto' }, turn.reason) : null, verdict(turn), measurements(turn.metrics)));
};

/** Agents by their places. */
const named = (episode, places) => places.map((place, n) => [n ? ' ' : '', el('span', null, dot(place), episode.agents[place], n < places.length - 1 ? ',' : '')]).flat();

/** Who read what an agent said, and which facts it holds that this agent alone has. */
const message = (episode, turn, agent) => {
  const found = (turn.messages || []).find(([who]) => who === agent);
  return found ? el('p', { class: 'message' }, 'read by ', named(episode, found[1]),
    found[2].map((fact) => el('span', { class: 'pill', dir: 'auto' }, el('span', { class: 'zero' }, 'fact'), texts[fact]))) : null;
};

/** What changes where the episode is played again without its messages. */
const without = (episode) => {
  if (!episode.without) return null;
  const most = Math.max(...episode.without.map(([, , value]) => Math.abs(finite(value) || 0)));
  return el('details', { class: 'card sums without', open: true }, el('summary', null, el('b', null, 'Played again without its messages')),
    el('table', null,
      el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'messages'), el('th', { scope: 'col', class: 'num' }, 'change of the return'), el('th', { scope: 'col' }, 'later texts that change'))),
      el('tbody', null, episode.without.map(([name, sender, value, changed]) => el('tr', null,
        el('th', { scope: 'row' }, sender < 0 ? name : ['silenced ', ...named(episode, [sender])]),
        el('td', { class: 'num' }, figure(value, true), bar(value, most)),
        el('td', { class: sender < 0 || changed.length ? null : 'zero' }, sender < 0 ? '' : changed.length ? ['of ', ...named(episode, changed)] : 'none'))))));
};
