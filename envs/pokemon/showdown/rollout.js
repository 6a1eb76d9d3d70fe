// How a battle may go on: both sides use the attack (or the condition, or the recovery) that promises most, for some
// turns, and what stands then is weighed. Rough and fast; it sees everything, and is for imagined worlds only.
'use strict';

const MEAN = 0.925; // of the damage roll
const ABSORBED = {
  levitate: 'Ground', eartheater: 'Ground', flashfire: 'Fire', wellbakedbody: 'Fire', waterabsorb: 'Water', dryskin: 'Water',
  stormdrain: 'Water', voltabsorb: 'Electric', lightningrod: 'Electric', motordrive: 'Electric', sapsipper: 'Grass',
};
const CONDITIONS = {slp: 0.9, frz: 0.9, par: 0.45, tox: 0.45, brn: 0.35, psn: 0.2}; // in parts of a Pokémon
const HALVES = new Set(['superfang', 'naturesmadness', 'ruination']);
const BACK = new Set(['counter', 'mirrorcoat', 'metalburst', 'bide', 'endeavor']);
const ALIVE = 0.5; // of a Pokémon that has not fainted, beside its part of hit points
const SICK = {slp: 0.6, frz: 0.9, par: 0.35, tox: 0.25, brn: 0.25, psn: 0.15}; // what a condition takes from that
const VICTORY = 10;
const DUEL = 0.8; // of the race on the field
const CHOICES = 12; // for each turn, before a rollout is given up

const left = pokemon => pokemon.hp / pokemon.maxhp;

function value(pokemon, stat) {
  if (pokemon.modifiedStats) return pokemon.modifiedStats[stat];
  const stage = pokemon.boosts[stat];
  let base = pokemon.storedStats[stat] * (stage >= 0 ? (2 + stage) / 2 : 2 / (2 - stage));
  if (stat === 'spe' && pokemon.status === 'par') base *= pokemon.battle.gen < 7 ? 0.25 : 0.5;
  if (stat === 'atk' && pokemon.status === 'brn' && pokemon.ability !== 'guts') base *= 0.5;
  return base;
}

function effect(dex, type, target) {
  if (!dex.getImmunity(type, target) || ABSORBED[target.ability] === type) return 0;
  return 2 ** dex.getEffectiveness(type, target);
}

// The mean damage of a move that hits, as a part of the target's full hit points.
function damage(user, target, move) {
  const {battle} = user;
  const {dex, gen} = battle;
  if (move.category === 'Status' || BACK.has(move.id)) return 0;
  if (move.id === 'dreameater' && target.status !== 'slp') return 0;
  const type = move.id === 'hiddenpower' ? user.hpType : move.id === 'terablast' && user.terastallized ? user.terastallized : move.type;
  const factor = effect(dex, type, target);
  if (!factor || target.ability === 'wonderguard' && factor <= 1) return 0;
  if (move.damage) return (move.damage === 'level' ? user.level : move.damage) / target.maxhp;
  if (HALVES.has(move.id)) return left(target) / 2;
  if (move.ohko) return 1;
  const physical = move.category === 'Physical';
  const attack = value(user, move.overrideOffensiveStat || (physical ? 'atk' : 'spa'));
  let defence = value(target, move.overrideDefensiveStat || (physical ? 'def' : 'spd'));
  const screen = physical ? 'reflect' : 'lightscreen';
  if (gen === 1 && target.volatiles[screen]) defence *= 2;
  if (move.selfdestruct && gen < 5) defence /= 2;
  const power = move.basePower || 60;
  let points = (2 * user.level / 5 + 2) * power * attack / Math.max(1, defence) / 50 + 2;
  points *= factor * MEAN * (user.hasType(type) ? 1.5 : 1);
  if (move.multihit) points *= Array.isArray(move.multihit) ? 3 : move.multihit;
  if (gen > 1 && (target.side.sideConditions[screen] || target.side.sideConditions.auroraveil)) points /= 2;
  if (gen === 1) points *= 1 + 0.95 * Math.min(255 / 256, user.species.baseStats.spe / 512 * (move.critRatio > 1 ? 8 : 1));
  const {item} = user;
  if (item === 'lifeorb') points *= 1.3;
  if (item === 'choiceband' && physical || item === 'choicespecs' && !physical) points *= 1.5;
  return points / target.maxhp;
}

const chance = move => move.accuracy === true ? 1 : move.accuracy / 100;

