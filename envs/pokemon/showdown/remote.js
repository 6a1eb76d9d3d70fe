// A battle that is played elsewhere, on a server: what one side is told of it, made into the same view as of our own.
'use strict';

const {Tracker, toID} = require('./track.js');
const {view} = require('./view.js');



// of the room and the people in it, not of the battle
const ROOM = new Set([
  'init', 'title', 'deinit', 'j', 'J', 'l', 'L', 'n', 'N', 'join', 'leave', 'c', 'c:', 'chat', 'askreg', 'expire', 'error',
  'bigerror', 'uhtmlchange', 'tempnotify', 'tempnotifyoff', 'notify', 'hidelines', 'unlink', 'pm', 'message',
]);

class Remote {
  constructor(me, dex, reader) {
    this.me = me;
    this.dex = dex;
    this.reader = reader;
    this.tracker = new Tracker(me, dex.gen, dex);
    this.known = new Map(); // how the server calls a Pokémon of ours -> what we know of it, in the order of the team
    this.ended = false;
    this.request = null;
    this.shown = null; // the last view
  }

  // Lines of the protocol as this side received them, and its request if there is a new one.
  hear(lines, request) {
    for (const line of lines) {
      if (line[0] !== '|' || ROOM.has(line.split('|', 2)[1])) continue;
      this.spent(line);
      this.tracker.receive(line);
      if (/^\|(win|tie)(\||$)/.test(line)) this.ended = true;
    }
    if (request) this.request = request;
    this.shown = this.request ? this.view() : null;
    return {turn: this.tracker.state.turn, view: this.shown};
  }

  // What was heard last, as this side reads it.
  tell() {
    return this.shown ? this.reader.read(this.shown, this.tracker.state.turn, '', '', 0) : '';
  }

  view() {
    const {request, dex} = this;
    const pokemon = request.side.pokemon.map(told => this.mon(told));
    const active = request.active && request.active[0];
    if (active) this.counted(pokemon[0], active.moves);
    const side = {
      pokemon,
      team: [...this.known.values()].map(mon => mon.set),
      active: request.teamPreview ? [] : pokemon.filter((mon, n) => request.side.pokemon[n].active),
      activeRequest: request,
      isChoiceDone: () => false,
      slotConditions: [{revivalblessing: request.side.pokemon.some(told => told.reviving)}],
    };
    return view({ended: this.ended, gen: dex.gen}, side, this.tracker, this.tracker.lines());
  }

  mon(told) {
    const [species, ...details] = told.details.split(', ');
    let mon = this.known.get(told.ident);
    if (!mon) {
      mon = {set: {species}, name: told.ident.slice(4), moveSlots: [], maxhp: 1};
      this.known.set(told.ident, mon);
    }
    const [points, status] = told.condition.split(' ');
    const [hp, max] = points.split('/').map(Number);
    const level = details.find(part => /^L\d+$/.test(part));
    Object.assign(mon, {
      species: this.dex.species.get(species),
      level: level ? Number(level.slice(1)) : 100,
      gender: details.find(part => part === 'M' || part === 'F') || '',
      hp, maxhp: max || mon.maxhp, fainted: status === 'fnt', status: status && status !== 'fnt' ? status : '',
      item: toID(told.item || ''), ability: toID(told.ability || told.baseAbility || ''),
      teraType: told.teraType || '', terastallized: told.terastallized,
    });
    mon.baseStoredStats = told.stats;
    if (!mon.moveSlots.length || told.moves.some((id, n) => this.plain(id) !== mon.moveSlots[n]?.id)) {
      mon.moveSlots = told.moves.map(id => this.slot(mon, id));
    }
    return mon;
  }

  // Requests name some moves with a type or power: hiddenpowerfire60, return102.
  plain(id) {
    return id.startsWith('hiddenpower') ? 'hiddenpower' : id.replace(/^(return|frustration)\d+$/, '$1');
  }

  slot(mon, id) {
    if (id.startsWith('hiddenpower')) mon.hpType = id.slice(11).replace(/\d+$/, '');
    const move = this.dex.moves.get(this.plain(id));
    const most = move.noPPBoosts ? move.pp : this.dex.gen < 3 ? Math.min(61, Math.floor(move.pp * 8 / 5)) : Math.floor(move.pp * 8 / 5);
    return {id: this.plain(id), pp: most, maxpp: most};
  }

  // One that leaves the field after its move is not in a request's moves any more.
  spent(line) {
    const [, command, user, move, , ...tags] = line.split('|');
    if (command !== 'move' || user.slice(0, 2) !== this.me || tags.some(tag => tag.startsWith('[from]'))) return;
    if (this.dex.gen === 1 && tags.includes('[still]')) return; // pays when it strikes
    const mon = this.known.get(this.me + user.slice(user.indexOf(':')));
    const slot = mon && mon.moveSlots.find(each => each.id === this.plain(toID(move)));
    if (slot) slot.pp = Math.max(0, slot.pp - 1);
  }

  // Only the active one's request tells what is left of its moves.
  counted(mon, moves) {
    for (const told of moves) {
      const slot = mon.moveSlots.find(each => each.id === this.plain(told.id));
      if (slot && told.maxpp) [slot.pp, slot.maxpp] = [told.pp, told.maxpp];
    }
  }
}

module.exports = {Remote};
