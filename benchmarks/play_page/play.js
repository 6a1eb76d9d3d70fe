// The page of a game: its state comes as events, answers go back one at a time.

const app = document.getElementById('app');
document.body.classList.add('playing');
const notice = el('p', { class: 'notice', role: 'status', hidden: true });
const top = el('header', { class: 'card head' });
const scene = el('div', { class: 'scene' });
const history = el('div', { class: 'history', 'aria-label': 'history', 'aria-live': 'polite' });
const ask = el('div', { class: 'ask' });
app.append(el('div', { class: 'page', role: 'main' }, top, notice, el('div', { class: 'game' }, scene, el('div', { class: 'talk' }, history, ask))));

let state = null;
let draft = null; // the text field, where there is one

const note = (text) => { notice.textContent = text; notice.hidden = !text; };

const send = async (text) => {
  for (const node of ask.querySelectorAll('button, textarea, input')) node.disabled = true;
  const body = JSON.stringify({ question: state.question, text });
  try {
    const answer = await fetch('answer', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
    if (!answer.ok) throw new Error(answer.status === 413 ? 'the answer is too long' : `it was refused (${answer.status})`);
    if (!(await answer.json()).taken) throw new Error('this question was answered already');
  } catch (error) {
    note(`Not sent: ${error.message}.`);
    for (const node of ask.querySelectorAll('button, textarea, input')) node.disabled = false;
  }
};

// --- the head ---------------------------------------------------------------------------------------

const member = ([name, policy], n) => el('span', { class: n === state.place ? 'pill you' : 'pill' }, dot(n), name, el('span', { class: 'zero' }, n === state.place ? 'you' : policy === 'human' ? 'also you' : policy));

const drawHead = () => {
  const role = state.role && state.role !== state.agent ? ` (${state.role})` : '';
  top.replaceChildren(
    el('div', { class: 'title' }, el('h1', null, state.env), el('p', { class: 'facts' }, `task ${state.task}`)),
    el('div', { class: 'team' }, state.team.map(member)),
    el('p', { class: 'you' }, 'You play ', el('b', null, state.agent), role),
    el('p', { class: 'total' }, 'reward so far ', el('b', { class: state.total < 0 ? 'bad' : null }, figure(state.total))));
};

// --- the history ------------------------------------------------------------------------------------

const rewardLine = (entry, battle) => {
  const parts = battle ? entry.parts.filter(([, value]) => value !== 0) : entry.parts;
  if (!entry.reward && !parts.length && !entry.reason && !entry.illegal) return null;
  const single = parts.length === 1 && parts[0][1] === entry.reward;
  return el('p', { class: 'earned' }, el('b', { class: entry.reward < 0 ? 'bad' : entry.reward ? 'good' : null }, `reward ${figure(entry.reward, true)}`),
    parts.map(([name, value]) => el('span', null, single ? name : `${name} ${figure(value, true)}`)),
    entry.illegal ? el('span', { class: 'bad' }, entry.illegal === 1 ? 'illegal' : `${entry.illegal} illegal moves`) : null,
    entry.reason ? el('span', { class: 'why', dir: 'auto' }, entry.reason) : null);
};

const bubble = (kind, who, text) => el('div', { class: `bubble ${kind}` }, el('p', { class: 'label' }, who), prose(text));

const turnView = (entry) => {
  const battle = entry.story !== null;
  const read = battle ? entry.story : entry.text;
  const earned = rewardLine(entry, battle);
  if (battle && !read && entry.answer === null && !earned) return null; // it waited
  return el('article', { class: battle ? 'turn brief' : 'turn', 'aria-label': `turn ${entry.turn}` },
    el('h3', null, battle ? `Choice ${entry.turn}` : `Turn ${entry.turn}`),
    read ? bubble('read', battle ? 'what happened' : `${state.agent} reads`, read) : null,
    entry.answer === null ? (battle ? null : el('p', { class: 'label' }, `${state.agent} waited`)) : bubble('mine', 'you', entry.answer),
    entry.taken ? el('p', { class: 'taken' }, 'taken for: ', el('b', null, entry.taken)) : null,
    earned);
};

const question = () => {
  const { asked } = state;
  if (!asked) return null;
  const battle = asked.story !== null;
  const long = battle ? asked.story : asked.text;
  return el('article', { class: battle ? 'turn brief now' : 'turn now', 'aria-label': 'now' },
    el('h3', null, `${battle ? 'Choice' : 'Turn'} ${state.earlier + state.history.length + 1}`, el('span', { class: 'pill you' }, dot(state.place), `${state.agent} answers`)),
    long ? bubble('read', battle ? 'what happened' : `${state.agent} reads`, long) : null,
    battle ? el('details', { class: 'shown' }, el('summary', null, el('span', { class: 'label' }, `all that ${state.agent} reads`)), el('pre', { dir: 'auto' }, asked.text)) : null);
};

const drawHistory = () => {
  history.replaceChildren(...[
    state.earlier ? el('p', { class: 'zero' }, `${count(state.earlier, 'earlier turn')} are in the replay`) : null,
    state.history.map(turnView), question(), state.end ? endView() : null].flat().filter(Boolean));
};

// --- the end ----------------------------------------------------------------------------------------

const verdictOf = ({ outcome, stop }) => {
  if (stop === 'unscored') return 'This game could not be scored';
  if (outcome === null || state.team.length !== 2 || state.end.team) return 'The episode is over';
  if (!outcome) return 'There is no winner';
  if (state.team.every(([, policy]) => policy === 'human')) return `${state.team[outcome > 0 ? 0 : 1][0]} has won`;
  return (outcome > 0) === (state.place === 0) ? 'You have won' : 'You have lost';
};

const endView = () => {
  const { end } = state;
  const last = end.story === null ? end.text : end.story;
  return el('article', { class: 'turn over', 'aria-label': 'end' },
    last ? bubble('read', end.story === null ? `${state.agent} reads` : 'what happened', last) : null,
    el('div', { class: 'card result' }, el('h2', null, verdictOf(end)),
      el('p', { class: 'facts' }, `${end.stop} after ${count(end.turns, 'turn')}`),
      end.team ? el('p', { class: 'worth' }, el('b', null, figure(end.team[0])), el('span', { class: 'zero' }, `of ${figure(end.team[1])}, the team's reward`)) : null,
      el('table', { class: 'totals' }, el('tbody', null, end.totals.map(([name, value], n) => el('tr', null, el('th', { scope: 'row' }, dot(n), name, el('span', { class: 'zero' }, ` ${state.team[n][1]}`)), el('td', { class: 'num' }, figure(value, true))))))),
    end.others.map(([name, text]) => bubble('read', `${name} answered in the last turn`, text)));
};

// --- the answer -------------------------------------------------------------------------------------

const keep = (text) => { try { sessionStorage.setItem(`${location.pathname}${state.question}`, text); } catch { /* without storage a draft is lost on reload */ } };
const kept = () => { try { return sessionStorage.getItem(`${location.pathname}${state.question}`) || ''; } catch { return ''; } };

const remarks = () => el('div', { class: 'remarks', role: 'status' }, state.remarks.map((text) => el('p', { dir: 'auto' }, text)));

const actionButton = ([action, label]) => {
  const [, name, words] = ((state.scene && state.scene.actions) || []).find(([known]) => known === action) || [action, label, ''];
  return el('button', { type: 'button', class: 'action', onclick: () => send(action) }, el('b', null, name), words ? el('span', null, words) : null);
};

const chooser = () => (state.asked.actions.length ? el('div', { class: 'chooser' }, grouped(state.asked.actions).map(([heading, actions]) => el('fieldset', { class: 'actions' },
  heading ? el('legend', null, heading) : null, actions.map(actionButton)))) : null);

const writer = () => {
  const choosing = state.asked.actions.length > 0;
  const field = choosing ? el('input', { type: 'text', maxlength: String(state.most), 'aria-label': 'answer', placeholder: 'or type an action, its number, help or quit', autocomplete: 'off' })
    : el('textarea', { maxlength: String(state.most), rows: '4', 'aria-label': 'answer', placeholder: 'Write your answer. Enter sends it, Shift and Enter begin a line.' });
  field.value = kept();
  field.addEventListener('input', () => { keep(field.value); drawScene(); });
  field.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.isComposing || event.shiftKey || (isBoard() && !event.ctrlKey && !event.metaKey)) return;
    event.preventDefault();
    send(field.value);
  });
  if (isBoard()) field.placeholder = 'One command a line. Ctrl and Enter send them.';
  draft = field;
  return el('form', { class: 'writer', onsubmit: (event) => { event.preventDefault(); send(field.value); } }, field,
    el('div', { class: 'tools' }, el('button', { type: 'submit', class: 'send' }, 'Send'), button('help', () => send('/help')), button('leave', () => send('/quit'))));
};