// What a move promises, in parts of a Pokémon.
function promise(user, target, move) {
  const raw = damage(user, target, move);
  if (raw) {
    const kills = raw >= left(target);
    let taken = Math.min(raw, left(target)) + (kills ? ALIVE : 0);
    if (move.flags.charge || move.flags.recharge && !(kills && user.battle.gen === 1)) taken *= 0.55;
    if (move.selfdestruct) taken -= left(user) + ALIVE;
    return taken * chance(move);
  }
  if (move.category !== 'Status') return 0;
  if (move.status && move.target !== 'self') return CONDITIONS[move.status] * left(target) * chance(move) * works(user, target, move);
  const healed = move.heal ? move.heal[0] / move.heal[1] : move.id === 'rest' ? 0.5 : 0;
  return healed && left(user) < 0.55 ? Math.min(healed, 1 - left(user)) : 0;
}

function works(user, target, move) {
  if (target.status || target.volatiles.substitute) return 0;
  const {dex} = user.battle;
  if (move.ignoreImmunity === false && !dex.getImmunity(move.type, target)) return 0;
  if (!dex.getImmunity(move.status, target) || move.flags.powder && !dex.getImmunity('powder', target)) return 0;
  return move.status === 'slp' && target.side.pokemon.some(each => each.hp && each.status === 'slp') ? 0 : 1;
}

// The part of the target that the user's best attack takes.
function threat(user, target) {
  const {dex} = user.battle;
  let most = 0;
  for (const slot of user.moveSlots) {
    const move = dex.moves.get(slot.id);
    if (slot.pp > 0 && !move.selfdestruct) most = Math.max(most, damage(user, target, move) * chance(move) * (move.flags.recharge || move.flags.charge ? 0.6 : 1));
  }
  return most;
}

// How a race between two ends, from -1 to 1: the hits that each needs, the faster one half a hit ahead.
function duel(one, other) {
  const hits = (user, target) => Math.min(8, Math.max(1, left(target) / Math.max(1e-3, threat(user, target))));
  const asleep = {slp: 2, frz: 3};
  const faster = value(one, 'spe') > value(other, 'spe');
  const we = hits(one, other) + (asleep[one.status] || 0) - (faster ? 0.5 : 0);
  const they = hits(other, one) + (asleep[other.status] || 0) - (faster ? 0 : 0.5);
  return (they - we) / (they + we);
}

function choose(side) {
  const {activeRequest: request, active: [mine], battle: {dex}} = side;
  const theirs = side.foe.active[0];
  if (request.forceSwitch) {
    if (side.slotConditions[0].revivalblessing) return 'default';
    let [best, at] = [-Infinity, 0];
    side.pokemon.forEach((pokemon, n) => {
      if (!n || !pokemon.hp) return;
      const worth = theirs && theirs.hp ? duel(pokemon, theirs) : left(pokemon);
      if (worth > best) [best, at] = [worth, n];
    });
    return at ? `switch ${at + 1}` : 'default';
  }
  if (!request.active || !theirs || !theirs.hp) return 'default';
  let [best, at] = [-Infinity, -1];
  request.active[0].moves.forEach((offered, n) => {
    if (offered.disabled) return;
    const worth = promise(mine, theirs, dex.moves.get(offered.id));
    if (worth > best) [best, at] = [worth, n];
  });
  return at < 0 ? 'default' : `move ${at + 1}`;
}

// Both sides play on for some turns.
function playOn(battle, turns) {
  const until = battle.turn + turns;
  for (let n = 0; n < CHOICES * (turns + 1); n++) {
    if (battle.ended || battle.turn >= until && battle.requestState === 'move') return;
    for (const side of battle.sides) {
      if (battle.ended || !side.activeRequest || side.activeRequest.wait || side.isChoiceDone()) continue;
      if (!battle.choose(side.id, choose(side))) battle.choose(side.id, 'default');
    }
  }
}

const team = side => side.pokemon.reduce((sum, each) => sum + (each.hp ? left(each) + ALIVE - (SICK[each.status] || 0) : 0), 0);

// How a side stands, in Pokémon.
function stands(battle, side) {
  if (battle.ended) return battle.winner ? battle.winner === side.id ? VICTORY : -VICTORY : 0;
  const [one, other] = [side.active[0], side.foe.active[0]];
  const ahead = team(side) - team(side.foe);
  return one && other && one.hp && other.hp ? ahead + DUEL * duel(one, other) : ahead;
}

module.exports = {playOn, stands};
