// What the page holds, and the questions that are asked of it.

const data = JSON.parse(document.getElementById('data').textContent);
const { texts, episodes } = data;
episodes.forEach((episode, at) => { episode.at = at; });
const byId = new Map(episodes.map((episode) => [episode.id, episode]));
const agents = [...new Set(episodes.flatMap((episode) => episode.agents))];
const tasks = [...new Set(episodes.map((episode) => episode.task))];
const when = (episode) => (episode.step === null ? episode.kind : `${episode.kind} ${episode.step}`);
const steps = [...new Set(episodes.map(when))].filter(Boolean);

/** The return of an agent by its name, of the team for ''; null where there is none. */
const paid = (episode, name) => {
  if (!name) return finite(episode.total);
  const place = episode.agents.indexOf(name);
  return place < 0 ? null : finite(episode.returns[place]);
};

const alike = (values) => values.every((value) => value === values[0]);

/** The return in words: one number where all are paid alike, else one for every agent. */
const returns = (episode) => (alike(episode.returns) ? figure(episode.total) : episode.returns.map((each) => figure(each, true)).join(' / '));

/** The return in short: of a contest of two both, else the team's. */
const brief = (numbers, total) => (alike(numbers) || total !== 0 || numbers.length > 2 ? figure(total) : numbers.map((each) => figure(each, true)).join(' / '));

/** What a bar shows of an episode: the team's return; of a contest, whose returns cancel out, the first agent's. */
const worth = (episode) => (!alike(episode.returns) && finite(episode.total) === 0 ? finite(episode.returns[0]) : finite(episode.total));

/** All that an agent said in an episode, or all agents for '', in lower case. */
const heard = new Map();
const spoken = (episode, name) => {
  const key = `${episode.at}/${name}`;
  if (!heard.has(key)) heard.set(key, joinedTexts(episode, name));
  return heard.get(key);
};
const joinedTexts = (episode, name) => {
  const place = name ? episode.agents.indexOf(name) : -1;
  return episode.turns.flatMap((turn) => turn.said.filter(([agent]) => !name || agent === place).map(([, text]) => texts[text])).join('\n').toLowerCase();
};

const bundle = (list, key) => {
  const found = new Map();
  for (const each of list) {
    const name = key(each);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(each);
  }
  return found;
};

const siblings = bundle(episodes, (episode) => episode.group);
const byTask = bundle(episodes, (episode) => JSON.stringify([episode.env, episode.task]));
const siblingsOf = (episode) => siblings.get(episode.group);
const sameTask = (episode) => byTask.get(JSON.stringify([episode.env, episode.task]));
const someHave = (groups) => [...groups.values()].some((group) => group.length > 1);
const GROUPING = someHave(siblings) ? 'siblings' : someHave(byTask) ? 'task' : 'none';

const largest = episodes.reduce((most, episode) => Math.max(most, Math.abs(worth(episode) || 0)), 1e-9);
const largestPart = episodes.reduce((most, episode) => episode.turns.reduce((inner, turn) => turn.parts.reduce(
  (each, [, parts]) => parts.reduce((top, [, value]) => Math.max(top, Math.abs(finite(value) || 0)), each), inner), most), 1e-9);

/** [[component, value of each agent or of all], ...] summed over the turns; one column where all are paid alike. */
const totals = (episode) => {
  const rows = new Map();
  const together = episode.turns.every((turn) => turn.parts.every(([agent]) => agent === -1));
  const width = together ? 1 : episode.agents.length;
  for (const turn of episode.turns) {
    for (const [agent, parts] of turn.parts) {
      for (const [name, value] of parts) {
        if (!rows.has(name)) rows.set(name, Array(width).fill(0));
        const row = rows.get(name);
        const places = together ? [0] : agent === -1 ? row.map((_, n) => n) : [agent];
        for (const place of places) row[place] = Math.round(1e6 * (row[place] + (finite(value) || 0))) / 1e6; // 2, not 1.9999999
      }
    }
  }
  return { together, rows: [...rows] };
};

/** What an agent said in a turn; '' where it waited, or there is no such turn. */
const saidIn = (turn, place) => { const said = turn && turn.said.find(([agent]) => agent === place); return said ? texts[said[1]] : ''; };
