// A chart of curves: a cross that follows the pointer, and a closer look at what is dragged over.
const svg = (tag, attributes = {}) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// With as many digits as tell it from the next one, `step` away.
function label(value, step) {
  const size = Math.abs(value);
  if (size < step / 2) return '0';
  if (size >= 1e6 || size < 1e-4) {
    const digits = Math.max(0, Math.floor(Math.log10(size) + 1e-9) - Math.floor(Math.log10(step) + 1e-9));
    return value.toExponential(Math.min(digits, 20)).replace('e+', 'e');
  }
  return value.toFixed(Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))));
}
// Of an axis of powers of ten: these, or, where there are not two, round numbers between.
function powers(low, high) {
  const step = Math.max(1, Math.ceil((high - low) / 6)), found = [];
  for (let power = Math.ceil(low / step) * step; power <= high; power += step) found.push({value: power, text: label(10 ** power, 10 ** power)});
  if (found.length > 1) return found;
  return ticks(10 ** low, 10 ** high, 5).filter(({value}) => value > 0).map(({value, text}) => ({value: Math.log10(value), text}));
}
// Round numbers between, about `count` of them, and how they are told apart.
function ticks(low, high, count, least = 0) {
  const rough = Math.max((high - low) / count || 1, least), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough);
  const first = Math.ceil(low / step), last = Math.floor(high / step + 1e-9);
  const found = Array.from({length: Math.min(Math.max(0, last - first + 1), 3 * count)}, (_, i) => (first + i) * step);
  return found.map(value => ({value, text: label(value, step)}));
}

// An exponential mean without the pull to its beginning, as TensorBoard smooths.
function smoothed(values, weight) {
  let last = 0, norm = 0;
  return values.map(value => {
    if (!isFinite(value)) return value;
    last = weight * last + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return last / norm;
  });
}

