// Teams: reading, checking and drawing them.
'use strict';

const {toID} = require('./track.js');

// A mistake of whoever asked, not of the simulator.
function mistake(text) {
  return Object.assign(new Error(text), {mistake: true});
}

module.exports = sim => {
  const {Dex, Teams, TeamValidator} = sim;
  const validators = new Map();
  const roles = require('./roles.js')(sim);

  function format(id) {
    const found = Dex.formats.get(id);
    if (!found.exists) throw mistake(`there is no format ${JSON.stringify(id)}`);
    if (found.gameType !== 'singles') throw mistake(`${id} is no format of single battles`);
    return found;
  }

  // Without nicknames: a Pokémon is called by its species.
  function unpack(packed) {
    const sets = Teams.unpack(packed);
    if (!sets || !sets.length) throw mistake('the team cannot be read');
    for (const set of sets) {
      set.species = set.species || set.name;
      set.name = '';
    }
    return sets;
  }

  function validate(formatid, text) {
    format(formatid);
    if (!validators.has(formatid)) validators.set(formatid, TeamValidator.get(formatid));
    const sets = Teams.import(text);
    if (!sets || !sets.length) return {problems: ['it holds no Pokémon']};
    const {gen} = Dex.forFormat(formatid);
    for (const set of sets) {
      set.species = set.species || set.name;
      set.name = set.species;
      // the old generations' export text leaves out full effort
      if (gen < 3 && Object.values(set.evs || {}).every(value => !value)) set.evs = {hp: 252, atk: 252, def: 252, spa: 252, spd: 252, spe: 252};
    }
    const problems = validators.get(formatid).validateTeam(sets);
    return {problems: problems || [], packed: problems ? '' : Teams.pack(sets), species: sets.map(set => toID(set.species))};
  }

  const operations = {
    validate,
    dex: require('./dex.js')(sim),
    random(formatid, seed) {
      if (!format(formatid).team) throw mistake(`${formatid} draws no teams of its own`);
      return Teams.pack(Teams.generate(formatid, {seed}));
    },
    // Export text of a team drawn by `way`, of `tiers`; vary and swap begin with the team of the seed `base`.
    draw(formatid, seed, tiers, way, base) {
      const found = format(formatid);
      const sets = base ? roles.draw(found, base, tiers, 'team') : null;
      return Teams.export(roles.draw(found, seed, tiers, way, sets)).trim();
    },
    export(packed) { return Teams.export(Teams.unpack(packed)); },
    format(formatid) {
      const found = format(formatid);
      const dex = Dex.forFormat(found);
      const rules = Dex.formats.getRuleTable(found);
      return {
        id: found.id, name: found.name, gen: dex.gen, mod: dex.currentMod, random: !!found.team,
        preview: rules.has('teampreview'),
      };
    },
  };
  return {format, unpack, operations};
};
