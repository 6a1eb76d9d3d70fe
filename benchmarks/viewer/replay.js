// The replay of a battle: both teams at every event, with buttons and a slider.

const teamsAt = (frames, until) => {
  const teams = [[], []];
  frames.slice(0, until + 1).forEach(([, , changes]) => changes.forEach(([side, place, mon]) => { teams[side][place] = mon; }));
  return teams;
};

/** The winner of a battle in words. */
const wonBy = (episode) => {
  const place = episode.agents.indexOf(episode.replay.winner);
  return place < 0 ? 'no winner' : `${episode.agents[place]} ${episode.team[place]} won`;
};

/** A battle that can be played; null where the page holds no replay. */
const replayOf = (episode) => {
  if (!episode.replay || !episode.replay.frames.length) return null;
  const { frames } = episode.replay;
  const last = frames.length - 1;
  const whole = teamsAt(frames, last);
  const stage = [el('div', { class: 'team' }), el('div', { class: 'team' })];
  const now = el('p', { class: 'now', 'aria-live': 'polite' });
  const place = el('input', { type: 'range', min: '0', max: String(last), value: '0', 'aria-label': 'place in the battle', oninput: () => { stop(); at(Number(place.value)); } });
  let current = 0;
  let timer = null;
  const at = (wanted) => {
    current = Math.max(0, Math.min(last, wanted));
    place.value = String(current);
    const teams = teamsAt(frames, current);
    stage.forEach((node, side) => node.replaceChildren(...whole[side].map((mon, n) => (teams[side][n] ? hitPoints(...teams[side][n])
      : el('div', { class: 'mon unknown' }, el('div', null, el('b', null, mon[0]), el('span', { class: 'zero' }, 'unseen')))))));
    now.replaceChildren(el('b', null, frames[current][0] ? `Turn ${frames[current][0]}` : 'Start'), ' ', texts[frames[current][1]]);
  };
  const play = button('play', () => { if (timer) return stop(); if (current === last) at(0); play.textContent = 'pause'; timer = setInterval(forward, 600); });
  const stop = () => { clearInterval(timer); timer = null; play.textContent = 'play'; };
  const forward = () => { if (current === last || !play.isConnected) stop(); else at(current + 1); };
  const turnTo = (step) => {
    let n = current + step;
    while (n > 0 && n < last && frames[n][0] === frames[n - 1][0]) n += step;
    stop();
    at(n);
  };
  at(0);
  return el('section', { class: 'card replay', 'aria-label': 'Replay' },
    el('h3', null, 'Replay', el('span', { class: 'pill' }, wonBy(episode))),
    el('div', { class: 'field' }, stage.map((node, side) => el('div', null, el('h4', null, dot(side), `p${side + 1} `,
      el('span', { class: 'zero' }, episode.team[episode.agents.indexOf(`p${side + 1}`)] || '')), node))),
    now, el('div', { class: 'controls' }, button('« turn', () => turnTo(-1), { title: 'turn before' }), button('back', () => { stop(); at(current - 1); }), play,
      button('next', () => { stop(); at(current + 1); }), button('turn »', () => turnTo(1), { title: 'next turn' }), place));
};
