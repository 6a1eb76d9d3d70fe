// What one side is told before it chooses: its own team from the simulator, all else from its tracker.
'use strict';

const {toID} = require('./track.js');

const GIMMICKS = [
  ['canMegaEvo', 'mega'], ['canMegaEvoX', 'megax'], ['canMegaEvoY', 'megay'], ['canUltraBurst', 'ultra'],
  ['canTerastallize', 'terastallize'],
];
const SHOWN = {terastallize: 'tera'};
const STATS = ['atk', 'def', 'spa', 'spd', 'spe'];

// The id by which the team's owner knows a move: Hidden Power with its type.
function moveID(pokemon, id) {
  return id === 'hiddenpower' ? id + toID(pokemon.hpType) : id;
}

const called = new WeakMap(); // side -> its sets -> how we call them

// Names of a side's Pokémon in the order of its team; of two of one species the second is called NAME2.
function names(side) {
  let found = called.get(side);
  if (!found) {
    const seen = {};
    called.set(side, found = new Map());
    for (const set of side.team) {
      const name = toID(set.species || set.name);
      seen[name] = (seen[name] || 0) + 1;
      found.set(set, seen[name] > 1 ? name + seen[name] : name);
    }
  }
  return found;
}

function waits(side) {
  const request = side.activeRequest;
  return !request || request.wait || side.isChoiceDone();
}

function kind(battle, side) {
  if (battle.ended) return 'end';
  if (waits(side)) return 'wait';
  if (side.activeRequest.teamPreview) return 'team';
  if (!side.activeRequest.forceSwitch) return 'move';
  return side.slotConditions[0].revivalblessing ? 'revive' : 'switch';
}

// [label, the simulator's choice] of everything the request allows, by label.
function legal(side, state) {
  if (state === 'end' || state === 'wait') return [];
  const named = names(side);
  const found = [];
  if (state === 'team') {
    side.pokemon.forEach((pokemon, n) => found.push([`lead ${named.get(pokemon.set)}`, `team ${n + 1}`]));
    return found.sort(byLabel);
  }
  const active = state === 'move' ? side.activeRequest.active[0] : null;
  if (active) moves(side.active[0], active, found);
  if (!active || !active.trapped) {
    const verb = state === 'revive' ? 'revive' : 'switch';
    side.pokemon.forEach((pokemon, n) => {
      if (n > 0 && pokemon.fainted === (state === 'revive')) found.push([`${verb} ${named.get(pokemon.set)}`, `switch ${n + 1}`]);
    });
    // the one that used Revival Blessing may have fainted itself
    if (state === 'revive' && side.pokemon[0].fainted) found.push([`revive ${named.get(side.pokemon[0].set)}`, 'switch 1']);
  }
  return found.sort(byLabel);
}

function moves(pokemon, active, found) {
  active.moves.forEach((move, n) => {
    const label = `move ${moveID(pokemon, move.id)}`;
    const choice = `move ${n + 1}`;
    if (!move.disabled) {
      found.push([label, choice]);
      for (const [key, word] of GIMMICKS) if (active[key]) found.push([`${label} ${SHOWN[word] || word}`, `${choice} ${word}`]);
    }
    if (active.canZMove && active.canZMove[n]) found.push([`${label} zmove`, `${choice} zmove`]);
    if (active.canDynamax && active.maxMoves && active.maxMoves.maxMoves[n] && !active.maxMoves.maxMoves[n].disabled) {
      found.push([`${label} dynamax`, `${choice} dynamax`]);
    }
  });
}

const byLabel = (a, b) => a[0] < b[0] ? -1 : 1;

function own(side, tracked, gen) {
  const named = names(side);
  const order = new Map(side.team.map((set, n) => [set, n]));
  const team = new Array(side.team.length);
  for (const [position, pokemon] of side.pokemon.entries()) {
    const mon = {
      name: named.get(pokemon.set),
      species: pokemon.species.id,
      level: pokemon.level,
      gender: pokemon.gender === 'N' ? '' : pokemon.gender,
      hp: pokemon.hp,
      max: pokemon.maxhp,
      status: pokemon.fainted ? '' : pokemon.status,
      moves: pokemon.moveSlots.map(slot => [moveID(pokemon, slot.id), slot.pp, slot.maxpp]),
      stats: STATS.map(stat => pokemon.baseStoredStats[stat]),
      slot: position + 1,
    };
    if (gen > 1) mon.item = pokemon.item;
    if (gen > 2) mon.ability = pokemon.ability;
    if (gen > 8) [mon.tera, mon.terastallized] = [pokemon.teraType.toLowerCase(), !!pokemon.terastallized];
    const slept = tracked.slept[pokemon.name];
    if (slept) mon.slept = slept;
    team[order.get(pokemon.set)] = mon;
  }
  return {...seat(tracked), team, active: side.active[0] ? order.get(side.active[0].set) : -1};
}

function foe(tracked) {
  const team = tracked.mons.map(mon => {
    const shown = {...mon, moves: Object.entries(mon.moves)};
    delete shown.before;
    const slept = tracked.slept[mon.name];
    if (slept) shown.slept = slept;
    return shown;
  });
  return {...seat(tracked), team, active: tracked.active, size: tracked.size};
}

function seat(tracked) {
  const {conditions, boosts, volatiles, entered} = tracked;
  return {conditions, boosts, volatiles, entered};
}

// `lines` are what the tracker heard since the last view.
function view(battle, side, tracker, lines) {
  const state = kind(battle, side);
  const {weather, field, sides} = tracker.state;
  const active = state === 'move' ? side.activeRequest.active[0] : null;
  return {
    request: state,
    legal: legal(side, state),
    trapped: active ? active.trapped ? 'yes' : active.maybeTrapped ? 'maybe' : '' : '',
    me: own(side, sides[tracker.me], battle.gen),
    foe: foe(sides[tracker.foe]),
    weather,
    field,
    lines,
  };
}

module.exports = {view, names};
