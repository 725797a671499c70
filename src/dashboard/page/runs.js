// The table of runs.
const chosen = new Set();  // for a comparison
const runLink = id => make('a', {href: '#/run/' + encodeURIComponent(id)}, id);

// Tags that have a column of their own: what is tested, then how it is learnt.
function columnsOf(tags) {
  const tested = tags.filter(tag => tag.startsWith('test/') && tag !== 'test/loss');
  const usual = ['test/loss', 'train/loss', 'throughput/samples_per_second'].filter(tag => tags.includes(tag));
  return [...tested, ...usual].slice(0, 5);
}
const headOf = tag => tag === 'throughput/samples_per_second' ? 'samples/s' : tag.replace('/', ' ');

function progressOf(run) {
  if (!run.steps) return short(run.step);
  const bar = make('span', {class: 'progress', title: `${run.step} of ${run.steps} steps`}, make('span'));
  bar.firstChild.style.width = width(Math.min(1, run.step / run.steps));
  return make('span', {}, short(run.step), bar);
}

// `said`: what is asked for, as the address has it.
function runsView(root, said = '') {
  const limit = 100, usual = {search: '', state: '', sort: 'started', descending: '1', offset: '0'};
  const asked = {...usual, ...Object.fromEntries(new URLSearchParams(said)), limit};
  const ask = changes => {
    Object.assign(asked, {offset: 0}, changes);
    const differs = Object.keys(usual).filter(key => String(asked[key]) !== usual[key]);
    history.replaceState(null, '', '#/runs' + (differs.length ? '?' + parameters(differs.map(key => [key, asked[key]])) : ''));
    refresh();
  };
  const search = make('input', {type: 'search', placeholder: 'Search names and settings: lr=0.1 mnist', 'aria-label': 'search runs', value: asked.search});
  let typing;
  search.oninput = () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask({search: search.value}), 200);
  };
  const compare = make('button', {class: 'main', id: 'compare'}, 'Compare');
  compare.disabled = true;
  compare.onclick = () => { location.hash = '#/compare/' + [...chosen].map(encodeURIComponent).join(','); };
  const count = () => {
    const most = 50;
    compare.disabled = chosen.size < 2 || chosen.size > most;
    compare.textContent = chosen.size > most ? `Compare at most ${most}` : chosen.size ? `Compare ${chosen.size}` : 'Compare';
  };
  const chips = make('div', {class: 'row'}), body = make('div'), pages = make('div', {class: 'row'});
  root.append(make('div', {class: 'row'}, search, compare), chips, body, pages);

  const head = (text, key) => {
    const descends = asked.sort === key ? 1 - +asked.descending : key === 'name' || key === 'state' ? 0 : 1;
    const arrow = asked.sort !== key ? '' : +asked.descending ? ' ↓' : ' ↑';
    return make('button', {onclick: () => ask({sort: key, descending: descends})}, text + arrow);
  };
  const boxOf = run => {
    const box = make('input', {type: 'checkbox', 'aria-label': 'compare ' + run.id});
    box.checked = chosen.has(run.id);
    // Of the box that is shown, which another one may have become.
    box.onchange = event => {
      if (event.target.checked) chosen.add(run.id); else chosen.delete(run.id);
      count();
    };
    return box;
  };
  const chip = (text, name, number) =>
    make('button', {class: 'chip' + (asked.state === name ? ' here' : ''), onclick: () => ask({state: name})}, `${text} ${number}`);
  const turn = (text, by, can) => {
    const button = make('button', {onclick: () => ask({offset: +asked.offset + by})}, text);
    button.disabled = !can;
    return button;
  };

  return async () => {
    const found = await call('/api/runs?' + parameters(Object.entries(asked)));
    count();
    const all = Object.values(found.states).reduce((a, b) => a + b, 0);
    draw(chips, chip('all', '', all), ...Object.entries(found.states).map(([name, number]) => chip(name, name, number)));
    if (found.total === 0) {
      draw(body, empty('No runs here yet. ', command('sullae train mnist --run-dir DIR/first'), ' makes one.'));
      draw(pages);
      return;
    }
    draw(body, sheet([
      ['', boxOf, 'box left'],
      [head('Run', 'name'), run => runLink(run.id), 'left name'],
      [head('State', 'state'), run => state(run.state, run.reason), 'left'],
      [head('Started', 'started'), run => whenAgo(run.started)],
      [head('Time', 'time'), run => seconds(run.seconds)],
      [head('Step', 'step'), progressOf],
      ['Ranks', run => String(run.ranks)],
      ...columnsOf(found.tags).map(tag => [head(headOf(tag), tag), run => short(run.latest[tag])]),
    ], found.runs));
    const last = Math.min(+asked.offset + limit, found.matching);
    draw(pages, make('span', {class: 'note'}, found.matching ? `${+asked.offset + 1} to ${last} of ${found.matching}` : 'No run matches.'),
      ...where(found.matching > limit, turn('Before', -limit, +asked.offset > 0), turn('Next', limit, last < found.matching)));
  };
}
