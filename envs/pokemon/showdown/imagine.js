// Worlds that one side must hold for possible: its battle with everything that is hidden from it drawn anew.
//
// The opponent's Pokémon are built afresh from what the side's tracker knows and guessed sets. Of the real ones nothing is
// taken over but what the protocol told both sides; counters that nobody is told (sleep, confusion, Wrap) are thrown
// again, for the own Pokémon too. A choice that the opponent has already made is forgotten, the dice are others.
'use strict';

const {playOn, stands} = require('./rollout.js');
const {Tracker} = require('./track.js');

// Effects of the opponent's active Pokémon that the protocol announces, or that follow from what it announces.
const SEEN = new Set([
  'aquaring', 'attract', 'bide', 'brnattackdrop', 'charge', 'confusion', 'curse', 'defensecurl', 'destinybond', 'disable',
  'dynamax', 'electrify', 'embargo', 'encore', 'fakepartiallytrapped', 'flashfire', 'focusenergy', 'foresight',
  'furycutter', 'gastroacid', 'glaiverush', 'grudge', 'healblock', 'iceball', 'imprison', 'ingrain', 'invulnerability',
  'laserfocus', 'leechseed', 'lightscreen', 'lockedmove', 'lockon', 'magnetrise', 'minimize', 'miracleeye', 'mist',
  'mustrecharge', 'nightmare', 'noretreat', 'octolock', 'parspeeddrop', 'partiallytrapped', 'partialtrappinglock',
  'perishsong', 'powertrick', 'protosynthesis', 'quarkdrive', 'rage', 'reflect', 'residualdmg', 'rollout', 'saltcure',
  'slowstart', 'smackdown', 'stall', 'stockpile', 'substitute', 'syrupbomb', 'tarshot', 'taunt', 'telekinesis', 'torment',
  'trapped', 'truant', 'twoturnmove', 'uproar', 'yawn',
]);
// Plain values of the opponent's active Pokémon that every onlooker can count.
const COUNTED = [
  'activeTurns', 'activeMoveActions', 'newlySwitched', 'moveThisTurn', 'moveLastTurnResult', 'moveThisTurnResult', 'isActive',
  'isStarted', 'lastMove', 'lastMoveUsed', 'previouslySwitchedIn', 'switchFlag', 'forceSwitchFlag', 'timesAttacked',
  'skipBeforeSwitchOutEventFlag', 'truantTurn', 'beingCalledBack', 'draggedIn',
];
const CHOSEN = new Set(['move', 'beforeTurnMove', 'megaEvo', 'terastallize', 'runDynamax', 'priorityChargeMove']);
const DRAWN = new Set(['disable', 'encore', 'partiallytrapped', 'taunt', 'uproar']); // how long is drawn in some generations
const SCREENS = ['reflect', 'lightscreen', 'auroraveil'];

// Less than what was drawn by what has passed, drawn again while nothing would be left.
function rest(draw, passed) {
  for (let n = 0; n < 12; n++) {
    const left = draw() - passed;
    if (left > 0) return left;
  }
  return 1;
}

// Counters that are shown to nobody.
function rethrow(battle, pokemon, seat, slept) {
  const {prng, gen, turn} = battle;
  if (pokemon.status === 'slp' && pokemon.statusState.source !== pokemon) {
    const [low, high] = gen === 1 ? [1, 8] : gen === 2 ? [2, 8] : gen < 5 ? [2, 6] : [2, 5];
    pokemon.statusState.time = rest(() => prng.random(low, high), slept);
    pokemon.statusState.startTime = pokemon.statusState.time + slept;
  }
  for (const [id, state] of Object.entries(pokemon.volatiles)) {
    const since = seat.volatiles[id] ? Math.max(0, turn - seat.volatiles[id][0]) : 0;
    if (id === 'confusion') state.time = rest(() => prng.random(2, 6), since);
    else if (id === 'lockedmove') state[gen === 1 ? 'time' : 'trueDuration'] = prng.random(1, 3);
    else if (id === 'bide' && state.time) state.time = prng.random(1, 3);
    else if (id === 'partialtrappinglock') {
      const passed = state.totalDuration - state.duration;
      state.duration = rest(() => prng.sample([2, 2, 2, 3, 3, 3, 4, 5]), passed);
      state.totalDuration = state.duration + passed;
    } else if (DRAWN.has(id) && state.duration && gen > 1) {
      const effect = battle.dex.conditions.get(id);
      if (effect.durationCallback) state.duration = rest(() => effect.durationCallback.call(battle, pokemon, pokemon, effect), since);
    }
  }
}

