// Teams drawn offline: Pokémon of a tier with the movesets that the package keeps for the roles of random battles, at
// level 100, with effort values and natures by a simple rule. What the format's validator refuses is drawn again.
'use strict';

const {toID} = require('./track.js');

const TRIES = 400;
const SAME_TYPE = 3; // most Pokémon of a team that share a type
const HAZARDS = {stealthrock: 'stealthRock', spikes: 'spikes', toxicspikes: 'toxicSpikes', stickyweb: 'stickyWeb', rapidspin: 'rapidSpin', defog: 'defog'};
// of the tier, without a role in the package's tables
const OWN = {1: {chansey: ['counter', 'icebeam', 'reflect', 'seismictoss', 'softboiled', 'thunderbolt', 'thunderwave']}};

module.exports = ({Dex, Teams, TeamValidator, PRNG}) => {
  class Drawer {
    constructor(format, seed, tiers) {
      this.dex = Dex.forFormat(format);
      this.gen = this.dex.gen;
      this.prng = new PRNG(seed);
      this.generator = Teams.getGenerator(`gen${this.gen}randombattle`, this.prng);
      this.validator = TeamValidator.get(format.id);
      this.known = this.generator.randomSets;
      this.own = OWN[this.gen] || {};
      this.pool = this.dex.species.all().filter(species => tiers.includes(species.tier) && !species.isNonstandard)
        .map(species => species.id).filter(id => this.known[id] || this.own[id]).sort();
    }

    names(moves) {
      return moves.map(move => this.dex.moves.get(move).name);
    }

    shuffled(list) {
      const copy = [...list];
      this.prng.shuffle(copy);
      return copy;
    }

    // A legal set of a species, of the given role if one is given; null if none was found.
    set(id, details, role) {
      const species = this.dex.species.get(id);
      for (let n = 0; n < 20; n++) {
        const set = this.known[id] ? this.generator.randomSet(species, details, false, false) : this.plain(species);
        Object.assign(set, {level: 100, shiny: false, name: set.species || set.name, moves: this.names(set.moves)});
        if (role && set.role !== role && n < 12) continue;
        this.train(set);
        const kept = {...set, evs: {...set.evs}, ivs: {...set.ivs}, moves: [...set.moves]};
        if (!this.validator.validateSet(set, {})) return kept; // it mends sets as it goes
      }
      return null;
    }

    plain(species) {
      const full = value => ({hp: value, atk: value, def: value, spa: value, spd: value, spe: value});
      return {
        species: species.name, moves: this.shuffled(this.own[species.id]).slice(0, 4), ability: '', item: '',
        evs: full(252), ivs: full(30), gender: '',
      };
    }

    train(set) {
      if (this.gen < 3) {
        for (const stat in set.evs) set.evs[stat] = 252;
        set.ability = '';
        return;
      }
      const kinds = set.moves.map(move => this.dex.moves.get(move)).map(move => move.category);
      const physical = kinds.filter(kind => kind === 'Physical').length;
      const special = kinds.filter(kind => kind === 'Special').length;
      const attack = physical >= special ? 'atk' : 'spa';
      const role = set.role || '';
      const fast = this.dex.species.get(set.species).baseStats.spe >= 80;
      set.evs = {hp: 0, atk: 0, def: 0, spa: 0, spd: 0, spe: 0};
      if (/Sweeper|Fast|Wallbreaker/.test(role) && physical + special) {
        Object.assign(set.evs, {[attack]: 252, spe: 252, hp: 4});
        set.nature = physical && special ? fast ? 'Hasty' : 'Rash' : physical ? fast ? 'Jolly' : 'Adamant' : fast ? 'Timid' : 'Modest';
        if (physical && special && attack === 'atk' && !fast) set.nature = 'Lonely';
      } else if (/Attacker|AV Pivot/.test(role) && physical + special > 1) {
        Object.assign(set.evs, {hp: 252, [attack]: 252, spd: 4});
        set.nature = physical && special ? 'Serious' : physical ? 'Adamant' : 'Modest';
      } else {
        Object.assign(set.evs, {hp: 252, def: 128, spd: 128});
        set.nature = physical ? 'Impish' : 'Bold';
      }
    }

    // Six sets of different species that are a legal team.
    team() {
      for (let n = 0; n < TRIES; n++) {
        const sets = this.fill([], this.shuffled(this.pool), 6, n < TRIES / 2);
        if (sets.length === 6 && this.legal(sets)) return sets;
      }
      throw new Error(`no legal team was found among ${this.pool.length} species`);
    }

    fill(sets, ids, size, diverse) {
      const taken = new Set(sets.map(set => this.dex.species.get(set.species).baseSpecies));
      const types = {};
      for (const set of sets) for (const type of this.dex.species.get(set.species).types) types[type] = (types[type] || 0) + 1;
      const details = {};
      for (const id of ids) {
        if (sets.length >= size) break;
        const species = this.dex.species.get(id);
        if (taken.has(species.baseSpecies)) continue;
        if (diverse && species.types.some(type => types[type] >= SAME_TYPE)) continue;
        const set = this.set(id, details, '');
        if (!set) continue;
        sets.push(set);
        taken.add(species.baseSpecies);
        for (const type of species.types) types[type] = (types[type] || 0) + 1;
        for (const move of set.moves) if (HAZARDS[toID(move)]) details[HAZARDS[toID(move)]] = 1;
      }
      return sets;
    }

    legal(sets) {
      return !this.validator.validateTeam(Teams.unpack(Teams.pack(sets)));
    }

    // Another team with the same Pokémon: about half of the sets drawn again in their roles, some effort moved, another lead.
    vary(sets) {
      for (let n = 0; n < TRIES; n++) {
        const varied = sets.map(set => {
          const again = this.prng.randomChance(1, 2) && this.set(toID(set.speciesId || set.species), {}, set.role);
          return this.jitter(again || {...set, evs: {...set.evs}});
        });
        const lead = this.prng.random(varied.length);
        [varied[0], varied[lead]] = [varied[lead], varied[0]];
        if (this.legal(varied)) return varied;
      }
      return sets;
    }

    jitter(set) {
      if (this.gen < 3) return set;
      const stats = Object.keys(set.evs);
      const from = this.prng.sample(stats.filter(stat => set.evs[stat] >= 40));
      const to = this.prng.sample(stats.filter(stat => set.evs[stat] <= 200));
      const points = 4 * this.prng.random(1, 11);
      set.evs[from] -= points;
      set.evs[to] += points;
      return set;
    }

    // One or two Pokémon replaced by others of the tier, of the same role where one is found.
    swap(sets) {
      for (let n = 0; n < TRIES; n++) {
        const places = this.shuffled([0, 1, 2, 3, 4, 5]).slice(0, this.prng.random(1, 3));
        const kept = sets.filter((set, place) => !places.includes(place));
        const filled = this.fill([...kept], this.shuffled(this.pool), 6, n < TRIES / 2);
        const same = filled.slice(kept.length).every((set, k) => set.role === sets[places[k]].role);
        if (filled.length === 6 && (same || n > 20) && this.legal(filled)) return filled;
      }
      return sets;
    }

    // A team of the random battles, every set at level 100.
    random() {
      for (let n = 0; n < TRIES; n++) {
        const sets = this.generator.getTeam ? this.generator.getTeam() : this.generator.randomTeam();
        for (const set of sets) {
          set.level = 100;
          set.name = set.species;
          set.shiny = false;
          set.moves = this.names(set.moves);
          if (this.gen < 3) this.train(set);
        }
        if (this.legal(sets)) return sets;
      }
      throw new Error('no team of the random battles is legal here');
    }
  }

  // `way`: team, random, or vary and swap of the sets of `base`.
  function draw(format, seed, tiers, way, base) {
    const drawer = new Drawer(format, seed, tiers);
    const sets = way === 'team' || way === 'random' ? drawer[way]() : base.map(set => ({...set}));
    const made = way === 'vary' ? drawer.vary(sets) : way === 'swap' ? drawer.vary(drawer.swap(sets)) : sets;
    return made;
  }
  return {draw, Drawer};
};