class Chart {
  // `ask(from, to)` is called when another stretch is to be seen.
  constructor(title, ask) {
    this.ask = ask;
    this.clip = `clip-${Chart.count = (Chart.count || 0) + 1}`;
    this.last = make('span');
    this.svg = svg('svg', {role: 'img', 'aria-label': title});
    this.tip = make('div', {class: 'tip', hidden: ''});
    this.root = make('div', {class: 'chart'}, make('h3', {}, title, this.last), this.svg, this.tip);
    this.svg.onpointermove = event => this.point(event);
    this.svg.onpointerleave = () => { this.tip.hidden = true; this.cross?.remove(); };
    this.svg.onpointerdown = event => {
      event.preventDefault();  // nothing is selected
      this.from = this.at(event);
      this.svg.setPointerCapture(event.pointerId);
    };
    this.svg.onpointercancel = () => { this.from = undefined; };
    this.svg.onpointerup = event => this.zoom(event);
    this.svg.ondblclick = () => this.ask(null, null);
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  // curves: [{name, color (0 to 9), x, y}]
  show(curves, options) {
    this.curves = curves.map(curve => ({...curve, y: curve.y.map(Number)}));
    this.options = options;
    const ends = this.curves.filter(curve => curve.y.length);
    this.last.textContent = ends.length === 1 ? short(ends[0].y.at(-1)) : '';
    this.draw();
  }

  draw() {
    const box = this.svg.getBoundingClientRect();
    if (!this.curves || !box.width) return;
    const {smoothing, log, over} = this.options;
    // Beyond that, differences are no numbers any more.
    const usual = y => Math.abs(y) < 1e300 ? y : NaN;
    const transform = log ? y => y > 0 ? Math.log10(usual(y)) : NaN : usual;
    for (const curve of this.curves) curve.shown = smoothed(curve.y, smoothing).map(transform);
    const xs = this.curves.flatMap(curve => curve.x);
    const ys = this.curves.flatMap(curve => [...curve.shown, ...where(smoothing, ...curve.y.map(transform))]).filter(isFinite);
    if (!xs.length) return this.svg.replaceChildren();
    const least = list => list.reduce((a, b) => a < b ? a : b, Infinity);
    const most = list => list.reduce((a, b) => a > b ? a : b, -Infinity);
    let [x0, x1, y0, y1] = [this.options.from ?? least(xs), this.options.to ?? most(xs), least(ys), most(ys)];
    if (!isFinite(y0)) return this.say(log ? 'Nothing here is above zero.' : 'There are no numbers to draw.');
    if (x0 === x1) x1 = x0 + 1;
    // Smoothed, what is constant is not quite.
    if (y1 - y0 <= 1e-9 * Math.max(Math.abs(y0), Math.abs(y1))) [y0, y1] = [y0 - Math.abs(y0 || 1) / 10, y1 + Math.abs(y1 || 1) / 10];
    const room = (y1 - y0) * 0.06;
    y0 -= room; y1 += room;
    const heights = log ? powers(y0, y1) : ticks(y0, y1, 5);
    const left = 12 + 6.5 * Math.max(2, ...heights.map(({text}) => text.length));
    const right = box.width - 14, top = 8, bottom = box.height - 20;
    const x = value => left + (value - x0) / (x1 - x0) * (right - left);
    const y = value => bottom - (value - y0) / (y1 - y0) * (bottom - top);
    this.place = {x0, x1, y0, y1, left, right, top, bottom, x, y};
    const clip = svg('clipPath', {id: this.clip}), parts = [clip];
    clip.append(svg('rect', {x: left, width: right - left, y: 0, height: bottom}));
    for (const {value, text} of heights) {
      const line = y(value), mark = svg('text', {x: left - 6, y: line + 4, 'text-anchor': 'end'});
      mark.textContent = text;
      parts.push(svg('line', {x1: left, x2: right, y1: line, y2: line, class: 'grid'}), mark);
    }
    for (const {value, text} of ticks(x0, x1, Math.max(2, Math.floor((right - left) / 70)), over === 'time' ? 0 : 1)) {
      const mark = svg('text', {x: x(value), y: bottom + 15, 'text-anchor': 'middle'});
      mark.textContent = over === 'time' ? seconds(value) : value >= 1e4 && value % 100 === 0 ? `${value / 1e3}k` : text;
      parts.push(mark);
    }
    for (const curve of this.curves) {
      if (smoothing) parts.push(this.line(curve, curve.y.map(transform), 'curve raw c' + curve.color));
      parts.push(this.line(curve, curve.shown, 'curve c' + curve.color));
    }
    this.svg.replaceChildren(...parts, ...where(this.cross?.isConnected, this.cross));
  }

  say(text) {
    const words = svg('text', {x: 12, y: 30});
    words.textContent = text;
    this.place = null;
    this.svg.replaceChildren(words);
  }

  // A gap where there is no number; a number between gaps is a dot.
  line(curve, ys, kind) {
    let path = '', pen = 'M';
    curve.x.forEach((x, i) => {
      if (!isFinite(ys[i])) { pen = 'M'; return; }
      path += `${pen}${this.place.x(x).toFixed(1)} ${this.place.y(ys[i]).toFixed(1)}${pen === 'M' ? 'h0' : ''}`;
      pen = 'L';
    });
    if (curve.x.length === 1 && path) {
      const {x, y} = this.place;
      return svg('circle', {cx: x(curve.x[0]), cy: y(ys[0]), r: 3, class: kind.replace('curve ', '')});
    }
    return svg('path', {d: path, class: kind, 'clip-path': `url(#${this.clip})`});
  }

  at(event) {
    const {x0, x1, left, right} = this.place || {x0: 0, x1: 1, left: 0, right: 1};
    const share = (event.clientX - this.svg.getBoundingClientRect().left - left) / (right - left);
    return x0 + Math.min(1, Math.max(0, share)) * (x1 - x0);
  }

  point(event) {
    if (!this.place) return;
    const {x, top, bottom, left} = this.place, at = this.at(event);
    this.cross?.remove();
    if (this.from !== undefined && event.buttons) {
      const [a, b] = [x(this.from), x(at)].sort((p, q) => p - q);
      this.cross = svg('rect', {x: a, width: b - a, y: top, height: bottom - top, class: 'span'});
    } else {
      this.cross = svg('line', {x1: x(at), x2: x(at), y1: top, y2: bottom, class: 'cross'});
    }
    this.svg.append(this.cross);
    const rows = this.curves.filter(curve => curve.x.length).map(curve => {
      let i = curve.x.findIndex(value => value >= at);
      if (i < 0) i = curve.x.length - 1;
      if (i > 0 && at - curve.x[i - 1] < curve.x[i] - at) --i;
      return {curve, i};
    });
    if (!rows.length) return;
    const nearest = rows[0].curve.x[rows[0].i];
    const nameOf = curve => make('span', {}, make('i', {class: 'fill c' + curve.color}), rows.length > 1 ? curve.name : '');
    this.tip.replaceChildren(make('div', {class: 'note'}, this.options.over === 'time' ? seconds(nearest) : `step ${nearest}`),
      ...rows.slice(0, 12).map(({curve, i}) => make('div', {}, nameOf(curve), make('b', {}, short(curve.y[i])))));
    this.tip.hidden = false;
    const room = this.root.clientWidth, wide = this.tip.offsetWidth, near = x(at) + 24;
    this.tip.style.left = `${near + wide > room ? Math.max(0, x(at) - wide - left / 8) : near}px`;
    this.tip.style.top = '2.2rem';
  }

  zoom(event) {
    const to = this.at(event), from = this.from;
    this.from = undefined;
    const {x0, x1} = this.place || {};
    if (from === undefined || x0 === undefined || Math.abs(to - from) < (x1 - x0) / 50) return;
    this.ask(Math.floor(Math.min(from, to)), Math.ceil(Math.max(from, to)));
  }
}
