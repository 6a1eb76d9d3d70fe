// One episode, turn by turn, the agents side by side.

const head = (episode, extra) => el('header', { class: 'top' },
  el('div', null,
    el('h2', { tabindex: '-1', id: 'heading', dir: 'auto' }, episode.task),
    el('p', { class: 'facts' },
      when(episode) ? el('span', null, episode.step === null ? 'analysis of ' : 'step ', el('b', null, when(episode))) : null,
      el('span', null, episode.env), el('span', { class: episode.stop === 'terminated' ? null : 'bad' }, episode.stop),
      el('span', null, count(episode.turns.length, 'turn')), el('span', null, 'seed ', episode.seed))),
  el('div', { class: 'worth' },
    alike(episode.returns) || episode.total !== 0 ? el('b', null, figure(episode.total)) : null,
    alike(episode.returns) ? null : el('span', { class: 'each' }, episode.returns.map((value, n) => el('span', null, dot(n), episode.agents[n], ' ', el('b', null, figure(value, true))))),
    extra));

/** What each agent earned over all turns, by component. */
const earned = (episode) => {
  const { together, rows: found } = totals(episode);
  if (episode.turns.length < 2 || !found.length || (together && found.length === 1)) return null; // the head says it
  return el('details', { class: 'card sums', open: true }, el('summary', null, el('b', null, 'Earned over all turns')),
    el('table', null,
      el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'component'), together ? el('th', { scope: 'col', class: 'num' }, 'every agent')
        : episode.agents.map((name, n) => el('th', { scope: 'col', class: 'num' }, dot(n), name)))),
      el('tbody', null, found.map(([name, values]) => el('tr', null, el('th', { scope: 'row' }, name),
        values.map((value) => el('td', { class: 'num' }, figure(value), bar(value, largestPart))))))));
};

/** Where to go in an episode of several turns, with what each turn paid. */
const turnBar = (episode) => (episode.turns.length < 2 ? null : el('nav', { class: 'turns', 'aria-label': 'Turns' },
  episode.turns.map((turn, n) => button([el('span', null, String(n + 1)), turn.rewards.some((value) => value !== 0) ? el('b', null, earnings(turn)) : null],
    () => goTo(n), { class: n === state.turn ? 'here' : null, 'aria-current': n === state.turn ? 'step' : null, 'data-turn': String(n) }))));

const column = (episode, turn, number, agent) => {
  const said = turn.said.find(([who]) => who === agent);
  const parts = turn.parts.find(([who]) => who === agent);
  const wanted = state.agent === '' || state.agent === episode.agents[agent] ? state.text.toLowerCase() : '';
  const own = !alike(turn.rewards) || parts;
  return el('section', { class: `column s${1 + (agent % 7)}`, 'aria-label': episode.agents[agent] },
    el('h4', null, dot(agent), el('b', null, episode.agents[agent]),
      episode.team[agent] && episode.team[agent] !== episode.agents[agent] ? el('span', { class: 'policy' }, episode.team[agent]) : null,
      el('span', { class: 'size' }, said ? [count(said[2], 'word'), said[3] ? el('em', null, ' cut at the token limit') : null] : 'waits'),
      own ? el('span', { class: turn.rewards[agent] < 0 ? 'own minus' : 'own' }, figure(turn.rewards[agent], true)) : null),
    shown(turn, agent, number),
    said ? prose(texts[said[1]], wanted ? marked(texts[said[1]], wanted) : null) : null,
    said && said[4] ? el('p', { class: 'taken' }, 'taken for: ', el('b', null, said[4])) : null,
    message(episode, turn, agent),
    turn.legal ? offered(turn, agent) : null,
    parts ? bars(parts[1]) : null);
};

const card = (episode, turn, n) => el('article', { class: n === state.turn && episode.turns.length > 1 ? 'card turn here' : 'card turn', id: `turn-${n}`, 'aria-label': `turn ${n + 1}` },
  episode.turns.length > 1 || turn.shared > 1 ? el('h3', null, `Turn ${n + 1}`, el('span', { class: 'zero' }, ` of ${episode.turns.length}`),
    turn.rewards.some((value) => value !== 0) ? el('span', { class: 'sum' }, `reward ${figure(turn.reward)}`) : null,
    turn.shared > 1 ? el('span', { class: 'pill' }, `shared by ${turn.shared} episodes`) : null) : null,
  el('div', { class: 'columns', style: { '--agents': String(episode.agents.length) } }, episode.agents.map((_, agent) => column(episode, turn, n, agent))),
  picture(turn, n), accounts(turn, episode));

/** The view of one episode. */
const episodeView = (episode) => {
  const asRows = inRows(episode);
  const other = rival(episode);
  const tools = el('div', { class: 'tools' },
    other ? button('compare', () => compare(episode, other), { id: 'compare' }) : null,
    episode.turns.length < 2 ? null : button(asRows ? 'as columns' : 'as rows', () => { state.layout = asRows ? 'columns' : 'rows'; show(); }, { id: 'layout' }),
    button('copy link', copyLink, { id: 'link' }));
  return [head(episode, tools), siblingTable(episode), elsewhere(episode), earned(episode), without(episode), turnBar(episode), replayOf(episode),
    episode.turns.length ? (asRows ? rows(episode) : episode.turns.map((turn, n) => card(episode, turn, n))) : el('p', { class: 'card' }, 'This episode has no turns.')];
};

const copyLink = (event) => {
  const told = event.target;
  const done = () => { told.textContent = 'copied'; };
  if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(done, () => { told.textContent = 'copy it from the address bar'; });
  else told.textContent = 'copy it from the address bar';
};
