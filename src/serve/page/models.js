const views = new Map();   // model -> its elements, made once so that what is typed stays
const before = new Map();  // "model/version" -> counters of the last look
const seconds = value => value === null ? '–' : value < 0.001 ? (value * 1e6).toFixed(0) + ' µs'
    : value < 1 ? (value * 1e3).toPrecision(3) + ' ms' : value.toPrecision(3) + ' s';
function percentile(buckets, q) {
  const total = buckets.reduce((sum, bucket) => sum + bucket[1], 0);
  if (total === 0) return null;
  let sum = 0;
  for (const [bound, count] of buckets) { sum += count; if (sum >= q * total) return bound; }
  return buckets[buckets.length - 1][0];
}
// What has been added since the last look; all there is at the first.
function since(key, metrics, now) {
  const last = before.get(key);
  before.set(key, {metrics, now});
  if (!last || last.metrics.success > metrics.success) return {rate: 0, buckets: metrics.latency_buckets};
  const old = new Map(last.metrics.latency_buckets);
  const added = metrics.latency_buckets.map(([bound, count]) => [bound, count - (old.get(bound) || 0)]).filter(b => b[1] > 0);
  return {rate: (metrics.success - last.metrics.success) / ((now - last.now) / 1000),
          buckets: added.length ? added : metrics.latency_buckets};
}

