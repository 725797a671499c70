// All curves of some runs, group by group, and what they are drawn by.
const settings = {smoothing: 0, log: false, over: 'step'};

class Charts {
  constructor(ids) {
    this.ids = ids;
    this.charts = new Map();
    this.zoom = {};
    const over = make('select', {'aria-label': 'horizontal axis'}, make('option', {value: 'step'}, 'by step'), make('option', {value: 'time'}, 'by time'));
    const smoothing = make('input', {type: 'range', min: 0, max: 0.99, step: 0.01, 'aria-label': 'smoothing'}), log = make('input', {type: 'checkbox'});
    over.value = settings.over; smoothing.value = settings.smoothing; log.checked = settings.log;
    over.onchange = () => { settings.over = over.value; this.look(null, null); };
    smoothing.oninput = () => { settings.smoothing = +smoothing.value; this.show(); };
    log.onchange = () => { settings.log = log.checked; this.show(); };
    this.whole = make('button', {onclick: () => this.look(null, null), hidden: ''}, 'Show all');
    this.body = make('div');
    this.more = make('p', {class: 'note'});
    this.root = make('div', {}, make('div', {class: 'row'}, over, make('label', {class: 'row'}, 'smoothing', smoothing), make('label', {class: 'row'}, log, 'logarithmic'), this.whole,
      make('span', {class: 'note'}, 'Drag over a chart to look closer; a double click shows all.')), this.body, this.more);
  }

  look(from, to) {
    this.zoom = from === null ? {} : {from, to};
    this.whole.hidden = from === null;
    this.show();
    refresh();
  }

  // tags: all that the runs have; of runs that are over nothing new comes.
  async update(all, over) {
    const most = 120, tags = all.slice(0, most);
    this.more.textContent = all.length > most ? `${all.length - most} more curves are not shown here; /api/curves has them.` : '';
    const groups = Map.groupBy ? Map.groupBy(tags, tag => tag.split('/')[0]) : tags.reduce((map, tag) => map.set(tag.split('/')[0], [...map.get(tag.split('/')[0]) || [], tag]), new Map());
    const known = [...this.charts.keys()].join('\n');
    for (const tag of tags) {
      if (!this.charts.has(tag)) this.charts.set(tag, new Chart(tag, (from, to) => this.look(from, to)));
    }
    if (known !== [...this.charts.keys()].join('\n')) {
      const order = ['test', 'train', 'throughput'];
      const names = [...groups.keys()].sort((a, b) => (order.indexOf(a) + 9) % 9 - (order.indexOf(b) + 9) % 9 || (a < b ? -1 : 1));
      this.body.replaceChildren(...names.map(name => make('section', {}, make('h2', {}, name), make('div', {class: 'charts'}, ...groups.get(name).map(tag => this.charts.get(tag).root)))));
    }
    const asked = '/api/curves?' + parameters([...this.ids.map(id => ['run', id]), ...tags.map(tag => ['tag', tag]), ['x', settings.over], ['points', 800], ...Object.entries(this.zoom)]);
    if (!tags.length || over && asked === this.asked) return;
    const found = await call(asked);
    this.asked = over ? asked : '';
    const now = JSON.stringify(found);
    if (now === this.before) return;
    this.before = now;
    this.runs = found.runs;
    this.show();
  }

  show() {
    if (!this.runs) return;
    for (const [tag, chart] of this.charts) {
      chart.show(this.runs.flatMap((run, i) => run.curves.filter(curve => curve.tag === tag).map(curve => ({name: run.id, color: i % 10, x: curve.x, y: curve.y}))),
        {...settings, ...this.zoom});
    }
  }
}
