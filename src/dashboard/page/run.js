// One run, and several side by side.
function timeOf(run) {
  const data = run.latest['throughput/waiting_for_data'], ranks = run.latest['throughput/waiting_for_ranks'];
  if (typeof data !== 'number' || typeof ranks !== 'number') return [];
  const paused = Math.min(1, (run.latest['world/pauses'] || 0) / Math.max(run.seconds, 1e-9));
  const parts = [
    {name: 'computing', part: Math.max(0, 1 - data - ranks) * (1 - paused), color: 'c2'},
    {name: 'waiting for data', part: data * (1 - paused), color: 'c1'},
    {name: 'waiting for other ranks', part: ranks * (1 - paused), color: 'c3'},
    {name: 'pauses while ranks came and went', part: paused, color: 'c4'},
  ].filter(({name, part}) => part > 0 || !name.startsWith('pauses'));
  const pieces = parts.map(({part, color}) => {
    const piece = make('span', {class: 'fill ' + color});
    piece.style.width = width(part);
    return piece;
  });
  const legend = parts.map(({name, part, color}) =>
    make('span', {}, make('span', {class: 'swatch fill ' + color}), `${name} ${percent(part)}`));
  return [title('Where time goes'), make('div', {class: 'bar'}, ...pieces), make('div', {class: 'legend'}, ...legend)];
}

const tagsOf = runs => [...new Set(runs.flatMap(run => run.tags.map(({tag}) => tag)))].sort();

function runView(root, id) {
  const head = make('div'), charts = new Charts([id]), tail = make('div');
  root.append(head, charts.root, tail);
  return async () => {
    const run = await call('/api/run?' + parameters([['id', id]]));
    const left = run.seconds_a_step * (run.steps - run.step);
    const rate = run.latest['throughput/samples_per_second'];
    const tested = run.tags.filter(({tag}) => tag.startsWith('test/'));
    const job = make('a', {href: '#/job/' + encodeURIComponent(run.job)}, run.job);
    draw(head,
      make('h1', {}, run.id, ' ', state(run.state, run.reason)),
      ...where(run.reason, make('p', {class: 'reason'}, run.reason)),
      ...problemsOf(run.problems),
      cards(['time', seconds(run.seconds)],
        !run.over && left > 0 && ['left, about', seconds(left)],
        [run.steps ? `of ${run.steps} steps` : 'steps', short(run.step)],
        ['ranks', String(run.ranks)],
        typeof rate === 'number' && ['samples/s', short(rate)],
        ...tested.map(({tag, last}) => [tag.replace('/', ' '), short(last)])),
      note(...where(run.id.split('/').at(-1) !== run.name, `${run.name}, `), `started ${moment(run.started)} on ${run.host}, process ${run.pid}; in ${run.folder}`, ...where(run.job, '; job ', job)),
      ...timeOf(run));
    draw(tail,
      ...where(run.notes.length, title('Notes'), sheet([
        ['When', one => moment(one.time), 'left'],
        ['Step', one => String(one.step)],
        ['', one => one.text, 'left wrap'],
      ], run.notes)),
      ...where(Object.keys(run.settings).length, title('Settings'), sheet([
        ['Setting', ([key]) => key, 'left mono'],
        ['Value', ([, value]) => value, 'left wrap mono'],
      ], Object.entries(run.settings))),
      ...where(run.damaged, ...problemsOf([`${run.damaged} lines of metrics.jsonl could not be read`])));
    await charts.update(tagsOf([run]), run.over);
    return run.over;
  };
}

function compareView(root, list = '') {
  const ids = list.split(',').map(decoded).filter(Boolean);
  const head = make('div'), charts = new Charts(ids), tail = make('div');
  root.append(make('h1', {}, `${ids.length} runs`), head, charts.root, tail);
  return async () => {
    const answers = await Promise.allSettled(ids.map(id => call('/api/run?' + parameters([['id', id]]))));
    const runs = answers.filter(({status}) => status === 'fulfilled').map(({value}) => value);
    const problems = answers.filter(({status}) => status === 'rejected').map(({reason}) => reason.message);
    const colored = run => make('span', {}, make('span', {class: 'swatch fill c' + ids.indexOf(run.id) % 10}), runLink(run.id));
    draw(head, ...problemsOf(problems), sheet([
      ['Run', colored, 'left'],
      ['State', run => state(run.state, run.reason), 'left'],
      ['Time', run => seconds(run.seconds)],
      ['Step', progressOf],
      ['Ranks', run => String(run.ranks)],
      ...columnsOf(tagsOf(runs)).map(tag => [headOf(tag), run => short(run.latest[tag])]),
    ], runs));
    const differ = key => new Set(runs.map(run => run.settings[key])).size > 1;
    const keys = [...new Set(runs.flatMap(run => Object.keys(run.settings)))].filter(differ).sort();
    draw(tail, title('Settings that differ'), keys.length === 0 ? note('None.') : sheet([
      ['Setting', key => key, 'left mono'],
      ...runs.map(run => [run.id, key => run.settings[key] ?? '–', 'left mono']),
    ], keys));
    const over = runs.every(run => run.over);
    await charts.update(tagsOf(runs), over);
    return over;
  };
}
