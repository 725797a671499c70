// One run, and several side by side.
function timeOf(run) {
  const data = run.latest['throughput/waiting_for_data'], ranks = run.latest['throughput/waiting_for_ranks'];
  if (typeof data !== 'number' || typeof ranks !== 'number') return [];
  const pauses = Math.min(1, (run.latest['world/pauses'] || 0) / Math.max(run.seconds, 1e-9));
  const parts = [['computing', Math.max(0, 1 - data - ranks) * (1 - pauses), 2], ['waiting for data', data * (1 - pauses), 1], ['waiting for other ranks', ranks * (1 - pauses), 3]];
  if (pauses > 0) parts.push(['pauses while ranks came and went', pauses, 4]);
  const bar = make('div', {class: 'bar'}, ...parts.map(([, part, color]) => {
    const piece = make('span', {class: 'fill c' + color});
    piece.style.width = width(part);
    return piece;
  }));
  return [make('h2', {}, 'Where time goes'), bar, make('div', {class: 'legend'}, ...parts.map(([name, part, color]) => make('span', {}, make('span', {class: 'swatch fill c' + color}), `${name} ${percent(part)}`)))];
}

function runView(root, id) {
  const head = make('div'), charts = new Charts([id]), tail = make('div');
  root.append(head, charts.root, tail);
  let before = '';
  return async () => {
    const run = await call('/api/run?' + parameters([['id', id]]));
    const now = JSON.stringify({...run, seconds: Math.floor(run.seconds)});
    if (now !== before) {
      before = now;
      const left = run.over || !run.steps || !run.seconds_a_step ? NaN : run.seconds_a_step * (run.steps - run.step);
      const rate = run.latest['throughput/samples_per_second'];
      draw(head, make('h1', {}, run.id === '.' ? run.name : run.id, ' ', state(run.state, run.reason)), ...(run.reason ? [make('p', {class: 'reason'}, run.reason)] : []),
        make('div', {class: 'cards'}, card('time', seconds(run.seconds)), ...(isFinite(left) ? [card('left, about', seconds(left))] : []), card(run.steps ? `of ${run.steps} steps` : 'steps', short(run.step)),
          card('ranks', String(run.ranks)), ...(typeof rate === 'number' ? [card('samples/s', short(rate))] : []),
          ...run.tags.filter(({tag}) => tag.startsWith('test/')).map(({tag, last}) => card(tag.replace('/', ' '), short(last)))),
        make('p', {class: 'note'}, `started ${moment(run.started)} on ${run.host}, process ${run.pid}; in ${run.folder}`, ...(run.job ? ['; job ', make('a', {href: '#/job/' + encodeURIComponent(run.job)}, run.job)] : [])),
        ...timeOf(run));
      const rows = Object.entries(run.settings).map(([key, value]) => make('tr', {}, cell(key, 'left mono'), cell(value, 'left wrap mono')));
      draw(tail, 
        ...(run.notes.length ? [make('h2', {}, 'Notes'), table([['When', 'left'], ['Step'], ['', 'left']], make('tbody', {}, ...run.notes.map(note => make('tr', {}, cell(moment(note.time), 'left'), cell(String(note.step)), cell(note.text, 'left wrap')))))] : []),
        ...(rows.length ? [make('h2', {}, 'Settings'), table([['Setting', 'left'], ['Value', 'left']], make('tbody', {}, ...rows))] : []),
        ...(run.damaged ? [make('p', {class: 'problem'}, `${run.damaged} lines of metrics.jsonl could not be read`)] : []));
    }
    await charts.update(run.tags.map(({tag}) => tag).sort(), run.over);
  };
}

function compareView(root, list) {
  const ids = (list || '').split(',').map(decoded).filter(Boolean);
  const head = make('div'), charts = new Charts(ids), tail = make('div');
  root.append(make('h1', {}, `${ids.length} runs`), head, charts.root, tail);
  let before = '';
  return async () => {
    const runs = await Promise.all(ids.map(id => call('/api/run?' + parameters([['id', id]]))));
    const now = JSON.stringify(runs.map(run => ({...run, seconds: Math.floor(run.seconds)})));
    if (now !== before) {
      before = now;
      const tags = columnsOf([...new Set(runs.flatMap(run => run.tags.map(({tag}) => tag)))].sort());
      draw(head, table([['Run', 'left'], ['State', 'left'], ['Time'], ['Step'], ['Ranks'], ...tags.map(tag => [headOf(tag)])], make('tbody', {}, ...runs.map((run, i) => make('tr', {},
        cell(make('span', {}, make('span', {class: 'swatch fill c' + i % 10}), runLink(run.id, run.id)), 'left'), cell(state(run.state, run.reason), 'left'), cell(seconds(run.seconds)),
        cell(progressOf(run)), cell(String(run.ranks)), ...tags.map(tag => cell(short(run.latest[tag]))))))));
      const keys = [...new Set(runs.flatMap(run => Object.keys(run.settings)))].sort().filter(key => new Set(runs.map(run => run.settings[key])).size > 1);
      draw(tail, make('h2', {}, 'Settings that differ'), keys.length === 0 ? make('p', {class: 'note'}, 'None.')
        : table([['Setting', 'left'], ...runs.map(run => [run.id, 'left'])], make('tbody', {}, ...keys.map(key => make('tr', {}, cell(key, 'left mono'), ...runs.map(run => cell(run.settings[key] ?? '–', 'left mono')))))));
    }
    await charts.update([...new Set(runs.flatMap(run => run.tags.map(({tag}) => tag)))].sort(), runs.every(run => run.over));
  };
}
