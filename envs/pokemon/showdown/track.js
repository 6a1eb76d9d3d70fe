// What one side knows of a battle, read from its own view of the protocol alone. See sim/SIM-PROTOCOL.md of the package.
'use strict';

const TRAPPING = new Set([
  'bind', 'clamp', 'firespin', 'infestation', 'magmastorm', 'sandtomb', 'snaptrap', 'thundercage', 'whirlpool', 'wrap',
]);
const DELAYED = new Set(['futuresight', 'doomdesire']);
const NO_MOVE = new Set(['struggle', 'recharge', 'fight']);
const COUNTED = /^(perish|stockpile|fallen)([0-9])$/;
const STAGED = /^(protosynthesis|quarkdrive)(atk|def|spa|spd|spe)$/;
// what tells a player nothing; everything else is handed on as it came
const SILENT = new Set([
  '', 't:', 'upkeep', 'player', 'teamsize', 'gametype', 'gen', 'tier', 'rated', 'rule', 'clearpoke', 'poke',
  'teampreview', 'start', 'turn', 'inactive', 'inactiveoff', 'done', 'debug', '-anim', 'raw', 'html', 'uhtml', 'request',
]);

const TAKES = /(Thief|Covet|Magician|Pickpocket)$/;

const toID = text => String(text).toLowerCase().replace(/[^a-z0-9]+/g, '');
const effectID = text => toID(/^(move|ability|item): /.test(text) ? text.slice(text.indexOf(':') + 1) : text);

function tag(args, name) {
  for (let i = args.length - 1; i > 1; i--) if (args[i].startsWith(name)) return args[i].slice(name.length);
  return '';
}

const fresh = () => ({
  size: 6, active: -1, shown: '', entered: 0, conditions: {}, boosts: {}, volatiles: {}, once: [], brief: [], slept: {},
  mons: [],
});

class Tracker {
  // `dex` is needed to tell formes of one species, and what Baton Pass hands on
  constructor(me, gen, dex, state) {
    this.me = me;
    this.foe = me === 'p1' ? 'p2' : 'p1';
    this.gen = gen;
    this.dex = dex;
    this.state = state || {turn: 0, weather: null, field: {}, lines: [], sides: {p1: fresh(), p2: fresh()}};
  }

  // Lines since the last call.
  lines() {
    const lines = this.state.lines;
    this.state.lines = [];
    return lines;
  }

  receive(line) {
    const args = line.split('|');
    const command = args[1];
    const handler = HANDLERS[command];
    if (handler) handler.call(this, args);
    if (command && command[0] === '-' || command === 'cant') this.revealed(args);
    if (!SILENT.has(command)) this.state.lines.push(line);
  }

  side(ident) {
    return this.state.sides[ident.slice(0, 2)];
  }

  other(ident) {
    return this.state.sides[ident.slice(0, 2) === 'p1' ? 'p2' : 'p1'];
  }

  // The opponent's Pokémon an identifier means; null for our own, which the simulator itself describes.
  mon(ident) {
    if (!ident || ident.slice(0, 2) !== this.foe) return null;
    const side = this.state.sides[this.foe];
    if (ident[2] !== ':') return side.mons[side.active] || null;
    const name = ident.slice(4);
    return side.mons.find(mon => mon.name === name) || null;
  }

  base(species) {
    return this.dex.species.get(species).baseSpecies;
  }

  find(name, species) {
    const mons = this.state.sides[this.foe].mons;
    let found = mons.findIndex(mon => mon.seen && mon.name === name && mon.species === species && mon.hp > 0);
    if (found < 0) found = mons.findIndex(mon => mon.seen && mon.name === name);
    if (found < 0) found = mons.findIndex(mon => !mon.seen && this.base(mon.species) === this.base(species));
    if (found < 0) found = mons.push(newcomer(name, species)) - 1;
    return found;
  }

