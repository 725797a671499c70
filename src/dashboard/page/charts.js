// All curves of some runs, group by group, and what they are drawn by.
const settings = {smoothing: 0, log: false, over: 'step'};
const collator = new Intl.Collator('en', {numeric: true});
const groupOf = tag => tag.split('/')[0];

class Charts {
  constructor(ids) {
    this.ids = ids;
    this.charts = new Map();
    this.zoom = {};
    this.most = 120;
    const over = make('select', {'aria-label': 'horizontal axis'},
      make('option', {value: 'step'}, 'by step'), make('option', {value: 'time'}, 'by time'));
    const smoothing = make('input', {type: 'range', min: 0, max: 0.99, step: 0.01, 'aria-label': 'smoothing'});
    const log = make('input', {type: 'checkbox'});
    over.value = settings.over;
    smoothing.value = settings.smoothing;
    log.checked = settings.log;
    over.onchange = () => { settings.over = over.value; this.look(null, null); };
    smoothing.oninput = () => { settings.smoothing = +smoothing.value; this.show(); };
    log.onchange = () => { settings.log = log.checked; this.show(); };
    this.whole = make('button', {onclick: () => this.look(null, null), hidden: ''}, 'Show all');
    this.body = make('div');
    this.more = make('p', {class: 'note'});
    this.root = make('div', {}, make('div', {class: 'row'}, over, make('label', {class: 'row'}, 'smoothing', smoothing),
      make('label', {class: 'row'}, log, 'logarithmic'), this.whole,
      make('span', {class: 'note'}, 'Drag over a chart to look closer; a double click shows all.')), this.body, this.more);
  }

  look(from, to) {
    this.zoom = from === null ? {} : {from, to};
    this.whole.hidden = from === null;
    this.show();
    refresh();
  }

  // all: the tags that the runs have; of runs that are over nothing new comes.
  async update(all, over) {
    const tags = this.ordered(all).slice(0, this.most), left = all.length - tags.length;
    draw(this.more, ...where(left > 0, `${left} more curves. `, make('button', {onclick: () => { this.most = 500; refresh(); }}, 'Show them')));
    this.place(tags);
    const asked = '/api/curves?' + parameters([...this.ids.map(id => ['run', id]), ...tags.map(tag => ['tag', tag]),
      ['x', settings.over], ['points', 800], ...Object.entries(this.zoom)]);
    if (!tags.length || over && asked === this.asked) return;
    const found = await call(asked);
    this.asked = over ? asked : '';
    const now = JSON.stringify(found);
    if (now === this.before) return;
    this.before = now;
    this.runs = found.runs;
    this.show();
  }

  // What is tested first, then what is trained; layer 2 before layer 10.
  ordered(tags) {
    const first = ['test', 'train', 'throughput'];
    const rank = tag => first.includes(groupOf(tag)) ? first.indexOf(groupOf(tag)) : first.length;
    return [...tags].sort((a, b) => rank(a) - rank(b) || collator.compare(a, b));
  }

  // New ones among those of their group.
  place(tags) {
    const fresh = tags.filter(tag => !this.charts.has(tag));
    for (const tag of fresh) this.charts.set(tag, new Chart(tag, (from, to) => this.look(from, to)));
    if (!fresh.length) return;
    const chartsOf = group => tags.filter(tag => groupOf(tag) === group).map(tag => this.charts.get(tag).root);
    this.body.replaceChildren(...[...new Set(tags.map(groupOf))].map(group =>
      make('section', {}, title(group), make('div', {class: 'charts'}, ...chartsOf(group)))));
  }

  show() {
    if (!this.runs) return;
    for (const [tag, chart] of this.charts) {
      const curves = this.runs.flatMap((run, i) => run.curves.filter(curve => curve.tag === tag)
        .map(({x, y}) => ({name: run.id, color: i % 10, x, y})));
      chart.show(curves, {...settings, ...this.zoom});
    }
  }
}
