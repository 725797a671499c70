// Jobs, the queue, nodes, and logs that are read on as they grow.
class Log {
  // `path` answers pieces of it.
  constructor(path) {
    this.path = path;
    this.end = -1;
    this.kept = 0;  // letters
    this.before = make('span');
    this.root = make('pre', {class: 'log', tabindex: 0, 'aria-label': 'log'});
  }
  async update() {
    for (;;) {
      const piece = await call(this.path + (this.end < 0 ? '' : '&from=' + this.end));
      const follows = this.root.scrollTop + this.root.clientHeight >= this.root.scrollHeight - 20;
      if (piece.begin !== this.end) {
        this.root.replaceChildren(this.before);
        this.kept = 0;
      }
      if (piece.text) this.root.append(piece.text);
      this.kept += piece.text.length;
      while (this.kept > 2e6 && this.root.childNodes.length > 2) {
        this.kept -= this.root.childNodes[1].length;
        this.root.childNodes[1].remove();
      }
      this.before.textContent = piece.end > this.kept + 3 ? `… about ${bytes(piece.end - this.kept)} before this\n` : '';
      const rest = piece.size - piece.end, grew = piece.end > this.end;
      this.end = piece.end;
      if (follows) this.root.scrollTop = this.root.scrollHeight;
      if (!grew || rest <= 0) return;
    }
  }
}

// As one would type it.
const typed = words => words.map(word => /^[\w@%+=:,.\/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
const nodesOf = job => job.over ? String(job.max_nodes) : `${job.nodes}/${job.min_nodes === job.max_nodes ? job.max_nodes : `${job.min_nodes}–${job.max_nodes}`}`;
const tookOf = job => !job.started || job.over && !job.ended ? '–' : seconds((job.ended || Date.now() / 1000) - job.started);
const jobLink = id => make('a', {href: '#/job/' + encodeURIComponent(id)}, id);

function jobsView(root) {
  const body = make('div');
  root.append(body);
  let before = '';
  return async () => {
    const found = await call('/api/jobs');
    const now = JSON.stringify(found) + Math.floor(Date.now() / 5000);
    if (now === before) return;
    before = now;
    const rows = jobs => make('tbody', {}, ...jobs.map(job => make('tr', {}, cell(jobLink(job.job), 'left'), cell(state(job.state, job.reason), 'left'), cell(nodesOf(job)), cell(String(job.attempts)),
      make('td', {title: moment(job.submitted)}, ago(job.submitted)), cell(tookOf(job)), cell(job.reason, 'left wrap'))));
    const heads = [['Job', 'left'], ['State', 'left'], ['Nodes'], ['Attempts'], ['Submitted'], ['Time'], ['Why', 'left']];
    const queue = found.jobs.filter(job => !job.over).reverse(), over = found.jobs.filter(job => job.over);
    const forRanks = found.nodes.filter(node => !node.coordinates);
    const busy = forRanks.reduce((sum, node) => sum + node.cpus - node.idle_cpus, 0), all = forRanks.reduce((sum, node) => sum + node.cpus, 0);
    draw(body, ...found.problems.map(text => make('p', {class: 'problem'}, text)),
      make('div', {class: 'cards'}, card('running', String(queue.filter(job => job.state === 'running').length)), card('waiting', String(queue.filter(job => job.state !== 'running').length)),
        card('nodes', String(forRanks.length)), card('processors in use', `${busy} of ${all}`)),
      make('h2', {}, 'Queue'), queue.length ? table(heads, rows(queue)) : empty('Nothing runs or waits. ', make('code', {}, 'sullae jobs submit sullae train mnist'), ' submits a job.'),
      ...(found.nodes.length ? [make('h2', {}, 'Nodes'), table([['Node', 'left'], ['State', 'left'], ['Processors in use'], ['Memory'], ['Partitions', 'left'], ['Why', 'left']], make('tbody', {}, ...found.nodes.map(node => make('tr', {},
        cell(node.name, 'left'), cell(state(node.state, node.reason), 'left'), cell(node.coordinates ? '–' : `${node.cpus - node.idle_cpus} of ${node.cpus}`), cell(node.memory_mb > 1 ? bytes(node.memory_mb * 1e6) : '–'), cell(node.partitions.join(', '), 'left'), cell(node.reason, 'left wrap')))))] : []),
      ...(over.length ? [make('h2', {}, 'Over'), table(heads, rows(over.slice(0, 200)))] : []));
  };
}

function jobView(root, id) {
  const head = make('div'), place = make('div');
  root.append(head, place);
  let before = '', log = null, shown = 0, wanted = 0;
  return async () => {
    const job = await call('/api/job?' + parameters([['id', id]]));
    const now = JSON.stringify(job) + Math.floor(Date.now() / 5000);
    if (now !== before) {
      before = now;
      draw(head, make('h1', {}, job.job, ' ', state(job.state, job.reason)), ...(job.reason ? [make('p', {class: 'reason'}, job.reason)] : []),
        make('div', {class: 'cards'}, card('time', tookOf(job)), card('nodes', nodesOf(job)), card('attempts', String(job.attempts)), ...(job.over ? [card('exit code', String(job.exit_code))] : [])),
        make('p', {class: 'mono'}, typed(job.command)),
        make('p', {class: 'note'}, `submitted ${moment(job.submitted)}${job.engine_id ? `, ${job.engine_id} of the engine` : ''}${job.hosts.length ? `, on ${job.hosts.join(' ')}` : ''}; folder ${job.folder}`),
        ...(job.runs.length ? [make('p', {}, 'Its curves: ', ...job.runs.map(run => runLink(run, run)))] : []),
        ...(job.history.length ? [table([['Attempt', 'left'], ['End', 'left'], ['Time'], ['Why', 'left']], make('tbody', {}, ...job.history.map(one => make('tr', {},
          cell(make('button', {onclick: () => { wanted = one.attempt; refresh(); }}, `log of attempt ${one.attempt}`), 'left'), cell(one.end ? state(one.end, one.reason) : job.over || one.attempt < job.attempts ? 'without a word' : state('running'), 'left'),
          cell(one.ended ? seconds(one.ended - one.started) : '–'), cell(one.reason || '', 'left wrap')))))] : []));
    }
    if (!job.attempts) return;
    const attempt = wanted || job.attempts;
    if (!log || shown !== attempt) {
      shown = attempt;
      log = new Log('/api/job-log?' + parameters([['id', id], ['attempt', shown]]));
      place.replaceChildren(make('h2', {}, `Log of attempt ${shown}`), log.root);
    }
    await log.update();
  };
}
