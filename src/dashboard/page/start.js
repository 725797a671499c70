// Which view is shown, and when it is asked for again.
const period = 1000;
let update = null, busy = false, again = false;

const decoded = word => {
  try { return decodeURIComponent(word); } catch { return word; }
};

function open() {
  aborting?.abort();
  aborting = new AbortController();
  const [name = 'runs', ...rest] = location.hash.replace(/^#\//, '').split('/');
  const words = rest.map(word => name === 'compare' ? word : decoded(word));
  const views = {runs: runsView, run: runView, compare: compareView, jobs: jobsView, job: jobView, pipelines: pipelinesView, pipeline: pipelineView, models: modelsView};
  const view = Object.hasOwn(views, name) ? name : 'runs';
  const section = {run: 'runs', compare: 'runs', job: 'jobs', pipeline: 'pipelines'}[view] || view;
  for (const link of $('nav').children) link.classList.toggle('here', link.dataset.section === section);
  document.title = `Sullae: ${words[0] || section}`;
  const root = make('div');
  $('main').replaceChildren(root);
  update = views[view](root, ...words);
  refresh();
}

async function overview() {
  const found = await call('/api/overview');
  $('folder').textContent = found.folder;
  $('folder').title = 'Sullae ' + found.version;
  for (const name of ['runs', 'pipelines', 'models']) $('count-' + name).textContent = found[name] || '';
  $('nav-jobs').hidden = !found.cluster;
  return found.problems;
}

// One question at a time, whatever is clicked.
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  do {
    again = false;
    const asked = update;
    try {
      const problems = await overview();
      await asked();
      $('problem').textContent = problems.join('\n');
    } catch (error) {
      if (asked === update && error.name !== 'AbortError') $('problem').textContent = error instanceof TypeError && error.message.includes('fetch') ? 'The dashboard does not answer.' : error.message;
    }
    if (asked !== update) again = true;
  } while (again);
  busy = false;
}
addEventListener('hashchange', open);
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
setInterval(() => { if (!document.hidden) refresh(); }, period);
open();
