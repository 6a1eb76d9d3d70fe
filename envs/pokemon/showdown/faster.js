// The simulator asks every effect for every event by name. Most names are defined by no effect of a generation: for
// them nothing needs to be asked. Logs are the same with and without; a test compares them.
'use strict';

// dex -> names: a Map of the callbacks that some effect defines, each to itself; events: a Set of what they answer
const known = new WeakMap();
const PREFIXED = /^on(?:Ally|Any|Foe|Source)?([A-Z].*)$/;

function collect(dex) {
  const found = new Map([['onSwitchIn', 'onSwitchIn'], ['onStart', 'onStart']]);
  const look = effect => {
    for (const key in effect) if (key.startsWith('on')) found.set(key, key);
    if (effect && effect.condition) look(effect.condition);
  };
  for (const table of ['Abilities', 'Items', 'Moves', 'Conditions', 'Rulesets', 'Pokedex']) {
    const data = dex.data[table] || {};
    for (const id in data) look(data[id]);
  }
  const events = new Set();
  for (const name of found.keys()) {
    events.add(name.slice(2));
    const parts = PREFIXED.exec(name);
    if (parts) events.add(parts[1]);
  }
  return {names: found, events};
}

function asked(battle) {
  let tables = battle.palaverEvents;
  if (!tables) {
    tables = known.get(battle.dex);
    if (!tables) known.set(battle.dex, tables = collect(battle.dex));
    Object.defineProperty(battle, 'palaverEvents', {value: tables, enumerable: false});
  }
  return tables;
}

function install({Battle}) {
  for (const method of ['findPokemonEventHandlers', 'findSideEventHandlers', 'findFieldEventHandlers']) {
    const original = Battle.prototype[method];
    Battle.prototype[method] = function (target, name, getKey, holder) {
      const same = asked(this).names.get(name);
      if (same === undefined && getKey === undefined) return [];
      return original.call(this, target, same || name, getKey, holder);
    };
  }
  const original = Battle.prototype.findEventHandlers;
  Battle.prototype.findEventHandlers = function (target, event, source) {
    if (!this.events && !asked(this).events.has(event)) return [];
    return original.call(this, target, event, source);
  };
}

module.exports = {install};
