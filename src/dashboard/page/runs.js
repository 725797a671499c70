// The table of runs.
const chosen = new Set();  // for a comparison
const runLink = (id, text) => make('a', {href: '#/run/' + encodeURIComponent(id)}, text);

// Tags that have a column of their own: what is tested, then how it is learnt.
const columnsOf = tags => [...tags.filter(tag => tag.startsWith('test/') && tag !== 'test/loss'), ...['test/loss', 'train/loss', 'throughput/samples_per_second'].filter(tag => tags.includes(tag))].slice(0, 5);
const headOf = tag => tag === 'throughput/samples_per_second' ? 'samples/s' : tag.replace('/', ' ');

function progressOf(run) {
  if (!run.steps) return short(run.step);
  const bar = make('span', {class: 'progress', title: `${run.step} of ${run.steps} steps`}, make('span'));
  bar.firstChild.style.width = width(Math.min(1, run.step / run.steps));
  return make('span', {}, short(run.step), bar);
}

function runsView(root) {
  const asked = {search: '', state: '', sort: 'started', descending: 1, offset: 0};
  const limit = 100;
  const search = make('input', {type: 'search', placeholder: 'Search names and settings: lr=0.1 mnist', 'aria-label': 'search runs', value: asked.search});
  const chips = make('div', {class: 'row'}), body = make('div'), compare = make('button', {class: 'main', id: 'compare'}, 'Compare');
  const pages = make('div', {class: 'row'});
  compare.onclick = () => { location.hash = '#/compare/' + [...chosen].map(encodeURIComponent).join(','); };
  let typing;
  search.oninput = () => {
    clearTimeout(typing);
    typing = setTimeout(() => { asked.search = search.value; asked.offset = 0; refresh(); }, 200);
  };
  root.append(make('div', {class: 'row'}, search, compare), chips, body, pages);

  const sortBy = key => {
    asked.descending = asked.sort === key ? 1 - asked.descending : key === 'name' || key === 'state' ? 0 : 1;
    asked.sort = key;
    asked.offset = 0;
    refresh();
  };
  const head = (text, key, kind) => {
    const arrow = asked.sort === key ? asked.descending ? ' ↓' : ' ↑' : '';
    return [make('button', {onclick: () => sortBy(key)}, text + arrow), kind];
  };
  const row = (run, tags) => {
    const box = make('input', {type: 'checkbox', 'aria-label': 'compare ' + run.id});
    box.checked = chosen.has(run.id);
    // Of the box that is shown, which another one may have become.
    box.onchange = event => { event.target.checked ? chosen.add(run.id) : chosen.delete(run.id); count(); };
    return make('tr', {}, cell(box, 'box left'), cell(runLink(run.id, run.id === '.' ? run.name : run.id), 'left'), cell(state(run.state, run.reason), 'left'),
      make('td', {title: moment(run.started)}, ago(run.started)), cell(seconds(run.seconds)), cell(progressOf(run)), cell(String(run.ranks)),
      ...tags.map(tag => cell(short(run.latest[tag]))));
  };
  const count = () => {
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size ? `Compare ${chosen.size}` : 'Compare';
  };
  let before = '';
  return async () => {
    const found = await call('/api/runs?' + parameters([...Object.entries(asked), ['limit', limit]]));
    count();
    const now = JSON.stringify([found, asked, chosen.size, Math.floor(Date.now() / 15000)]);
    if (now === before) return;
    before = now;
    const chip = (text, value, n) => make('button', {class: 'chip' + (asked.state === value ? ' here' : ''), onclick: () => { asked.state = value; asked.offset = 0; refresh(); }}, `${text} ${n}`);
    const all = Object.values(found.states).reduce((a, b) => a + b, 0);
    draw(chips, chip('all', '', all), ...Object.entries(found.states).map(([name, n]) => chip(name, name, n)));
    if (found.total === 0) {
      draw(body, empty('No runs here yet. ', make('code', {}, 'sullae train mnist --run-dir DIR/first'), ' makes one.'));
      draw(pages);
      return;
    }
    const tags = columnsOf(found.tags);
    draw(body, table([['', 'box'], head('Run', 'name', 'left'), head('State', 'state', 'left'), head('Started', 'started'), head('Time', 'time'),
      head('Step', 'step'), ['Ranks'], ...tags.map(tag => head(headOf(tag), tag))], make('tbody', {}, ...found.runs.map(run => row(run, tags)))));
    const last = Math.min(asked.offset + limit, found.matching);
    const turn = (text, by, can) => {
      const button = make('button', {onclick: () => { asked.offset += by; refresh(); }}, text);
      button.disabled = !can;
      return button;
    };
    draw(pages, make('span', {class: 'note'}, found.matching ? `${asked.offset + 1} to ${last} of ${found.matching}` : 'No run matches.'),
      ...(found.matching > limit ? [turn('Before', -limit, asked.offset > 0), turn('Next', limit, last < found.matching)] : []));
  };
}
