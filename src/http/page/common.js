'use strict';
const $ = id => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element[name] = value; else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};
let token = '';
// A server that has drawn a token prints it behind the address, where it is told to nobody.
function takeToken() {
  if (location.hash.startsWith('#token=')) {
    sessionStorage.setItem('token', location.hash.slice('#token='.length));
    history.replaceState(null, '', location.pathname);
    $('token-row').hidden = true;
  }
  token = sessionStorage.getItem('token') || '';
}
takeToken();
addEventListener('hashchange', takeToken);
let aborting = null;  // what a page asks for that is about to show something else
async function call(path, body) {
  const options = {headers: {}, signal: aborting?.signal};
  if (token) options.headers.Authorization = 'Bearer ' + token;
  if (body !== undefined) {
    options.method = 'POST';
    options.headers['Content-Type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const answer = await response.json();
  if (response.status === 401 || response.status === 403) $('token-row').hidden = false;
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}
$('token').onkeydown = event => { if (event.key === 'Enter') $('token-set').click(); };
$('token-set').onclick = () => {
  token = $('token').value.trim();
  sessionStorage.setItem('token', token);
  $('token-row').hidden = true;
  refresh();
};
