// What a Pokémon that showed a part of itself may be: the package's movesets for its role, as far as they agree with it.
'use strict';

const {toID} = require('./track.js');

const SETS = 16; // drawn once for each species
const STATS = ['hp', 'atk', 'def', 'spa', 'spd', 'spe'];
const plainID = id => id.startsWith('hiddenpower') ? 'hiddenpower' : id;
const spread = value => Object.fromEntries(STATS.map(stat => [stat, value]));

module.exports = (sim, Drawer) => {
  class Guesser {
    constructor(format) {
      this.drawer = new Drawer(format, '1,2,3,4', ['OU']);
      this.dex = this.drawer.dex;
      this.random = !!format.team;
      this.known = this.drawer.known || {};
      this.drawn = new Map();
      const every = this.random || !this.drawer.pool.length ? Object.keys(this.known) : this.drawer.pool;
      this.pool = every.filter(id => this.dex.species.get(id).exists && !this.dex.species.get(id).battleOnly).sort();
    }

    // Sets of a species; the same ones in every battle of this process or another.
    sets(id) {
      if (!this.drawn.has(id)) this.drawn.set(id, this.draw(id));
      return this.drawn.get(id);
    }

    draw(id) {
      const {drawer, dex} = this;
      const species = dex.species.get(id);
      if (!this.known[id]) {
        if (drawer.own[id]) return [{...drawer.plain(species), moves: drawer.own[id].map(toID)}];
        const base = toID(species.baseSpecies);
        return base !== id && (this.known[base] || drawer.own[base]) ? this.sets(base) : [this.unknown(species)];
      }
      drawer.prng.setSeed([...id].reduce((held, letter, n) => {
        held[n % 4] = (held[n % 4] * 31 + letter.charCodeAt(0)) % 65536;
        return held;
      }, [1, 2, 3, 4]).join(','));
      return Array.from({length: SETS}, () => {
        const set = drawer.generator.randomSet(species, {}, false, false);
        if (!this.random) {
          set.level = 100;
          drawer.train(set);
        }
        set.moves = set.moves.map(toID);
        return set;
      });
    }

    // Of a species without a role: its strongest attacks of its own types.
    unknown(species) {
      const all = [...this.dex.species.getMovePool(species.id)].map(id => this.dex.moves.get(id));
      const own = all.filter(move => move.category !== 'Status' && move.gen <= this.dex.gen && !move.selfdestruct)
        .map(move => [move.basePower * (move.accuracy === true ? 100 : move.accuracy) * (species.types.includes(move.type) ? 1.5 : 1), move.id]);
      own.sort((a, b) => b[0] - a[0] || (a[1] < b[1] ? -1 : 1));
      return {
        species: species.name, moves: own.length ? own.slice(0, 4).map(([, id]) => id) : ['tackle'], item: '', gender: '',
        ability: species.abilities[0], level: 100, evs: spread(this.dex.gen < 3 ? 252 : 84), ivs: spread(this.dex.gen < 3 ? 30 : 31),
      };
    }

    // A species that nobody on the team is.
    another(taken, prng) {
      for (let n = 0; n < 50; n++) {
        const id = prng.sample(this.pool);
        const base = this.dex.species.get(id).baseSpecies;
        if (taken.has(base) || !this.random && this.dex.species.get(id).isNonstandard) continue;
        taken.add(base);
        return id;
      }
      return prng.sample(this.pool);
    }

    // A whole set for what the tracker knows of a Pokémon; `mon` may hold no more than the species.
    whole(mon, prng) {
      const {dex} = this;
      const shown = Object.keys(mon.moves || {});
      const plain = shown.map(plainID);
      const agreement = set => 2 * set.moves.filter(id => plain.includes(plainID(id))).length +
        (mon.item && toID(set.item) === mon.item ? 1 : 0) + (mon.ability && toID(set.ability) === mon.ability ? 1 : 0);
      const options = this.sets(mon.species);
      const best = Math.max(...options.map(agreement));
      const set = prng.sample(options.filter(each => agreement(each) === best));
      const moves = shown.slice(0, 4);
      const more = [...set.moves];
      prng.shuffle(more);
      for (const id of more) {
        const at = moves.indexOf('hiddenpower');
        if (plainID(id) === 'hiddenpower' && at >= 0) moves[at] = id;
        else if (moves.length < 4 && !moves.includes(id)) moves.push(id);
      }
      const species = dex.species.get(mon.species);
      const gender = mon.seen === undefined ? species.gender || prng.sample(['M', 'F']) : mon.gender || 'N';
      const item = mon.item === '' ? '' : mon.item || (mon.gone ? '' : set.item);
      return {
        name: '', species: species.name, level: mon.level || set.level || 100, gender, item,
        moves: moves.map(id => dex.moves.get(id).name || id), ability: mon.ability || set.ability || species.abilities[0],
        teraType: mon.tera ? dex.types.get(mon.tera).name : set.teraType, nature: set.nature || '', evs: {...set.evs}, ivs: {...set.ivs},
        happiness: set.happiness,
      };
    }
  }

  const made = new Map();
  return format => {
    if (!made.has(format.id)) made.set(format.id, new Guesser(format));
    return made.get(format.id);
  };
};