  enter(args) {
    const [, command, ident, details] = args;
    const condition = args[4] && args[4][0] !== '[' ? args[4] : '';
    const side = this.side(ident);
    const how = toID(tag(args, '[from] '));
    leave(side, how === 'batonpass' ? id => !this.dex.conditions.get(id).noCopy : id => how === 'shedtail' && id === 'substitute');
    if (how !== 'batonpass') side.boosts = {};
    side.shown = toID(details.split(',')[0]);
    side.entered = this.state.turn;
    delete this.other(ident).volatiles.trapped; // by one that is gone
    if (ident.slice(0, 2) !== this.foe) return;
    const name = ident.slice(ident.indexOf(':') + 2);
    if (command !== 'replace') {
      restore(side.mons[side.active]);
      side.active = this.find(name, side.shown);
    } else { // an illusion ended: what the disguise seemed to do was done by another
      const disguise = side.mons[side.active];
      const found = this.find(name, side.shown);
      const real = side.mons[found];
      if (disguise && disguise.before && real !== disguise) {
        for (const [id, uses] of Object.entries(disguise.moves)) {
          const more = uses - (disguise.before.moves[id] || 0);
          if (more > 0 || !(id in disguise.before.moves)) real.moves[id] = (real.moves[id] || 0) + more;
        }
        for (const key of ['item', 'gone']) if (disguise[key] !== disguise.before[key]) real[key] = disguise[key];
        for (const key of ['hp', 'max', 'status']) real[key] = disguise[key];
        Object.assign(disguise, disguise.before);
      }
      side.active = found;
    }
    const mon = side.mons[side.active];
    if (this.gen >= 5) {
      mon.before = null;
      mon.before = {...mon, moves: {...mon.moves}};
    }
    mon.seen = true;
    mon.name = name;
    describe(mon, details);
    if (condition) health(mon, condition);
  }

  uses(args) { // |move|USER|MOVE|TARGET
    const side = this.side(args[2]);
    const id = toID(args[3]);
    const released = side.volatiles.preparing && side.volatiles.preparing[1] === id;
    for (const passed of side.once) delete side.volatiles[passed];
    side.once = [];
    const mon = this.mon(args[2]);
    if (id === 'wish' && !tag(args, '[notarget]')) side.conditions.wish = [1, this.state.turn];
    if (!mon) return;
    const from = tag(args, '[from] ');
    const called = from && !/^(move: )?(Locked ?Move|Sleep ?Talk)$/i.test(from) && effectID(from) !== id;
    if (called || NO_MOVE.has(id) || this.dex.moves.get(id).isMax || this.dex.moves.get(id).isZ) return;
    if (side.volatiles.transform || side.volatiles.mimic && side.volatiles.mimic[1] === id) return;
    mon.moves[id] = (mon.moves[id] || 0) + (from || released ? 0 : 1);
  }

  start(args) { // |-start|WHOM|EFFECT|DETAIL
    const side = this.side(args[2]);
    let id = effectID(args[3]);
    const turn = this.state.turn;
    if (DELAYED.has(id)) {
      this.other(args[2]).conditions[id] = [1, turn];
      return;
    }
    const detail = args[4] && args[4][0] !== '[' ? args[4] : '';
    const counted = COUNTED.exec(id) || STAGED.exec(id);
    if (counted) {
      side.volatiles[counted[1]] = [turn, /[0-9]/.test(counted[2]) ? Number(counted[2]) : counted[2]];
    } else if (id === 'typechange' || id === 'typeadd') {
      side.volatiles[id] = [turn, detail.toLowerCase()];
      if (id === 'typechange') delete side.volatiles.typeadd;
    } else {
      side.volatiles[id] = detail ? [turn, toID(detail)] : [turn];
      if (id === 'mimic') side.volatiles.mimic = [turn, toID(detail)];
    }
  }

  end(args) {
    const side = this.side(args[2]);
    const id = effectID(args[3]);
    if (DELAYED.has(id)) delete side.conditions[id];
    if (args.includes('[partiallytrapped]') || TRAPPING.has(id)) delete side.volatiles.partiallytrapped;
    delete side.volatiles[id];
  }