const drawAsk = () => {
  draft = null;
  const parts = [];
  if (state.phase === 'asking') parts.push(chooser(), remarks(), writer());
  else if (state.phase === 'waiting') parts.push(el('p', { class: 'zero waiting' }, state.end ? 'The replay is being made …' : 'Waiting for the others …'));
  else if (state.phase === 'ended') parts.push(el('div', { class: 'tools' },
    el('a', { class: 'send', href: 'replay', target: '_blank', rel: 'noopener' }, 'Open the replay'), button('Play again (next task)', () => send('again'), { id: 'again' }), button('Finish', () => send('finish'), { id: 'finish' })));
  else parts.push(el('div', { class: 'card over' }, state.remarks.map((text) => el('p', null, text)), el('p', { class: 'zero' }, 'Nothing is served any more.')));
  ask.replaceChildren(...parts.flat(2).filter(Boolean));
  if (draft && matchMedia('(min-width: 801px)').matches) draft.focus({ preventScroll: true });
};

const isBoard = () => Boolean(state.scene) && state.scene.kind === 'board';

const drawScene = () => {
  if (!state.scene) return scene.replaceChildren();
  if (!isBoard()) return scene.replaceChildren(battleScene(state.scene, state));
  const add = (lines) => { draft.value = [draft.value.trimEnd(), ...lines].filter(Boolean).join('\n').slice(0, state.most); keep(draft.value); draft.scrollTop = draft.scrollHeight; drawScene(); };
  return scene.replaceChildren(boardScene(state.scene, draft ? draft.value : '', draft ? add : null));
};

const draw = () => {
  if (!state.env) return;
  document.title = `${state.agent} · ${state.env} · Palaver`;
  document.body.classList.toggle('staged', Boolean(state.scene));
  drawHead();
  drawHistory();
  drawAsk();
  drawScene();
  const last = history.lastElementChild;
  if (!last) return;
  if (state.scene) history.scrollTop = state.end ? last.offsetTop : history.scrollHeight;
  else last.scrollIntoView({ block: 'start' });
};

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => state && drawScene());

const source = new EventSource('events');
source.onmessage = (event) => {
  state = JSON.parse(event.data);
  note('');
  draw();
  if (state.phase === 'closed') source.close();
};
source.onerror = () => note('The connection is lost; the game may have ended in the terminal.');
