// Pipelines: when they ran, and what the steps of a run did.
const pipelineLink = (id, name, run) => make('a', {href: '#/pipeline/' + encodeURIComponent(id) + (run ? '/' + encodeURIComponent(run) : '')}, name);

function pipelinesView(root) {
  const body = make('div');
  root.append(body);
  let before = '';
  return async () => {
    const found = await call('/api/pipelines');
    const now = JSON.stringify(found) + Math.floor(Date.now() / 15000);
    if (now === before) return;
    before = now;
    const row = pipeline => {
      const last = pipeline.runs[0];
      return make('tr', {}, cell(pipelineLink(pipeline.id, pipeline.name), 'left'), cell(last ? state(last.state) : '–', 'left'), cell(last ? moment(last.scheduled) : '–'),
        cell(last && last.started ? seconds((last.ended || Date.now() / 1000) - last.started) : '–'), cell(last && last.deadline ? moment(last.deadline) : '–'), cell(moment(pipeline.due)),
        cell(make('span', {class: 'dots'}, ...pipeline.runs.slice(0, 14).reverse().map(run => make('a', {class: 'state ' + kindOf(run.state), title: `${moment(run.scheduled)}: ${run.state}`, href: pipelineLink(pipeline.id, '', run.run).hash}))), 'left'));
    };
    draw(body, ...found.problems.map(text => make('p', {class: 'problem'}, text)),
      found.pipelines.length ? table([['Pipeline', 'left'], ['Last run', 'left'], ['Of'], ['Time'], ['Deadline'], ['Due next'], ['Before', 'left']], make('tbody', {}, ...found.pipelines.map(row)))
        : empty('No pipeline has run here. ', make('code', {}, 'sullae pipeline run FILE.toml'), ' runs one.'));
  };
}

// Steps as bars over the time of the run; what they usually take as an outline.
function ganttOf(step, begin, length) {
  const bar = make('div', {class: 'gantt'});
  const piece = (from, duration, kind, title) => {
    const span = make('span', {class: kind, title});
    span.style.left = width((from - begin) / length);
    span.style.width = width(Math.min(duration, begin + length - from) / length);
    bar.append(span);
  };
  if (step.started) {
    piece(step.started, (step.ended || Date.now() / 1000) - step.started, kindOf(step.state), step.state);
    if (step.usual && !step.ended) piece(step.started, step.usual, 'usual', `usually ${seconds(step.usual)}`);
  }
  return bar;
}

function pipelineView(root, id, wanted) {
  const head = make('div'), place = make('div');
  root.append(head, place);
  let before = '', log = null, shown = '';
  return async () => {
    const found = await call('/api/pipeline?' + parameters([['id', id], ...(wanted ? [['run', wanted]] : [])]));
    const run = found.run, now = JSON.stringify(found) + Math.floor(Date.now() / 2000);
    if (now !== before) {
      before = now;
      const rows = found.run_steps, begin = Math.min(...rows.map(step => step.started || Infinity));
      const end = Math.max(begin + 1, run?.expected_end || 0, ...rows.map(step => step.ended || (step.started ? Date.now() / 1000 : 0)));
      draw(head, make('h1', {}, found.name, ' ', ...(run ? [state(run.state)] : [])),
        make('div', {class: 'cards'}, ...(run ? [card('run of', moment(run.scheduled)), card('time', run.started ? seconds((run.ended || Date.now() / 1000) - run.started) : '–'),
          ...(run.expected_end ? [card('expected to be over', moment(run.expected_end))] : []), ...(run.deadline ? [card('deadline', moment(run.deadline))] : [])] : []), ...(found.due ? [card('due next', moment(found.due))] : [])),
        make('p', {class: 'note'}, found.file), make('h2', {}, 'Steps'),
        table([['Step', 'left'], ['State', 'left'], ['Time'], ['Usually'], ['', 'left'], ['After', 'left'], ['Why', 'left']], make('tbody', {}, ...rows.map(step => make('tr', {},
          cell(make('button', {title: step.command, onclick: () => { shown = step.step; log = null; refresh(); }}, step.step), 'left'), cell(state(step.state, step.reason), 'left'),
          cell(step.started ? seconds((step.ended || Date.now() / 1000) - step.started) : '–'), cell(step.usual ? seconds(step.usual) : '–'), cell(isFinite(begin) ? ganttOf(step, begin, end - begin) : '', 'left'), cell(step.after.join(', '), 'left'), cell(step.reason, 'left wrap'))))),
        make('h2', {}, 'Runs'), table([['Of', 'left'], ['State', 'left'], ['Time'], ['Deadline']], make('tbody', {}, ...found.runs.map(one => make('tr', {}, cell(pipelineLink(id, moment(one.scheduled), one.run), 'left'), cell(state(one.state), 'left'),
          cell(one.started ? seconds((one.ended || Date.now() / 1000) - one.started) : '–'), cell(one.deadline ? moment(one.deadline) : '–'))))));
    }
    if (!run || !shown) return;
    if (!log) {
      log = new Log('/api/step-log?' + parameters([['id', id], ['run', run.run], ['step', shown]]));
      place.replaceChildren(make('h2', {}, `Log of ${shown}`), log.root);
      place.scrollIntoView({block: 'nearest'});
    }
    await log.update();
  };
}
