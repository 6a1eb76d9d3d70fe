// Many battles in one process. Reads one JSON line with any number of operations, answers with one JSON line.
//
//   {"n": 7, "do": [["choose", 3, "move 1", "switch 2"], ...]}  ->  {"n": 7, "out": [RESULT, ...]}
//
// A result is what the operation returns, or {"error": TEXT, "lost": true where the battle broke with it}.
// usage: node host.js FOLDER_OF_THE_POKEMON_SHOWDOWN_PACKAGE [plain]
'use strict';

const net = require('net');
const path = require('path');
const readline = require('readline');

console.log = console.error; // standard output is for answers alone
const [folder, plain] = process.argv.slice(2);
const sim = require(path.join(folder, 'dist', 'sim'));
const {State} = require(path.join(folder, 'dist', 'sim', 'state.js'));
if (plain !== 'plain') require('./faster.js').install(sim);
const {Tracker} = require('./track.js');
const {view} = require('./view.js');
const {Remote} = require('./remote.js');
const prompts = require('./prompts.js');
const {told} = require('./events.js');
const teams = require('./teams.js')(sim);

const SIDES = ['p1', 'p2'];
const battles = new Map();
const remotes = new Map(); // battles on a server, by their room

// `texts`: whether the sides' texts go with every answer.
class Game {
  constructor(battle, {texts, trackers, unread = [], shows = !texts}) {
    this.battle = battle;
    this.trackers = trackers || SIDES.map(id => new Tracker(id, battle.gen, battle.dex));
    this.texts = texts;
    this.shows = shows; // whether views go with every answer
    this.lines = SIDES.map(() => []); // what either side was last told of
    this.readers = !texts ? null :
      SIDES.map((id, n) => new prompts.Reader(teams.operations.dex(battle.gen), battle.format.id, id, unread[n]));
    this.error = '';
    battle.send = (type, text) => {
      const at = text.indexOf('|error|');
      if (type === 'sideupdate' && at >= 0) this.error = text.slice(at + 7);
    };
  }

  // Hands each side its lines of the log: of a secret line the owner gets the first text, the others the second.
  read() {
    const {log} = this.battle;
    for (let n = this.battle.sentLogPos; n < log.length; n++) {
      if (!log[n].startsWith('|split|')) {
        for (const tracker of this.trackers) tracker.receive(log[n]);
        continue;
      }
      const owner = log[n].slice(7);
      for (const tracker of this.trackers) {
        const line = log[tracker.me === owner ? n + 1 : n + 2];
        if (line) tracker.receive(line);
      }
      n += 2;
    }
    this.battle.sentLogPos = log.length;
  }

  views() {
    return SIDES.map((id, n) => view(this.battle, this.battle.sides[n], this.trackers[n], this.lines[n]));
  }

  answer(refused) {
    this.read();
    this.lines = this.trackers.map(tracker => tracker.lines());
    const views = this.views();
    const result = this.stands(views, refused);
    if (this.readers) {
      const {turn, winner} = this.battle;
      result.texts = this.readers.map((reader, n) => reader.read(views[n], turn, winner, refused?.[SIDES[n]]));
    }
    return result;
  }

  stands(views, refused) {
    const {battle} = this;
    const result = {turn: battle.turn, legal: views.map(each => Object.fromEntries(each.legal))};
    if (this.shows) result.views = views;
    if (battle.ended) [result.ended, result.winner] = [true, battle.winner];
    if (refused) result.refused = refused;
    return result;
  }
}

function game(id) {
  const found = battles.get(id);
  if (!found) throw new Error(`there is no battle ${id}`);
  return found;
}

function log(battle, which) {
  if (which === 'input') return battle.inputLog;
  const lines = [];
  for (let n = 0; n < battle.log.length; n++) {
    let line = battle.log[n];
    if (line.startsWith('|split|')) {
      line = which === 'all' || line.slice(7) === which ? battle.log[n + 1] : battle.log[n + 2];
      n += 2;
    }
    if (line && !line.startsWith('|t:|')) lines.push(line); // the wall clock is no part of a battle
  }
  return lines;
}

// Everything of a game as one string: objects would share the log.
function save({battle, texts, trackers, readers, shows}) {
  const state = State.serializeBattle(battle);
  const requests = battle.sides.map(side => side.activeRequest);
  const unread = readers ? readers.map(reader => reader.unread) : [];
  return JSON.stringify({
    state, requests, sent: battle.sentLogPos, trackers: trackers.map(tracker => tracker.state), texts, unread, shows,
  });
}

