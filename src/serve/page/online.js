// Online learning: what waits, what was trained, and what came of it.
const change = measured => measured.samples === 0 ? '–'
    : `${(100 * measured.before.accuracy).toFixed(1)} → ${(100 * measured.after.accuracy).toFixed(1)} %`;
const when = milliseconds => milliseconds ? new Date(milliseconds).toLocaleString() : '';

function makeOnline(view, name) {
  const online = {state: make('span', {class: 'note online-state'}), body: make('tbody')};
  online.table = make('table', {class: 'rounds'}, make('thead', {}, make('tr', {},
    ...['Round', 'State', 'Weights', 'Samples', 'On them', 'On earlier ones', 'On the old test set', 'Changed by', 'When'].map(t => make('th', {}, t)))), online.body);
  online.root = make('div', {}, make('h3', {}, 'Online learning'),
    make('div', {class: 'row'}, make('button', {class: 'train', onclick: () => act(view, () => call(`/v1/models/${name}:train`, {}))}, 'Train now'),
      online.state), online.table);
  view.online = online;
  return online.root;
}

// What an operator says instead of the answer.
function makeCorrection(view, name, input, label) {
  const choice = make('select', {'aria-label': 'right label'}, ...view.labels.map(l => make('option', {}, l)));
  choice.value = label;
  const done = make('span', {class: 'note saved'});
  const say = label => call(`/v1/models/${name}/examples`, {examples: [{[view.input]: input, label}]});
  const save = make('button', {class: 'correct', onclick: () => act(view, async () => {
    const answer = await say(choice.value);
    done.textContent = answer.unchanged ? 'It is known already.' : 'Saved.';
    takeBack.hidden = false;
  })}, 'Save');
  const takeBack = make('button', {class: 'take-back', hidden: true, onclick: () => act(view, async () => {
    await say(null);
    done.textContent = 'Taken back.';
    takeBack.hidden = true;
  })}, 'Take back');
  return make('div', {class: 'row'}, make('span', {}, 'The right label is'), choice, save, done, takeBack);
}

// What a model that writes is to have written, to learn from.
function makeLesson(view, name, text) {
  const wanted = make('textarea', {'aria-label': 'text to learn from'});
  wanted.value = text;
  const done = make('span', {class: 'note saved'});
  const say = example => call(`/v1/models/${name}/examples`, {examples: [example]});
  let saved = '';
  const learn = make('button', {class: 'learn', onclick: () => act(view, async () => {
    const answer = await say({text: wanted.value});
    saved = wanted.value;
    done.textContent = answer.unchanged ? 'It is known already.' : 'Saved.';
    takeBack.hidden = false;
  })}, 'Learn from this');
  const takeBack = make('button', {class: 'take-back', hidden: true, onclick: () => act(view, async () => {
    const answer = await say({text: saved, label: null});
    done.textContent = answer.removed ? 'Taken back.' : 'It was not there under this text.';
    takeBack.hidden = true;
  })}, 'Take back');
  return make('div', {}, make('span', {class: 'note'}, 'It should have been:'), wanted, make('div', {class: 'row'}, learn, done, takeBack));
}

function makeRound(round) {
  const {changed, earlier, test} = round.result;
  const running = round.state === 'training' && round.steps ? ` ${round.step}/${round.steps}` : '';
  const authors = Object.entries(round.authors).map(([author, count]) => `${author} (${count})`).join(', ');
  const cells = [String(round.id), make('span', {class: 'state ' + round.state}, round.state + running),
    round.version ? `${round.parent} → ${round.version}` : String(round.parent), changed.samples || '–',
    change(changed), change(earlier), change(test), authors, when(round.ended || round.started)];
  const rows = [make('tr', {}, ...cells.map(cell => make('td', {}, cell)))];
  if (round.reason) rows.push(make('tr', {}, make('td', {colspan: 9, class: 'reason'}, round.reason)));
  return rows;
}

async function showOnline(view, name) {
  try {
    const online = await call(`/v1/models/${name}/online`);
    view.online.state.textContent = `${online.examples} ${online.examples === 1 ? 'sample' : 'samples'}, ${online.waiting} not trained yet`
      + (online.called ? ', a round is asked for' : '')
      // A learner takes a model up with its first sample.
      + (online.running || online.examples === 0 ? '' : '; nothing learns: start the server with --online, or sullae online');
    view.online.body.replaceChildren(...online.rounds.flatMap(makeRound));
    view.online.table.hidden = online.rounds.length === 0;
  } catch (error) { view.online.state.textContent = error.message; }
}