module.exports = ({sim, Game, battles, game}) => {
  const twin = require('./twin.js')(sim);
  const {Drawer} = require('./roles.js')(sim);
  const guesser = require('./guess.js')(sim, Drawer);

  // A Pokémon of the opponent as it may be, put into the state that it is known to be in.
  function build(battle, side, mon, set) {
    const made = new sim.Pokemon(set, side);
    if (mon.seen === undefined) return made;
    made.hp = mon.hp > 0 ? Math.max(1, Math.round(made.maxhp * mon.hp / mon.max)) : 0;
    for (const [id, uses] of Object.entries(mon.moves)) {
      const slot = made.baseMoveSlots.find(each => each.id === id);
      if (slot) slot.pp = Math.max(0, slot.pp - uses);
    }
    if (mon.gone) made.lastItem = mon.gone;
    if (!made.hp) Object.assign(made, {fainted: true, status: ''});
    if (mon.seen) made.previouslySwitchedIn = 1;
    if (mon.terastallized) {
      made.terastallized = made.teraType;
      [made.apparentType, made.knownType] = [made.teraType, true];
    }
    return made;
  }

  function afflict(battle, made, mon, real) {
    if (!mon.status || !made.hp) return;
    const state = real && real.status === mon.status ? real.statusState : {};
    made.status = mon.status;
    made.statusState = battle.initEffectState({id: mon.status, target: made});
    for (const key of ['source', 'stage', 'duration']) if (state[key] !== undefined) made.statusState[key] = state[key];
    if (state.source === real && real) [made.statusState.time, made.statusState.startTime] = [state.time, state.startTime];
  }

  // What both sides saw happen to the one on the field.
  function dress(battle, made, real, seat, mine) {
    for (const key of COUNTED) if (real[key] !== undefined) made[key] = real[key];
    const {transform, typechange, typeadd, formechange} = seat.volatiles;
    if (transform && mine && made.hp) {
      const copied = [...mine.side.pokemon].find(each => each.species.id === transform[1]);
      if (copied) made.transformInto(copied);
    } else if (formechange && made.hp && battle.gen > 2) {
      const forme = battle.dex.species.get(formechange[1]);
      if (forme.exists) made.setSpecies(forme);
    }
    for (const stat in made.boosts) made.boosts[stat] = seat.boosts[stat] || 0;
    if (typechange) made.setType(typechange[1].split('/').map(type => battle.dex.types.get(type).name), true);
    if (typeadd) made.addedType = battle.dex.types.get(typeadd[1]).name;
    for (const [id, state] of Object.entries(real.volatiles)) {
      if (!SEEN.has(id)) continue;
      made.volatiles[id] = {...state, target: made};
      if (id === 'substitute') made.volatiles[id].hp = Math.floor(made.maxhp / 4);
    }
    if (made.volatiles.dynamax) [made.hp, made.maxhp] = [made.hp * 2, made.maxhp * 2];
    if (made.modifiedStats) { // generation 1 keeps boosted stats, with its slips, by themselves
      for (const stat in made.storedStats) {
        made.modifiedStats[stat] = Math.max(1, Math.round(made.storedStats[stat] * real.modifiedStats[stat] / real.storedStats[stat]));
      }
    }
  }

  // Screens, weather and terrain that the opponent made may last longer by an item: as short as is still possible.
  function shorten(battle, foe, tracker) {
    const {weather, field, sides} = tracker.state;
    const cut = (state, began) => {
      if (!state || !state.duration || !state.source || state.source.side !== foe) return;
      const passed = battle.turn - began;
      state.duration = Math.max(1, passed < 5 ? 5 - passed : 8 - passed);
    };
    for (const id of SCREENS) {
      const held = sides[foe.id].conditions[id];
      if (held) cut(foe.sideConditions[id], held[1]);
    }
    if (weather) cut(battle.field.weatherState, weather[1]);
    if (battle.field.terrain && field[battle.field.terrain] !== undefined) cut(battle.field.terrainState, field[battle.field.terrain]);
  }

  // The whole team: those that were seen, and others for those that were not; `instead` maps the real ones to them.
  function team(battle, foe, tracker, mine) {
    const seat = tracker.state.sides[foe.id];
    const guess = guesser(battle.format);
    const taken = new Set(seat.mons.map(mon => battle.dex.species.get(mon.species).baseSpecies));
    const known = [...seat.mons];
    while (known.length < seat.size) known.push({species: guess.another(taken, battle.prng)});
    if (seat.active > 0) [known[0], known[seat.active]] = [known[seat.active], known[0]];
    const real = foe.active[0];
    const spent = foe.pokemon.some(pokemon => pokemon.terastallized);
    const instead = new Map();
    const made = known.map((mon, position) => {
      const pokemon = build(battle, foe, mon, guess.whole(mon, battle.prng));
      const truth = position === 0 ? real : foe.pokemon.find(each => each !== real && each.name === mon.name && each.previouslySwitchedIn);
      pokemon.position = position;
      if (truth) instead.set(truth, pokemon);
      afflict(battle, pokemon, mon, truth);
      if (spent) pokemon.canTerastallize = null;
      if (position === 0) dress(battle, pokemon, truth, seat, mine);
      rethrow(battle, pokemon, position === 0 ? seat : {volatiles: {}}, seat.slept[mon.name] || 0);
      return pokemon;
    });
    for (const pokemon of foe.pokemon) if (!instead.has(pokemon)) instead.set(pokemon, made[0]);
    return {made, instead};
  }

  // The opponent's part of a turn that is under way: that it has still to move is seen, what it chose is not.
  function forget(battle, foe, made) {
    const {list} = battle.queue;
    const waits = list.some(action => action.choice === 'move' && action.pokemon && action.pokemon.side === foe);
    battle.queue.list = list.filter(action => !(action.pokemon && action.pokemon.side === foe && CHOSEN.has(action.choice)));
    const able = made.moveSlots.filter(slot => slot.pp > 0);
    if (!waits || !made.hp || !able.length) return;
    const {id} = battle.prng.sample(able);
    battle.queue.list.push(...battle.queue.resolveAction({choice: 'move', pokemon: made, moveid: id, targetLoc: 0, side: foe}, true));
    battle.queue.sort();
  }

  // What the end of a turn settles for one on the field: which moves it may use, whether it may leave.
  function settle(battle, pokemon) {
    for (const slot of pokemon.moveSlots) [slot.disabled, slot.disabledSource] = [false, ''];
    battle.runEvent('DisableMove', pokemon);
    for (const slot of pokemon.moveSlots) battle.singleEvent('DisableMove', battle.dex.getActiveMove(slot.id), null, pokemon);
    pokemon.trapped = pokemon.maybeTrapped = false;
    battle.runEvent('TrapPokemon', pokemon);
  }

  function world(real, side, seed) {
    const mine = real.battle.sides[side === 'p1' ? 0 : 1];
    const tracker = real.trackers[side === 'p1' ? 0 : 1];
    const asked = mine.activeRequest;
    const base = twin(real.battle);
    base.prng.setSeed(seed);
    base.effectOrder = 1e6; // of what is built now: behind all that there was
    const [me, foe] = side === 'p1' ? base.sides : [...base.sides].reverse();
    const state = base.requestState;
    const {made, instead} = team(base, foe, tracker, me.active[0]);
    [foe.pokemon, foe.active] = [made, [made[0]]];
    forget(base, foe, made[0]);
    const battle = twin(base, instead);
    const [own, other] = side === 'p1' ? battle.sides : [...battle.sides].reverse();
    other.team = other.pokemon.map(pokemon => pokemon.set);
    return finish(battle, own, other, tracker, asked, state);
  }

  // How many effects there were tells of hidden ones: they are numbered anew, in the same order.
  function renumber(battle) {
    const states = [battle.field.weatherState, battle.field.terrainState, ...Object.values(battle.field.pseudoWeather)];
    for (const side of battle.sides) {
      states.push(...Object.values(side.sideConditions), ...side.slotConditions.flatMap(each => Object.values(each)));
      for (const {statusState, abilityState, itemState, speciesState, volatiles} of side.pokemon) {
        states.push(statusState, abilityState, itemState, speciesState, ...Object.values(volatiles));
      }
    }
    states.sort((a, b) => a.effectOrder - b.effectOrder).forEach((each, n) => { each.effectOrder = n; });
    battle.effectOrder = states.length;
  }

  function finish(battle, own, other, tracker, asked, state) {
    renumber(battle);
    for (const pokemon of own.pokemon) pokemon.lastDamage = 0; // in points of the opponent's, as the two below
    for (const {lastMove, lastMoveUsed} of [battle, ...own.pokemon, ...other.pokemon]) {
      for (const move of [lastMove, lastMoveUsed]) if (move && typeof move === 'object' && move.totalDamage) move.totalDamage = 0;
    }
    other.pokemonLeft = other.pokemon.filter(pokemon => !pokemon.fainted).length;
    for (const side of [own, other]) side.lastSelectedMove = side.lastEnemySelectedMove = side.lastMove ? side.lastMove.id : 'nomove';
    battle.lastDamage = 0;
    shorten(battle, other, tracker);
    const [mine, theirs] = [own.active[0], other.active[0]];
    for (const pokemon of own.pokemon) {
      const seat = pokemon === mine ? tracker.state.sides[own.id] : {volatiles: {}};
      rethrow(battle, pokemon, seat, tracker.state.sides[own.id].slept[pokemon.name] || 0);
    }
    if (mine && mine.transformed) {
      const model = other.pokemon.find(each => each.species === mine.species);
      if (model) Object.assign(mine.storedStats, model.storedStats);
    }
    if (state === 'move') {
      if (theirs) settle(battle, theirs);
      const active = asked && asked.active && asked.active[0];
      if (mine && active) [mine.trapped, mine.maybeTrapped] = [!!active.trapped, false];
    }
    battle.makeRequest(state);
    return battle;
  }

  const follow = (real, battle) => new Game(battle, {texts: false, trackers: real.trackers.map(tracker => {
    const state = JSON.parse(JSON.stringify({...tracker.state, lines: []}));
    return new Tracker(tracker.me, battle.gen, battle.dex, state);
  })});

  return {
    // A world that `side` holds for possible, as the battle `copy`; the same for all battles that look the same to it.
    imagine(id, copy, side, seed) {
      const real = game(id);
      real.read();
      const made = follow(real, world(real, side, seed));
      battles.set(copy, made);
      return made.answer();
    },
    // How a side stands some turns after each of these pairs of choices; the dice of each have a seed of their own.
    foresee(id, sideid, turns, ...tries) {
      const base = game(id).battle;
      return tries.map(([seed, ...choices]) => {
        const battle = twin(base);
        battle.prng.setSeed(seed);
        choices.forEach((choice, n) => { if (choice) battle.choose(`p${n + 1}`, choice); });
        playOn(battle, Math.max(0, base.turn + turns - battle.turn));
        return stands(battle, battle.sides[sideid === 'p1' ? 0 : 1]);
      });
    },
    // Both sides' choices in a copy with dice of its own.
    branch(id, copy, seed, ...choices) {
      const base = game(id);
      const made = follow(base, twin(base.battle));
      made.battle.prng.setSeed(seed);
      battles.set(copy, made);
      choices.forEach((choice, n) => { if (choice) made.battle.choose(`p${n + 1}`, choice); });
      return made.answer();
    },
  };
};
