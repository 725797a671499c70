// Numbers, times and states for people.
const parameters = pairs => pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');

function seconds(value) {
  if (!isFinite(value)) return '–';
  if (value < 60) return `${value < 10 && value % 1 ? value.toFixed(1) : Math.round(value)} s`;
  const days = Math.floor(value / 86400), hours = Math.floor(value % 86400 / 3600), minutes = Math.floor(value % 3600 / 60);
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(value % 60)} s`;
}
const moment = time => time ? new Date(time * 1000).toLocaleString() : '–';
function ago(time) {
  if (!time) return '–';
  const past = Math.max(0, Date.now() / 1000 - time);
  if (past < 10) return 'now';
  const [unit, size] = past < 60 ? ['s', 1] : past < 3600 ? ['min', 60] : past < 86400 ? ['h', 3600] : ['d', 86400];
  return `${Math.floor(past / size)} ${unit} ago`;
}
// A value of a curve: NaN and Infinity come as texts.
function short(value) {
  if (typeof value !== 'number') return value === undefined ? '–' : String(value);
  const size = Math.abs(value);
  if (value === 0 || Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, 'e');
  return size >= 1000 ? value.toFixed(0) : String(+value.toPrecision(4));
}
function bytes(value) {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} GB`;
  return value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : `${Math.ceil(value / 1e3)} kB`;
}
// As people and style sheets write it.
const width = part => `${(100 * Math.max(0, part)).toFixed(2)}%`;
const percent = part => `${(100 * part).toFixed(1)} %`;

const kinds = {
  good: ['completed', 'done', 'kept', 'idle'],
  live: ['running', 'mixed', 'allocated'],
  warn: ['pending', 'waiting', 'stopped', 'interrupted', 'unknown', 'preempted', 'cancelled', 'blocked', 'unsubmitted',
    'running, late', 'done, late'],
};
const kindOf = text => Object.keys(kinds).find(kind => kinds[kind].includes(text)) || 'bad';
const state = (text, reason = '') => make('span', {class: 'state ' + kindOf(text), title: reason}, text);

const note = (...content) => make('p', {class: 'note'}, ...content);
const title = text => make('h2', {}, text);
const card = (label, value) => make('div', {class: 'card'}, make('b', {}, value), make('span', {}, label));
const cards = (...pairs) => make('div', {class: 'cards'}, ...pairs.filter(Boolean).map(([label, value]) => card(label, value)));
const empty = (...content) => make('div', {class: 'empty'}, ...content);
const command = text => make('code', {}, text);
const problemsOf = texts => texts.map(text => make('p', {class: 'problem'}, text));
const since = (started, ended) => started ? seconds((ended || Date.now() / 1000) - started) : '–';
const whenAgo = time => make('span', {title: moment(time)}, ago(time));
// Some parts, where there is a reason for them.
const where = (condition, ...parts) => condition ? parts : [];

// A table. Each column: its heading, what an item has there, and how that is set.
const sheet = (columns, items) => {
  const head = columns.map(([text, , kind = '']) => make('th', {class: kind.includes('left') ? 'left' : '', scope: 'col'}, text));
  const row = item => make('tr', {}, ...columns.map(([, content, kind = '']) => make('td', {class: kind}, content(item))));
  return make('div', {class: 'scroll'}, make('table', {},
    make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...items.map(row))));
};

// Makes `old` what `fresh` is, and keeps what is the same, so that what is pressed, focused or selected stays so.
function patch(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const {name} of [...old.attributes]) {
    if (name !== 'style' && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const {name, value} of fresh.attributes) {
    if (name !== 'style' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const property of ['onclick', 'onchange', 'checked', 'disabled']) {
    if (property in fresh) old[property] = fresh[property];
  }
  draw(old, ...fresh.childNodes);
}
function draw(parent, ...children) {
  const nodes = children.map(child => child instanceof Node ? child : document.createTextNode(child));
  while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
  nodes.forEach((node, i) => parent.childNodes[i] ? patch(parent.childNodes[i], node) : parent.append(node));
}
