// Tables of a generation, as plain data. What is false, empty or the usual is left out.
'use strict';

const {toID} = require('./track.js');

const MOVE = [
  'priority', 'drain', 'recoil', 'heal', 'multihit', 'critRatio', 'status', 'volatileStatus', 'boosts', 'sideCondition',
  'weather', 'terrain', 'pseudoWeather', 'selfSwitch', 'forceSwitch', 'ohko', 'selfdestruct', 'damage', 'willCrit',
  'hasCrashDamage', 'stallingMove', 'thawsTarget', 'isZ', 'isMax', 'overrideOffensiveStat', 'overrideDefensiveStat',
];
const EFFECT = ['status', 'volatileStatus', 'boosts'];

const picked = (object, keys) => Object.fromEntries(
  keys.filter(key => object[key] && !(key === 'critRatio' && object[key] === 1)).map(key => [key, object[key]]));

function move(data) {
  const made = {
    name: data.name, type: data.type.toLowerCase(), category: data.category.toLowerCase(), power: data.basePower,
    accuracy: data.accuracy === true ? null : data.accuracy, pp: data.noPPBoosts ? data.pp : Math.floor(data.pp * 8 / 5),
    target: data.target, flags: Object.keys(data.flags).sort(), about: data.shortDesc, ...picked(data, MOVE),
  };
  const own = data.self && picked(data.self, EFFECT);
  if (own && Object.keys(own).length) made.self = own;
  if (data.basePowerCallback) made.varies = true;
  const further = (data.secondaries || []).map(each => ({
    chance: each.chance, ...picked(each, EFFECT), ...(each.self ? {self: picked(each.self, EFFECT)} : {}),
  }));
  if (further.length) made.secondaries = further;
  return made;
}

const STATS = ['hp', 'atk', 'def', 'spa', 'spd', 'spe'];
const species = data => ({
  name: data.name, base: toID(data.baseSpecies), types: data.types.map(toID), stats: STATS.map(stat => data.baseStats[stat]),
  abilities: Object.values(data.abilities).map(toID), weight: data.weightkg, tier: data.tier,
});
const other = data => ({name: data.name, about: data.shortDesc || data.desc || ''});

// gen -> its tables, which are made once and shared.
module.exports = sim => {
  const made = new Map();
  return gen => {
    if (!made.has(gen)) made.set(gen, tables(sim, gen));
    return made.get(gen);
  };
};

function tables(sim, gen) {
  const dex = sim.Dex.mod(`gen${gen}`);
  const table = (every, made) => Object.fromEntries(every
    .filter(data => data.exists && data.gen <= gen && !['CAP', 'Custom', 'LGPE', 'Future'].includes(data.isNonstandard))
    .map(data => [data.id, made(data)]));
  const types = dex.types.all().filter(type => !type.isNonstandard).map(type => type.id);
  const against = (attacker, defender) => {
    const [Attacker, Defender] = [dex.types.get(attacker).name, dex.types.get(defender).name];
    return dex.getImmunity(Attacker, Defender) ? 2 ** dex.getEffectiveness(Attacker, Defender) : 0;
  };
  return {
    moves: table(dex.moves.all(), move),
    species: table(dex.species.all(), species),
    items: gen > 1 ? table(dex.items.all(), other) : {},
    abilities: gen > 2 ? table(dex.abilities.all(), other) : {},
    chart: Object.fromEntries(types.map(a => [a, Object.fromEntries(types.map(d => [d, against(a, d)]))])),
  };
}
