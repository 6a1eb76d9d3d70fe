// Turns as rows: for episodes of many short moves, battles above all.

const SHORT = 60;

/** Whether an episode reads better as rows than as columns of text. */
const inRows = (episode) => state.layout === 'rows' || (state.layout === '' && (episode.replay || (episode.turns.length >= 4
  && episode.turns.every((turn) => turn.said.every(([, text]) => texts[text].length <= SHORT)))));

const move = (turn, agent) => {
  const said = turn.said.find(([who]) => who === agent);
  if (!said) return el('span', { class: 'zero' }, 'waits');
  const legal = (turn.legal || []).find(([who]) => who === agent);
  const text = texts[said[1]];
  return [el('span', { class: legal ? 'move one' : 'move', dir: 'auto' }, text.trim() ? marked(text, state.text.toLowerCase()) : 'says nothing'),
    said[4] ? el('span', { class: 'taken' }, ` → ${said[4]}`) : null,
    legal ? el('span', { class: 'zero' }, `\u00a0of\u00a0${legal[1].length}`) : null];
};

const standing = (turn, agent) => {
  const found = (turn.field || []).find(([who]) => who === agent);
  return found ? el('span', { class: 'standing' }, el('b', null, found[1]), points(finite(found[2]) || 0)) : null;
};

/** All turns as a table; a turn's row opens to what each agent was shown and offered. */
const rows = (episode) => {
  const pays = episode.turns.some((turn) => turn.rewards.some((value) => value !== 0));
  const story = episode.turns.some((turn) => turn.story !== undefined || turn.reason);
  const width = 1 + episode.agents.length + (story ? 1 : 0) + (pays ? 1 : 0);
  const body = el('tbody');
  episode.turns.forEach((turn, n) => {
    const open = el('tr', { class: 'opened', hidden: true });
    const line = el('tr', { id: `turn-${n}`, class: n === state.turn ? 'turn here' : 'turn' },
      el('th', { scope: 'row' }, button(String(n + 1), () => unfold(episode, turn, n, open, line, width), { 'aria-expanded': 'false', title: 'what they saw' })),
      episode.agents.map((_, agent) => el('td', null, standing(turn, agent), el('div', null, move(turn, agent)))),
      story ? el('td', { class: 'story' }, turn.story === undefined ? turn.reason : texts[turn.story]) : null,
      pays ? el('td', { class: 'num' }, turn.rewards.some((value) => value !== 0) ? earnings(turn) : '') : null);
    body.append(line, open);
  });
  return el('div', { class: 'wide' }, el('table', { class: 'rows' },
    el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'turn'),
      episode.agents.map((name, n) => el('th', { scope: 'col' }, dot(n), name, el('span', { class: 'zero' }, ` ${episode.team[n]}`))),
      story ? el('th', { scope: 'col' }, 'what came of it') : null, pays ? el('th', { scope: 'col', class: 'num' }, 'reward') : null)),
    body));
};

const unfold = (episode, turn, n, open, line, width) => {
  open.hidden = !open.hidden;
  line.querySelector('button').setAttribute('aria-expanded', String(!open.hidden));
  if (open.hidden || open.childNodes.length) return;
  open.append(el('td', { colspan: String(width) }, el('div', { class: 'columns', style: { '--agents': String(episode.agents.length) } },
    episode.agents.map((name, agent) => {
      const found = turn.shown.find(([who]) => who === agent);
      return el('section', { class: 'column' }, el('h4', null, dot(agent), name, ' saw'),
        found ? el('pre', { dir: 'auto' }, texts[found[1]]) : el('p', { class: 'zero' }, 'nothing'), message(episode, turn, agent), offered(turn, agent));
    })), picture(turn, n), accounts(turn, episode)));
};
