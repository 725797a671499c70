// Pipelines: when they ran, and what the steps of a run did.
const pipelineAddress = (id, run) => ['#/pipeline', id, ...where(run, run)].map((part, i) => i ? encodeURIComponent(part) : part).join('/');
const pipelineLink = (id, text, run) => make('a', {href: pipelineAddress(id, run)}, text);
const dotOf = (id, run) =>
  make('a', {class: 'state ' + kindOf(run.state), title: `${moment(run.scheduled)}: ${run.state}`, href: pipelineAddress(id, run.run)});
const ofLast = (pipeline, what) => pipeline.runs.length ? what(pipeline.runs[0]) : '–';

function pipelinesView(root) {
  return async () => {
    const found = await call('/api/pipelines');
    draw(root, ...problemsOf(found.problems), found.pipelines.length === 0
      ? empty('No pipeline has run here. ', command('sullae pipeline run FILE.toml'), ' runs one.')
      : sheet([
        ['Pipeline', one => pipelineLink(one.id, one.name), 'left'],
        ['Last run', one => ofLast(one, run => state(run.state)), 'left'],
        ['Of', one => ofLast(one, run => moment(run.scheduled))],
        ['Time', one => ofLast(one, run => since(run.started, run.ended))],
        ['Deadline', one => ofLast(one, run => moment(run.deadline))],
        ['Due next', one => moment(one.due)],
        ['Before', one => make('span', {class: 'dots'}, ...one.runs.slice(0, 14).reverse().map(run => dotOf(one.id, run))), 'left'],
      ], found.pipelines));
  };
}

// A step as a bar over the time of the run; what it usually takes as an outline.
function ganttOf(step, begin, end) {
  const bar = make('div', {class: 'gantt'});
  const add = (from, to, kind, text) => {
    const piece = make('span', {class: kind, title: text});
    piece.style.left = width((from - begin) / (end - begin));
    piece.style.width = width((Math.min(to, end) - from) / (end - begin));
    bar.append(piece);
  };
  if (step.started) {
    add(step.started, step.ended || Date.now() / 1000, kindOf(step.state), step.state);
    if (step.usual && !step.ended) add(step.started, step.started + step.usual, 'usual', `usually ${seconds(step.usual)}`);
  }
  return bar;
}

function pipelineView(root, id, wanted) {
  const head = make('div'), place = make('div');
  root.append(head, place);
  let log = null;
  return async () => {
    const found = await call('/api/pipeline?' + parameters([['id', id], ...where(wanted, ['run', wanted])]));
    const run = found.run, steps = found.run_steps, now = Date.now() / 1000;
    const begin = Math.min(now, ...steps.filter(step => step.started).map(step => step.started));
    const end = Math.max(begin + 1, run?.expected_end || 0, ...steps.map(step => step.ended || (step.started ? now : 0)));
    const look = step => () => {
      log = new Log('/api/step-log?' + parameters([['id', id], ['run', run.run], ['step', step.step]]));
      place.replaceChildren(title(`Log of ${step.step}`), log.root);
      place.scrollIntoView({block: 'nearest'});
      refresh();
    };
    draw(head,
      make('h1', {}, found.name, ' ', ...where(run, run && state(run.state))),
      cards(run && ['run of', moment(run.scheduled)],
        run && ['time', since(run.started, run.ended)],
        run?.expected_end && ['expected to be over', moment(run.expected_end)],
        run?.deadline && ['deadline', moment(run.deadline)],
        found.due && ['due next', moment(found.due)]),
      note(found.file),
      title('Steps'),
      sheet([
        ['Step', step => make('button', {title: step.command, onclick: look(step)}, step.step), 'left'],
        ['State', step => state(step.state, step.reason), 'left'],
        ['Time', step => since(step.started, step.ended)],
        ['Usually', step => step.usual ? seconds(step.usual) : '–'],
        ['', step => ganttOf(step, begin, end), 'left'],
        ['After', step => step.after.join(', '), 'left'],
        ['Why', step => step.reason, 'left wrap'],
      ], steps),
      title('Runs'),
      sheet([
        ['Of', one => pipelineLink(id, moment(one.scheduled), one.run), 'left'],
        ['State', one => state(one.state), 'left'],
        ['Time', one => since(one.started, one.ended)],
        ['Deadline', one => moment(one.deadline)],
      ], found.runs));
    if (log) await log.update();
  };
}
