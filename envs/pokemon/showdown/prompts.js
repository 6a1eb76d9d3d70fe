// What a side reads: everything it may know, and its numbered actions.
'use strict';

const {told} = require('./events.js');

const ASKED = {
  move: 'Choose a move or a switch.',
  switch: 'Choose who comes in.',
  revive: 'Choose who is revived.',
  team: 'Team preview: choose who leads.',
};
const ANSWER = 'Answer with one action, as listed or by its number.';
const STATS = ['atk', 'def', 'spa', 'spd', 'spe'];

const byId = (a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
const sorted = held => Object.entries(held).sort(byId);

// The types of a Pokémon as it stands; `seat` where it is the active one, whose volatiles may change them.
// The same as `types` of facts.py, which heuristics use.
function types(dex, mon, seat) {
  if (mon.terastallized && mon.tera && mon.tera !== 'stellar') return [mon.tera];
  let name = mon.species;
  let more = [];
  if (seat) {
    const held = seat.volatiles;
    for (const id of ['transform', 'formechange']) if (held[id] && held[id].length > 1) name = held[id][1];
    if (held.typeadd && held.typeadd.length > 1) more = [held.typeadd[1]];
    if (held.typechange && held.typechange.length > 1) return [...held.typechange[1].split('/').filter(Boolean), ...more];
  }
  const found = dex.species[name];
  return found ? more.length ? [...found.types, ...more] : found.types : more;
}

// The type a move has: Hidden Power's by its name, Tera Blast's of one that has terastallized.
function moveType(dex, id, mon) {
  if (id.startsWith('hiddenpower') && id.length > 11) return id.slice(11).replace(/[0-9]+$/, '');
  if (id === 'terablast' && mon && mon.terastallized && mon.tera) return mon.tera;
  const found = dex.moves[id];
  return found ? found.type : '';
}

function about(dex, id, kind, against, left) {
  const move = dex.moves[id] || id.startsWith('hiddenpower') && dex.moves.hiddenpower;
  if (!move) return '';
  const accuracy = move.accuracy === null ? 'always hits' : `accuracy ${move.accuracy}`;
  let power = 'status';
  if (move.category !== 'status') {
    let effect = 1;
    const row = dex.chart[kind];
    if (row) for (const each of against) if (each in row) effect *= row[each];
    power = `${move.category}, power ${move.varies || !move.power ? 'varying' : move.power}, x${effect} on them`;
  }
  return ` (${kind}, ${power}, ${accuracy}${left ? `, PP ${left}` : ''})`;
}

function actions(dex, view) {
  const {me, foe} = view;
  const mine = me.active >= 0 ? me.team[me.active] : null;
  const against = foe.active >= 0 ? types(dex, foe.team[foe.active], foe) : [];
  let text = '';
  let n = 0;
  for (const [label] of view.legal) {
    text += `\n${++n}. ${label}`;
    if (!label.startsWith('move ')) continue;
    const name = label.split(' ', 2)[1];
    const slot = mine && mine.moves.find(move => move[0] === name);
    text += about(dex, name, moveType(dex, name, mine), against, slot ? `${slot[1]}/${slot[2]}` : '');
  }
  return text;
}

function fields(field) {
  return sorted(field).map(([id, turn]) => `${id} since turn ${turn}`).join(', ') || 'none';
}

function conditions(held) {
  return sorted(held).map(([id, [n, turn]]) => `${id}${n > 1 ? ` x${n}` : ''} (turn ${turn})`).join(', ') || 'none';
}

// What only the active one has.
function onField(seat) {
  let text = '; ACTIVE';
  const boosts = sorted(seat.boosts);
  if (boosts.length) text += `; boosts ${boosts.map(([stat, stage]) => `${stat} ${stage < 0 ? '' : '+'}${stage}`).join(' ')}`;
  const volatiles = sorted(seat.volatiles);
  if (volatiles.length) text += `; ${volatiles.map(([id, held]) => held.length > 1 ? `${id} ${held[1]}` : id).join(', ')}`;
  return text;
}

const level = mon => (mon.level === 100 ? '' : ` L${mon.level}`) + (mon.gender ? ` ${mon.gender}` : '');
const status = mon => mon.status ? ` ${mon.status}${mon.slept ? ` (${mon.slept} turns)` : ''}` : '';

function own(dex, mon, seat) {
  let text = `\n- ${mon.name}${mon.species === mon.name ? '' : ` [${mon.species}]`} ${types(dex, mon, seat).join('/')}${level(mon)}`;
  if (!mon.hp) return `${text}; fainted`;
  text += `; ${mon.hp}/${mon.max}${status(mon)}${seat ? onField(seat) : ''}; `;
  for (let n = 0; n < mon.moves.length; n++) {
    const [id, pp, most] = mon.moves[n];
    text += `${n ? ', ' : ''}${id} ${pp}/${most}`;
  }
  text += ';';
  for (let n = 0; n < STATS.length; n++) text += ` ${STATS[n]} ${mon.stats[n]}`;
  if (mon.item !== undefined) text += `; item ${mon.item || 'none'}`;
  if (mon.ability !== undefined) text += `; ability ${mon.ability}`;
  if (mon.tera !== undefined) text += `; tera ${mon.tera}${mon.terastallized ? ' (now)' : ''}`;
  return text;
}

function seen(dex, mon, seat) {
  let text = `\n- ${mon.species} ${types(dex, mon, seat).join('/')}${level(mon)}`;
  if (!mon.hp) return `${text}; fainted`;
  text += `; ${mon.max === 100 ? `${mon.hp}%` : `${mon.hp}/${mon.max}`}${status(mon)}${seat ? onField(seat) : ''}`;
  if (!mon.seen) text += '; not seen yet';
  if (mon.moves.length) text += `; used ${[...mon.moves].sort(byId).map(([id, uses]) => `${id} x${uses}`).join(', ')}`;
  if (mon.item) text += `; item ${mon.item}`;
  else if (mon.item !== null) text += mon.gone ? `; no item, ${mon.gone} is gone` : '; no item';
  if (mon.ability) text += `; ability ${mon.ability}`;
  if (mon.tera) text += `; tera ${mon.tera}${mon.terastallized ? ' (now)' : ''}`;
  return text;
}

// The whole text for a side that may act. `about` holds format, turn, the lines it has not read, and why its last
// choice was refused, if it was.
function observation(dex, me, view, {format, turn, lines, refused}) {
  const {me: mine, foe, weather} = view;
  let text = `${format}. You are ${me}. Turn ${turn}.\n` +
    `Weather: ${weather ? `${weather[0]} since turn ${weather[1]}` : 'none'}. Field: ${fields(view.field)}.\n` +
    `Your side: ${conditions(mine.conditions)}. Their side: ${conditions(foe.conditions)}.\nYour team:`;
  for (let n = 0; n < mine.team.length; n++) text += own(dex, mine.team[n], n === mine.active ? mine : null);
  text += '\nTheir team:';
  for (let n = 0; n < foe.team.length; n++) text += seen(dex, foe.team[n], n === foe.active ? foe : null);
  if (foe.size > foe.team.length) text += `\n- ${foe.size - foe.team.length} not seen yet`;
  const happened = told(lines, me);
  if (happened) text += `\nWhat happened:\n${happened}`;
  if (refused) text += `\nYour last choice was refused: ${refused}`;
  if (view.trapped === 'maybe') text += '\nYou may be trapped: a switch may be refused, and you choose again.';
  return `${text}\n${ASKED[view.request]} ${ANSWER}${actions(dex, view)}`;
}

// The text for a side that must wait; `lines` are what happened since it last heard.
function waiting(me, turn, lines) {
  const happened = told(lines, me);
  return `You are ${me}. Turn ${turn}. Your opponent chooses, you wait.${happened ? `\n${happened}` : ''}`;
}

// The last text.
function ended(me, turn, winner, lines) {
  const how = !winner ? 'It is a tie.' : winner === me ? 'You won.' : 'You lost.';
  const happened = told(lines, me);
  return `You are ${me}. The battle is over after turn ${turn}. ${how}${happened ? `\n${happened}` : ''}`;
}

// One side's texts through a battle: events that it was not fully told while it waited are told again when it may act.
class Reader {
  constructor(dex, format, me, unread) {
    this.dex = dex;
    this.format = format;
    this.me = me;
    this.unread = unread || [];
  }

  read(view, turn, winner, refused) {
    const lines = this.unread.length ? this.unread.concat(view.lines) : view.lines;
    if (view.request === 'end') return ended(this.me, turn, winner, lines);
    if (!view.legal.length) {
      this.unread = lines;
      return waiting(this.me, turn, view.lines);
    }
    this.unread = [];
    return observation(this.dex, this.me, view, {format: this.format, turn, lines, refused});
  }
}

module.exports = {Reader, observation, waiting, ended};