  activate(args) {
    const side = this.side(args[2] || 'p1');
    const id = effectID(args[3] || '');
    if (TRAPPING.has(id) && this.gen > 1) side.volatiles.partiallytrapped = [this.state.turn, id];
    if (id === 'trapped') side.volatiles.trapped = [this.state.turn];
    if (id === 'poltergeist' && this.mon(args[2])) this.mon(args[2]).item = toID(args[4]);
    if (id === 'skillswap' && args[4] && args[4][0] !== '[') {
      const own = this.mon(args[2]);
      const other = this.mon(tag(args, '[of] '));
      if (own) lend(own, toID(args[4]));
      if (other && args[5]) lend(other, toID(args[5]));
    }
  }

  // Items and abilities given as a cause belong to whoever the protocol says.
  revealed(args) {
    if (args[1] === '-ability') return;
    const from = tag(args, '[from] ');
    const holds = /^(ability|item): /.exec(from);
    if (holds) {
      const own = args[1] === '-heal' || args[1] === '-item' && !/Frisk/.test(from);
      this.knows((!own && tag(args, '[of] ')) || args[2], holds[1], from);
    }
    const shows = /^(ability|item): /.exec(args[3] || '');
    if (shows && ['-activate', '-block', 'cant', '-start', '-fail', '-immune'].includes(args[1])) {
      this.knows(args[1] === 'cant' && tag(args, '[of] ') || args[2], shows[1], args[3]);
    }
  }

  knows(ident, kind, text) {
    const mon = this.mon(ident);
    if (!mon || mon.gone === effectID(text)) return;
    if (kind === 'ability' || !mon.item) mon[kind] = effectID(text);
  }

  boost(args, sign) {
    const boosts = this.side(args[2]).boosts;
    set(boosts, args[3], (boosts[args[3]] || 0) + sign * Number(args[4]));
  }
}

function newcomer(name, species) {
  return {
    name, species, level: 100, gender: '', hp: 100, max: 100, status: '', item: null, gone: '', ability: null, moves: {},
    tera: null, terastallized: false, seen: false, before: null,
  };
}

// An ability it has until it leaves the field.
function lend(mon, ability, usual) {
  if (mon.usual === undefined) mon.usual = usual || mon.ability;
  mon.ability = ability;
}

function restore(mon) {
  if (!mon || mon.usual === undefined) return;
  mon.ability = mon.usual;
  delete mon.usual;
}

function describe(mon, details) {
  const parts = details.split(', ');
  mon.species = toID(parts[0]);
  mon.level = 100;
  mon.gender = '';
  for (const part of parts.slice(1)) {
    if (/^L[0-9]+$/.test(part)) mon.level = Number(part.slice(1));
    else if (part === 'M' || part === 'F') mon.gender = part;
    else if (part.startsWith('tera:')) [mon.tera, mon.terastallized] = [part.slice(5).toLowerCase(), true];
  }
}

function health(mon, condition) {
  const [points, status] = condition.split(' ');
  if (status === 'fnt' || points === '0') {
    [mon.hp, mon.status] = [0, ''];
    return;
  }
  const [hp, max] = points.split('/');
  mon.hp = parseInt(hp);
  if (max) mon.max = parseInt(max);
  if (status !== undefined || max) mon.status = status || '';
}

function set(boosts, stat, value) {
  const stage = Math.max(-6, Math.min(6, value));
  if (stage) boosts[stat] = stage;
  else delete boosts[stat];
}

function leave(side, kept) {
  side.volatiles = Object.fromEntries(Object.entries(side.volatiles).filter(([id]) => kept(id)));
  side.once = [];
  side.brief = [];
}

function sleeper(tracker, ident, turns) {
  const slept = tracker.side(ident).slept;
  const name = ident.slice(ident.indexOf(':') + 2);
  if (turns) slept[name] = (slept[name] || 0) + turns;
  else delete slept[name];
}

