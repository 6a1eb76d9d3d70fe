// Lines of the simulator's protocol as short sentences for one side; for an onlooker where `me` is empty.
'use strict';

const MAJOR = new Set(['move', 'switch', 'drag', 'replace', 'cant', 'faint', 'win', 'tie', '-weather', 'detailschange']);
const IDENT = /^(p[12])[a-c]?: ?(.*)$/;
const KEPT = ['[from] ', '[of] ', '[wisher] ', '[upkeep]'];
const MOST = 300; // characters of a sentence
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;
// as in palaver.text: controls, marks that turn the direction of writing, line separators, broken unicode
const UNSAFE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]/gu;
const SIMPLE = new Map(Object.entries({
  '-crit': 'a critical hit', '-supereffective': 'super effective', '-resisted': 'not very effective',
  '-ohko': 'a one-hit knock-out', '-nothing': 'nothing happened', '-clearallboost': 'all stat changes are gone',
  'tie': 'the battle is a tie',
}));

function visible(character) {
  const code = character.codePointAt(0);
  return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? '\u2421' : '\ufffd';
}

// Safe to show, on one line, cut.
function oneLine(text) {
  if (text.length <= MOST && PLAIN.test(text)) return text;
  const whole = Array.from(text);
  let shown = whole.slice(0, MOST).join('').replace(/\r\n?/g, '\n').replace(UNSAFE, visible);
  if (whole.length > MOST) shown += ` … [${(whole.length - MOST).toLocaleString('en-US')} more characters]`;
  return shown.trim().replace(/\s+/g, ' ');
}

const at = (given, n) => n < given.length ? given[n] : '';

function who(ident, me) {
  const found = ident.charCodeAt(0) === 112 && IDENT.exec(ident); // p
  if (!found) return ident;
  const [, side, name] = found;
  const owner = !me ? side : side === me ? 'your' : 'their';
  return name === 'p1' || name === 'p2' || !name ? `${owner} side` : `${owner} ${name}`;
}

function tag(part, me) {
  const end = part.indexOf(']');
  return `(${`${part.slice(1, end)} ${who(part.slice(end + 1).trim(), me)}`.trim()})`;
}

const enter = how => (given, me) => {
  const name = at(given, 1).split(',', 1)[0];
  const shown = who(at(given, 0), me);
  return `${shown}${shown.endsWith(` ${name}`) ? '' : ` (${name})`} ${how} ${at(given, 2)}`.trimEnd();
};
const stage = sign => (given, me) => `${who(at(given, 0), me)} ${at(given, 1)} ${sign}${at(given, 2)}`;
const says = words => (given, me) => {
  let text = `${who(at(given, 0), me)} ${words}`;
  for (let n = 1; n < given.length; n++) text += ` ${who(given[n], me)}`;
  return text.trim();
};

const TOLD = new Map(Object.entries({
  'move': (given, me) => {
    const [user, target] = [at(given, 0), at(given, 2)];
    const text = `${who(user, me)} used ${at(given, 1)}`;
    return target && target !== user ? `${text} on ${who(target, me)}` : text;
  },
  'switch': enter('came in'),
  'drag': enter('was dragged in'),
  'replace': enter('was the one under the illusion'),
  'cant': (given, me) => `${who(at(given, 0), me)} could not move (${given.slice(1).filter(Boolean).join(', ')})`,
  'faint': says('fainted'),
  'win': (given, me) => !me ? `${at(given, 0)} won` : at(given, 0) === me ? 'you won the battle' : 'you lost the battle',
  '-damage': says('down to'),
  '-heal': says('up to'),
  '-sethp': says('now at'),
  '-status': says('got'),
  '-curestatus': says('cured of'),
  '-boost': stage('+'),
  '-unboost': stage('-'),
  '-setboost': stage('set to '),
  '-miss': (given, me) => `${who(at(given, 0), me)} missed`,
  '-immune': says('is immune'),
  '-fail': says('failed'),
  '-start': says('starts:'),
  '-end': says('ends:'),
  '-sidestart': says('gets'),
  '-sideend': says('loses'),
  '-fieldstart': given => `field: ${at(given, 0)}`,
  '-fieldend': given => `field ends: ${at(given, 0)}`,
  '-weather': given => `weather: ${at(given, 0)}`,
  '-mustrecharge': says('must recharge'),
  '-prepare': says('prepares'),
  '-singleturn': says('for this turn:'),
  '-singlemove': says('until it moves:'),
  '-hitcount': (given, me) => `hit ${who(at(given, 0), me)} ${at(given, 1)} times`,
  '-ability': says('has the ability'),
  '-item': says('has the item'),
  '-enditem': says('lost the item'),
  '-terastallize': says('terastallized to'),
  '-transform': says('transformed into'),
  'detailschange': says('became'),
}));

function sentence(line, me) {
  const parts = line.split('|');
  const command = parts.length > 1 ? parts[1] : '';
  const given = [];
  let tags = '';
  for (let n = 2; n < parts.length; n++) {
    const part = parts[n];
    if (part[0] !== '[') given.push(part);
    else if (KEPT.some(known => part.startsWith(known))) tags += ` ${tag(part, me)}`;
  }
  let text = SIMPLE.get(command);
  if (text === undefined) {
    const told = TOLD.get(command);
    text = told ? told(given, me) : [command.replace(/^-+/, ''), ...given.map(part => who(part, me))].join(' ');
  }
  return oneLine(text + tags);
}

// One text line for every move, switch or the like, with what came of it after semicolons.
function told(lines, me) {
  let made = '';
  for (const line of lines) {
    const text = sentence(line, me);
    if (!text) continue;
    if (!made) made = text;
    else made += (MAJOR.has(line.slice(1, line.indexOf('|', 1))) ? '\n' : '; ') + text;
  }
  return made;
}

module.exports = {told};
