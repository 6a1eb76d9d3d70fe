// A copy of a battle, several times as fast as through the serialisation of the simulator: the objects themselves are copied.
'use strict';

// What the copies may share: the tables, which are frozen or written to by nobody.
function shared(object, sim) {
  return Object.isFrozen(object) || object instanceof sim.ModdedDex || object instanceof sim.RuleTable ||
    object.effectType === 'Format' || object.effectType === 'Ruleset' || object.effectType === 'Rule';
}

// Pokémon carry two functions that know their owner; a copy needs its own.
function health(pokemon) {
  const {hp, maxhp, status, side} = pokemon;
  if (!hp) return {side: side.id, secret: '0 fnt', shared: '0 fnt'};
  const suffix = status ? ` ${status}` : '';
  const parts = pokemon.battle.reportExactHP ? `${hp}/${maxhp}` : `${hp < maxhp ? Math.min(99, Math.ceil(100 * hp / maxhp)) : 100}/100`;
  return {side: side.id, secret: `${hp}/${maxhp}${suffix}`, shared: parts + suffix};
}

function full(pokemon) {
  const {illusion, battle, terastallized} = pokemon;
  const seen = illusion ? illusion.getUpdatedDetails(battle.ruleTable.has('illusionlevelmod') ? illusion.level : pokemon.level) : pokemon.details;
  const details = terastallized ? `${seen}, tera:${terastallized}` : seen;
  const {side, secret, shared: public_} = pokemon.getHealth();
  return {side, secret: `${details}|${secret}`, shared: `${details}|${public_}`};
}

module.exports = sim => {
  const types = {
    ModdedDex: Object.getPrototypeOf(sim.Dex).constructor,
    RuleTable: sim.Dex.formats.getRuleTable(sim.Dex.formats.get('gen1ou')).constructor,
  };

  // The battle without its log. `instead` maps objects of it to those that take their places.
  return function twin(battle, instead = new Map()) {
    const made = new Map();
    const copy = value => {
      if (typeof value !== 'object' || value === null) return value;
      const done = made.get(value);
      if (done !== undefined) return done;
      const object = instead.get(value) || value;
      if (object !== value) {
        const same = copy(object);
        made.set(value, same);
        return same;
      }
      if (shared(object, types)) return object;
      if (Array.isArray(object)) {
        const list = object.slice();
        made.set(object, list);
        for (let n = 0; n < list.length; n++) if (typeof list[n] === 'object') list[n] = copy(list[n]);
        return list;
      }
      if (object instanceof Set) {
        const set = new Set();
        made.set(object, set);
        for (const each of object) set.add(copy(each));
        return set;
      }
      if (object instanceof Map) {
        const map = new Map();
        made.set(object, map);
        for (const [key, each] of object) map.set(key, copy(each));
        return map;
      }
      const prototype = Object.getPrototypeOf(object);
      const same = {...object};
      if (prototype !== Object.prototype) Object.setPrototypeOf(same, prototype);
      made.set(object, same);
      for (const key in same) {
        const held = same[key];
        if (typeof held === 'object' && held !== null) same[key] = copy(held);
      }
      if (object instanceof sim.Pokemon) {
        same.getHealth = () => health(same);
        same.getFullDetails = () => full(same);
      }
      return same;
    };
    const {log, inputLog, messageLog, teamGenerator} = battle;
    Object.assign(battle, {log: [], inputLog: [], messageLog: [], teamGenerator: null});
    try {
      const same = copy(battle);
      [same.sentLogPos, same.lastMoveLine] = [0, -1];
      same.send = () => {};
      return same;
    } finally {
      Object.assign(battle, {log, inputLog, messageLog, teamGenerator});
    }
  };
};