// A command of the protocol -> what it changes. `this` is the tracker, `a` the line split at "|".
const HANDLERS = {
  turn(a) {
    this.state.turn = Number(a[2]);
    for (const side of Object.values(this.state.sides)) {
      for (const id of side.brief) delete side.volatiles[id];
      side.brief = [];
      if (side.conditions.wish && this.state.turn > side.conditions.wish[1] + 1) delete side.conditions.wish;
    }
  },
  teamsize(a) { this.state.sides[a[2]].size = Number(a[3]); },
  poke(a) {
    if (a[2] !== this.foe) return;
    const mon = newcomer('', '');
    describe(mon, a[3].replace('-*', ''));
    mon.name = this.base(mon.species);
    this.state.sides[this.foe].mons.push(mon);
  },
  switch: Tracker.prototype.enter,
  drag: Tracker.prototype.enter,
  replace(a) {
    const side = this.side(a[2]);
    const [boosts, volatiles, entered] = [side.boosts, side.volatiles, side.entered];
    this.enter(a);
    Object.assign(side, {boosts, volatiles, entered});
  },
  detailschange(a) {
    this.side(a[2]).shown = toID(a[3].split(',')[0]);
    const mon = this.mon(a[2]);
    if (!mon) return;
    describe(mon, a[3]);
    restore(mon);
    if (a.includes('[silent]')) { // it fainted, and is what it was before it changed
      if (mon.born !== undefined) mon.ability = mon.born;
    } else {
      if (mon.born === undefined) mon.born = mon.ability;
      const abilities = Object.values(this.dex.species.get(mon.species).abilities);
      if (this.gen > 5 && abilities.length === 1) mon.ability = toID(abilities[0]);
    }
    if (a[4] && a[4][0] !== '[') health(mon, a[4]);
  },
  '-formechange'(a) {
    const side = this.side(a[2]);
    side.shown = toID(a[3].split(',')[0]);
    side.volatiles.formechange = [this.state.turn, side.shown];
  },
  '-transform'(a) {
    const [side, other] = [this.side(a[2]), this.side(a[3])];
    side.volatiles.transform = [this.state.turn, other.shown];
    if (this.mon(a[2])) lend(this.mon(a[2]), this.mon(a[2]).ability);
    side.boosts = {...other.boosts};
  },
  '-mega'(a) { if (this.mon(a[2]) && a[4]) this.mon(a[2]).item = toID(a[4]); },
  '-terastallize'(a) {
    const mon = this.mon(a[2]);
    if (mon) [mon.tera, mon.terastallized] = [a[3].toLowerCase(), true];
  },
  move: Tracker.prototype.uses,
  cant(a) {
    const side = this.side(a[2]);
    for (const id of side.once) delete side.volatiles[id];
    side.once = [];
    if (a[3] === 'slp') sleeper(this, a[2], 1);
    const mon = this.mon(a[2]);
    const id = a[4] && a[4][0] !== '[' ? toID(a[4]) : '';
    if (mon && id && !side.volatiles.transform && !NO_MOVE.has(id)) mon.moves[id] = mon.moves[id] || 0;
  },
  faint(a) {
    if (this.mon(a[2])) health(this.mon(a[2]), '0 fnt');
    restore(this.mon(a[2]));
  },
  '-damage'(a) { if (this.mon(a[2])) health(this.mon(a[2]), a[3]); },
  '-heal'(a) {
    if (this.mon(a[2])) health(this.mon(a[2]), a[3]);
    if (a.includes('[from] move: Wish')) delete this.side(a[2]).conditions.wish;
  },
  '-sethp'(a) {
    if (this.mon(a[2])) health(this.mon(a[2]), a[3]);
    if (a[4] && this.mon(a[4])) health(this.mon(a[4]), a[5]);
  },
  '-status'(a) {
    if (a[3] === 'slp') sleeper(this, a[2], 0);
    if (this.mon(a[2])) this.mon(a[2]).status = a[3];
  },
  '-curestatus'(a) {
    sleeper(this, a[2], 0);
    if (this.mon(a[2])) this.mon(a[2]).status = '';
  },
  '-cureteam'(a) {
    const side = this.side(a[2]);
    side.slept = {};
    for (const mon of side.mons) mon.status = '';
  },
  '-boost'(a) { this.boost(a, 1); },
  '-unboost'(a) { this.boost(a, -1); },
  '-setboost'(a) { set(this.side(a[2]).boosts, a[3], Number(a[4])); },
  '-clearboost'(a) { this.side(a[2]).boosts = {}; },
  '-clearallboost'() { for (const side of Object.values(this.state.sides)) side.boosts = {}; },
  '-clearpositiveboost'(a) { only(this.side(a[2]).boosts, stage => stage < 0); },
  '-clearnegativeboost'(a) { only(this.side(a[2]).boosts, stage => stage > 0); },
  '-invertboost'(a) {
    const boosts = this.side(a[2]).boosts;
    for (const stat in boosts) boosts[stat] = -boosts[stat];
  },
  '-copyboost'(a) { this.side(a[2]).boosts = {...this.side(a[3]).boosts}; },
  '-swapboost'(a) {
    const [one, other] = [this.side(a[2]).boosts, this.side(a[3]).boosts];
    const given = a[4] && a[4][0] !== '[' ? a[4].split(', ') : ['atk', 'def', 'spa', 'spd', 'spe', 'accuracy', 'evasion'];
    for (const stat of given) {
      const value = one[stat] || 0;
      set(one, stat, other[stat] || 0);
      set(other, stat, value);
    }
  },
  '-start': Tracker.prototype.start,
  '-end': Tracker.prototype.end,
  '-activate': Tracker.prototype.activate,
  '-singleturn'(a) { passing(this, a, 'brief'); },
  '-singlemove'(a) { passing(this, a, 'once'); },
  '-mustrecharge'(a) { passing(this, [...a.slice(0, 3), 'mustrecharge'], 'once'); },
  '-prepare'(a) {
    passing(this, [...a.slice(0, 3), 'preparing'], 'once');
    this.side(a[2]).volatiles.preparing.push(toID(a[3]));
  },
  '-anim'(a) { delete this.side(a[2]).volatiles.preparing; }, // charged and struck in one turn
  '-item'(a) {
    if (this.mon(a[2])) [this.mon(a[2]).item, this.mon(a[2]).gone] = [toID(a[3]), ''];
    const robbed = TAKES.test(tag(a, '[from] ')) && this.mon(tag(a, '[of] '));
    if (robbed) [robbed.item, robbed.gone] = ['', toID(a[3])];
  },
  '-enditem'(a) { if (this.mon(a[2])) [this.mon(a[2]).item, this.mon(a[2]).gone] = ['', toID(a[3])]; },
  '-ability'(a) {
    const [mon, from, source] = [this.mon(a[2]), tag(a, '[from] '), this.mon(tag(a, '[of] '))];
    const traced = /Trace/.test(from);
    if (mon && from) lend(mon, toID(a[3]), traced && 'trace');
    else if (mon) mon.ability = toID(a[3]);
    if (traced && source) source.ability = toID(a[3]);
  },
  '-endability'(a) { this.side(a[2]).volatiles.gastroacid = [this.state.turn]; },
  '-sidestart'(a) {
    const held = this.side(a[2]).conditions;
    const id = effectID(a[3]);
    held[id] = [held[id] ? held[id][0] + 1 : 1, this.state.turn];
  },
  '-sideend'(a) { delete this.side(a[2]).conditions[effectID(a[3])]; },
  '-swapsideconditions'() {
    const {p1, p2} = this.state.sides;
    [p1.conditions, p2.conditions] = [p2.conditions, p1.conditions];
  },
  '-weather'(a) {
    const id = toID(a[2]);
    if (id === 'none' || !id) this.state.weather = null;
    else if (!a.includes('[upkeep]')) this.state.weather = [id, this.state.turn];
  },
  '-fieldstart'(a) {
    const id = effectID(a[2]);
    if (id.endsWith('terrain')) for (const held of Object.keys(this.state.field)) if (held.endsWith('terrain')) delete this.state.field[held];
    this.state.field[id] = this.state.turn;
  },
  '-fieldend'(a) { delete this.state.field[effectID(a[2])]; },
};

function only(boosts, kept) {
  for (const stat of Object.keys(boosts)) if (!kept(boosts[stat])) delete boosts[stat];
}

function passing(tracker, args, list) {
  const side = tracker.side(args[2]);
  const id = effectID(args[3]);
  side.volatiles[id] = [tracker.state.turn];
  side[list].push(id);
}

module.exports = {Tracker, toID};