async function act(view, work) {
  view.problem.textContent = '';
  try { await work(); } catch (error) { view.problem.textContent = error.message; }
  refresh();
}
function makeView(model) {
  const view = {history: []};
  const name = encodeURIComponent(model.name);
  view.title = make('span', {class: 'note'});
  view.body = make('tbody');
  view.problem = make('div', {class: 'problem'});
  view.version = make('input', {type: 'number', min: 1, style: 'width: 5rem', 'aria-label': 'version'});
  view.percent = make('input', {type: 'number', min: 0, max: 100, value: 10, style: 'width: 5rem', 'aria-label': 'percent'});
  view.line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  const plot = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  plot.setAttribute('viewBox', '0 0 120 30'); plot.setAttribute('preserveAspectRatio', 'none'); plot.append(view.line);
  view.line.setAttribute('vector-effect', 'non-scaling-stroke');
  view.text = make('textarea', {placeholder: 'A text to classify', 'aria-label': 'text'});
  view.file = make('input', {type: 'file', accept: 'image/jpeg', 'aria-label': 'image', onchange: () => preview(view)});
  view.preview = make('img', {alt: '', class: 'preview', hidden: ''});
  view.answer = make('div', {class: 'answer'});
  view.chooser = make('div', {class: 'row'}, view.file, view.preview);
  view.form = make('div', {}, view.text, view.chooser,
    make('div', {class: 'row'}, make('button', {class: 'ask', onclick: () => act(view, () => ask(view, name))}, 'Ask')), view.answer);
  view.root = make('section', {},
    make('h2', {}, model.name + ' ', view.title),
    plot, make('div', {class: 'note'}, 'Requests a second over the last two minutes'),
    make('table', {}, make('thead', {}, make('tr', {},
      ...['Version', 'State', 'Requests', 'Failed', 'Requests/s', 'p50', 'p95', 'p99', 'Rows a batch', 'Waiting'].map(t => make('th', {}, t)))), view.body),
    make('div', {class: 'row'},
      make('button', {class: 'rollback', onclick: () => act(view, () => call(`/v1/models/${name}:rollback`, {}))}, 'Roll back'),
      make('button', {class: 'reload', onclick: () => act(view, () => call(`/v1/models/${name}:reload`, {}))}, 'Look for versions'),
      make('span', {}, 'Canary: version'), view.version, make('span', {}, 'gets'), view.percent, make('span', {}, '%'),
      make('button', {class: 'canary', onclick: () => act(view, () =>
        call(`/v1/models/${name}:canary`, {version: Number(view.version.value), percent: Number(view.percent.value)}))}, 'Set')),
    view.problem, view.form, makeOnline(view, name));
  $('models').append(view.root);
  views.set(model.name, view);
  return view;
}
function preview(view) {
  const file = view.file.files[0];
  URL.revokeObjectURL(view.preview.src);
  view.preview.hidden = !file;
  if (file) view.preview.src = URL.createObjectURL(file);
}
// What is asked about, as the server takes it: a text, or a JPEG file.
async function given(view) {
  if (view.input === 'text') return view.text.value;
  if (view.file.files.length === 0) throw new Error('Choose an image first: a JPEG file.');
  const bytes = new Uint8Array(await view.file.files[0].arrayBuffer());
  const parts = [];
  for (let at = 0; at < bytes.length; at += 4096) parts.push(String.fromCharCode(...bytes.subarray(at, at + 4096)));
  return {b64: btoa(parts.join(''))};
}
async function ask(view, name) {
  const input = await given(view);
  if (view.writes) {
    const written = await call(`/v2/models/${name}/generate`, {text_input: input, parameters: {seed: Math.floor(Math.random() * 1e9)}});
    view.answer.replaceChildren(make('div', {class: 'written'}, input, make('strong', {}, written.text_output)),
      makeLesson(view, name, input + written.text_output));
    return;
  }
  const answer = await call(`/v1/models/${name}:predict`, {instances: [input]});
  const prediction = answer.predictions[0];
  view.answer.replaceChildren(make('div', {}, 'Label ', make('strong', {class: 'label'}, String(prediction.label)),
    ` with probability ${(100 * prediction.probability).toFixed(1)} %`));
  const shown = prediction.probabilities.map((p, i) => [p, i]);
  if (shown.length > 10) { shown.sort((a, b) => b[0] - a[0]); shown.length = 10; }
  shown.forEach(([p, i]) => view.answer.append(make('div', {class: 'row'},
    make('span', {class: 'note'}, view.labels[i] || `class ${i}`),
    make('div', {class: 'scale'}, make('div', {class: 'bar', style: `width: ${100 * p}%`})), make('span', {}, (100 * p).toFixed(1) + ' %'))));
  if (view.labels.length) view.answer.append(makeCorrection(view, name, input, String(prediction.label)));
}
function show(model, now) {
  const view = views.get(model.name) || makeView(model);
  view.title.textContent = model.problem ? model.problem
    : (model.serving ? `version ${model.serving} answers` : 'no version answers')
      + (model.canary ? `, version ${model.canary} gets ${model.canary_percent} %` : '');
  let rate = 0;
  const rows = [];
  for (const version of [...model.versions].reverse()) {
    const cells = [String(version.version), make('span', {class: 'state ' + version.state},
      version.state + (version.version === model.serving ? ' · answers' : version.version === model.canary ? ' · canary' : ''))];
    if (version.metrics) {
      const m = version.metrics;
      const recent = since(model.name + '/' + version.version, m, now);
      rate += recent.rate;
      cells.push(m.success + m.failure, m.failure, recent.rate.toFixed(1),
        ...[0.5, 0.95, 0.99].map(q => seconds(percentile(recent.buckets, q))),
        m.batches ? (m.rows / m.batches).toFixed(1) : '–', m.waiting);
    }
    rows.push(make('tr', {}, ...cells.map(cell => make('td', {}, cell))));
    if (version.reason) rows.push(make('tr', {}, make('td', {colspan: 10, class: 'reason'}, version.reason)));
  }
  view.body.replaceChildren(...rows);
  view.history.push(rate);
  if (view.history.length > 60) view.history.shift();
  const top = Math.max(...view.history, 1);
  view.line.setAttribute('points', view.history.map((r, i) => `${2 * i},${29 - 28 * r / top}`).join(' '));
  const inputs = (model.versions.find(v => v.inputs) || {}).inputs || [];
  view.labels = model.labels;
  view.input = inputs.length === 1 && inputs[0].datatype === 'BYTES' ? inputs[0].name : '';
  const outputs = (model.versions.find(v => v.outputs) || {}).outputs || [];
  view.writes = outputs.length > 0 && outputs[0].name === 'next';
  view.text.placeholder = view.writes ? 'A text to go on with' : 'A text to classify';
  view.text.hidden = view.input !== 'text';
  view.chooser.hidden = view.input !== 'image';
  view.form.hidden = view.text.hidden && view.chooser.hidden;
  view.online.root.hidden = view.form.hidden || (model.labels.length === 0 && !view.writes);
  if (!view.online.root.hidden) showOnline(view, encodeURIComponent(model.name));
}
async function refresh() {
  try {
    const now = performance.now();
    const {models} = await call('/v1/models');
    const names = new Set(models.map(model => model.name));
    for (const [name, view] of views) {
      if (names.has(name)) continue;
      view.root.remove();
      views.delete(name);
    }
    if (views.size === 0) $('models').replaceChildren();
    models.forEach(model => show(model, now));
    if (models.length === 0) $('models').replaceChildren(make('p', {class: 'note'}, 'The repository has no models yet.'));
    $('problem').textContent = '';
  } catch (error) { $('problem').textContent = error.message; }
}
