// A battle as one side knows it: who is out, both teams, and the actions in groups.

/** The Pokémon that is out, with its hit points in large. */
const outNow = (side, title, place) => {
  const mon = side.mons.find(([, , , active]) => active);
  return el('div', { class: 'out' }, el('h4', null, dot(place), title),
    mon ? hitPoints(...mon) : el('p', { class: 'zero' }, 'nobody is out'),
    side.conditions.length ? el('p', { class: 'conditions' }, side.conditions.join(', ')) : null);
};

const bench = (side, unseen) => el('div', { class: 'team' },
  side.mons.filter(([, , , active]) => !active).map((mon) => hitPoints(...mon)),
  Array.from({ length: unseen }, () => el('div', { class: 'mon unknown' }, el('div', null, el('b', null, 'unseen')))));

const battleScene = (scene, state) => {
  const own = state.place;
  const other = state.team.findIndex((_, n) => n !== own);
  return el('section', { class: 'card battle', 'aria-label': 'Battle' },
    el('h3', null, scene.turn ? `Turn ${scene.turn}` : 'Before the first turn', scene.field.length ? el('span', { class: 'pill' }, scene.field.join(', ')) : null),
    el('div', { class: 'sides' },
      el('div', null, outNow(scene.sides[0], `you, ${state.team[own][0]}`, own), bench(scene.sides[0], 0)),
      el('div', null, outNow(scene.sides[1], `opponent, ${state.team[other][0]}`, other), bench(scene.sides[1], scene.unseen))));
};

const GROUPS = [['Moves', /^move /], ['Pokémon', /^(switch|lead|revive) /]];

/** [[heading, actions], ...]; one group without a heading where no group fits. */
const grouped = (actions) => {
  const groups = GROUPS.map(([heading, form]) => [heading, actions.filter(([action]) => form.test(action))]);
  const rest = actions.filter(([action]) => !GROUPS.some(([, form]) => form.test(action)));
  return [...groups, [groups.some(([, found]) => found.length) ? 'Others' : '', rest]].filter(([, found]) => found.length);
};