function load(text, seed) {
  const {state, requests, sent, trackers, ...rest} = JSON.parse(text);
  const battle = State.deserializeBattle(state);
  battle.sentLogPos = sent;
  battle.sides.forEach((side, n) => { side.activeRequest = requests[n]; }); // what was refused is known in them alone
  if (seed) battle.prng.setSeed(seed);
  return new Game(battle, {...rest, trackers: SIDES.map((id, n) => new Tracker(id, battle.gen, battle.dex, trackers[n]))});
}

const OPERATIONS = {
  start(id, texts, formatid, seed, ...sides) {
    teams.format(formatid);
    const options = {formatid, seed, debug: false};
    sides.forEach(({team, seed: drawn}, n) => {
      options[SIDES[n]] = {name: SIDES[n], team: team ? teams.unpack(team) : null, seed: drawn};
    });
    const made = new Game(new sim.Battle(options), {texts});
    battles.set(id, made);
    return made.answer();
  },
  choose(id, ...choices) {
    const playing = game(id);
    const refused = {};
    SIDES.forEach((side, n) => {
      if (choices[n] === null || choices[n] === undefined) return;
      playing.error = '';
      const taken = playing.battle.choose(side, choices[n]);
      if (!taken) refused[side] = playing.error || playing.battle.sides[n].choice.error;
    });
    return playing.answer(Object.keys(refused).length ? refused : null);
  },
  fork(id, copy, seed) {
    const original = game(id);
    const made = load(save(original), seed);
    made.lines = original.lines;
    battles.set(copy, made);
    return null;
  },
  save(id) { return save(game(id)); },
  load(id, text, seed) {
    const made = load(text, seed);
    battles.set(id, made);
    return made.stands(made.views());
  },
  views(id) {
    const asked = game(id);
    asked.shows = true; // who asks once asks again
    return asked.views();
  },
  reseed(id, seed) {
    game(id).battle.prng.setSeed(seed);
    return null;
  },
  finish(id, winner) {
    const {battle} = game(id);
    if (winner) battle.forceWin(winner);
    else battle.tie();
    return game(id).answer();
  },
  log(id, which) { return log(game(id).battle, which); },
  request(id, side) { return JSON.stringify(game(id).battle[side].activeRequest); }, // as a server would send it
  drop(...ids) {
    for (const id of ids) {
      const found = battles.get(id);
      battles.delete(id);
      if (found) found.battle.destroy();
    }
    return battles.size;
  },
  watch(room, side, formatid) {
    const dex = sim.Dex.forFormat(sim.Dex.formats.get(formatid));
    remotes.set(room, new Remote(side, dex, new prompts.Reader(teams.operations.dex(dex.gen), formatid, side)));
    return null;
  },
  hear(room, heard, request) { return remotes.get(room).hear(heard, request); },
  tell(room) { return remotes.get(room).tell(); },
  forget(room) { return remotes.delete(room); },
  events(groups, me) { return groups.map(lines => told(lines, me)); },
  text(gen, me, view, about) { return prompts.observation(teams.operations.dex(gen), me, view, about); },
  ...teams.operations,
  ...require('./imagine.js')({sim, Game, battles, game}),
};

const ONGOING = new Set(['choose', 'fork', 'save', 'finish', 'log', 'request', 'reseed', 'views']);

function perform([name, ...args]) {
  try {
    return OPERATIONS[name](...args);
  } catch (error) {
    const lost = !error.mistake && ONGOING.has(name) && battles.has(args[0]);
    if (lost) battles.delete(args[0]);
    return {error: String(error && error.message || error), lost: lost || !error.mistake};
  }
}

// not process.stdout, which blocks on a full pipe while the other side may be blocked on ours
const out = new net.Socket({fd: 1, readable: false, writable: true});
out.on('error', () => process.exit(0)); // nobody reads any more
const lines = readline.createInterface({input: process.stdin, crlfDelay: Infinity});
lines.on('line', line => {
  const {n, do: operations} = JSON.parse(line);
  out.write(JSON.stringify({n, out: operations.map(perform)}) + '\n');
});
lines.on('close', () => process.exit(0));
