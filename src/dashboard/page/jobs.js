// Jobs, the queue, and nodes.
// As one would type it.
const quoted = word => /^[\w@%+=:,.\/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
const jobLink = id => make('a', {href: '#/job/' + encodeURIComponent(id)}, id);
function nodesOf(job) {
  const may = job.min_nodes === job.max_nodes ? String(job.max_nodes) : `${job.min_nodes}–${job.max_nodes}`;
  return job.over ? may : `${job.nodes}/${may}`;
}
// One that left no word has no time of its own.
const tookOf = job => job.over && !job.ended ? '–' : since(job.started, job.ended);

const jobColumns = [
  ['Job', job => jobLink(job.job), 'left'],
  ['State', job => state(job.state, job.reason), 'left'],
  ['Nodes', nodesOf],
  ['Attempts', job => String(job.attempts)],
  ['Submitted', job => whenAgo(job.submitted)],
  ['Time', tookOf],
  ['Why', job => job.reason, 'left wrap'],
];
const nodeColumns = [
  ['Node', node => node.name, 'left'],
  ['State', node => state(node.state, node.reason), 'left'],
  ['Processors in use', node => node.coordinates ? '–' : `${node.cpus - node.idle_cpus} of ${node.cpus}`],
  ['Memory', node => node.memory_mb > 1 ? bytes(node.memory_mb * 1e6) : '–'],
  ['Partitions', node => node.partitions.join(', '), 'left'],
  ['Why', node => node.reason, 'left wrap'],
];

function jobsView(root) {
  return async () => {
    const found = await call('/api/jobs');
    const queue = found.jobs.filter(job => !job.over).reverse(), over = found.jobs.filter(job => job.over);
    const running = queue.filter(job => job.state === 'running').length;
    const nodes = found.nodes.filter(node => !node.coordinates);
    const sum = of => nodes.reduce((total, node) => total + of(node), 0);
    draw(root,
      ...problemsOf(found.problems),
      ...where(found.nodes.length, cards(['running', String(running)], ['waiting', String(queue.length - running)], ['nodes', String(nodes.length)],
        ['processors in use', `${sum(node => node.cpus - node.idle_cpus)} of ${sum(node => node.cpus)}`])),
      title('Queue'),
      found.problems.length && !queue.length ? '' : queue.length ? sheet(jobColumns, queue)
        : empty('Nothing runs or waits. ', command('sullae jobs submit sullae train mnist'), ' submits a job.'),
      ...where(found.nodes.length, title('Nodes'), sheet(nodeColumns, found.nodes)),
      ...where(over.length, title('Over'), sheet(jobColumns, over.slice(0, 200))));
  };
}

function jobView(root, id) {
  const head = make('div'), place = make('div');
  root.append(head, place);
  let log = null, shown = 0, wanted = 0;
  return async () => {
    const job = await call('/api/job?' + parameters([['id', id]]));
    const endOf = one => {
      if (one.end) return state(one.end, one.reason);
      return job.over || one.attempt < job.attempts ? 'without a word' : state('running');
    };
    const look = one => () => {
      wanted = one.attempt;
      refresh();
    };
    const facts = [`submitted ${moment(job.submitted)}`, ...where(job.engine_id, `${job.engine_id} of the engine`),
      ...where(job.hosts.length, `on ${job.hosts.join(' ')}`), `folder ${job.folder}`];
    draw(head,
      make('h1', {}, job.job, ' ', state(job.state, job.reason)),
      ...where(job.reason, make('p', {class: 'reason'}, job.reason)),
      cards(['time', tookOf(job)], ['nodes', nodesOf(job)], ['attempts', String(job.attempts)], job.over && ['exit code', String(job.exit_code)]),
      make('p', {class: 'mono'}, job.command.map(quoted).join(' ')),
      note(facts.join(', ')),
      ...where(job.runs.length, make('p', {}, 'Its curves: ', ...job.runs.map(runLink))),
      ...where(job.history.length, sheet([
        ['Attempt', one => make('button', {onclick: look(one)}, `log of attempt ${one.attempt}`), 'left'],
        ['End', endOf, 'left'],
        ['Time', one => one.ended ? seconds(one.ended - one.started) : '–'],
        ['Why', one => one.reason || '', 'left wrap'],
      ], job.history)));
    if (!job.attempts) return;
    const attempt = wanted || job.attempts;
    if (shown !== attempt) {
      shown = attempt;
      log = new Log('/api/job-log?' + parameters([['id', id], ['attempt', shown]]));
      place.replaceChildren(title(`Log of attempt ${shown}`), log.root);
    }
    await log.update();
  };
}
